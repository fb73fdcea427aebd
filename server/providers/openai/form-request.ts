import { Readable } from 'node:stream';
import type { ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import type { Body } from '#server/wire/read-body.ts';

/**
 * The request of a call whose body is a form: the client's bytes with the upstream's name of the model, and
 * what follows them as it comes. The Content-Type states the boundary alone, so that the upstream reads the
 * form as the relay has.
 */
export function formRequest({ route, body, parsed, model }: ProviderCall): ProviderRequest {
  const { boundary, model: span } = parsed.form as NonNullable<typeof parsed.form>;
  const bytes =
    model === parsed.model
      ? body.bytes
      : Buffer.concat([
          body.bytes.subarray(0, span.start),
          Buffer.from(model),
          body.bytes.subarray(span.end),
        ]);
  const { rest } = body;
  const length = rest === undefined || rest.length === null ? null : bytes.length + rest.length;
  return {
    path: route.slice('/v1'.length),
    body: rest === undefined ? bytes : Readable.from(joined(bytes, rest), { objectMode: false }),
    contentType: `multipart/form-data; boundary="${boundary}"`,
    headers: length === null ? [] : ['content-length', String(length)],
    unsupported: [],
  };
}

async function* joined(bytes: Buffer, rest: NonNullable<Body['rest']>): AsyncGenerator<Buffer, void> {
  yield bytes;
  yield* rest.chunks();
}
