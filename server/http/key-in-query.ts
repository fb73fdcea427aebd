import type { IncomingMessage } from 'node:http';

/**
 * Moves the key of a request's query, where Google's older clients send it, to the header that the others
 * use: from here on no part of the server sees it in an address. Servers do so where KEY_IN_QUERY accepts it.
 */
export function moveKeyToHeader(request: IncomingMessage): void {
  const [path = '', query] = (request.url ?? '').split('?', 2);
  if (query === undefined) return;
  const parameters = new URLSearchParams(query);
  const [key, ...more] = parameters.getAll('key');
  // Of several the caller is ambiguous; they stay, and are rejected.
  if (key === undefined || more.length > 0) return;
  parameters.delete('key');
  request.url = parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
  request.rawHeaders.push('x-goog-api-key', key);
  request.headers['x-goog-api-key'] ??= key;
}
