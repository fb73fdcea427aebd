import type { ProviderRequest } from '#server/providers/provider.ts';

/** The body of a request to a provider as text; for requests whose body is held whole, not streamed. */
export function requestText({ body }: Pick<ProviderRequest, 'body'>): string {
  if (!Buffer.isBuffer(body)) throw new Error('the body of the request is a stream');
  return body.toString();
}
