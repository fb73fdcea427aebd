import type { IncomingMessage } from 'node:http';
import { HEADERS_MAX } from '#server/http/bounds.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** The characters of a name or address with a port (RFC 3986). */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/;

/**
 * Rejects requests that the parser accepts although two servers may read them differently: the Host must be
 * unambiguous, and so must the end of the body.
 */
export function checkHeaders({ rawHeaders, httpVersion, headers }: IncomingMessage): ApiError | null {
  if (rawHeaders.length > 2 * HEADERS_MAX) return new ApiError('headers_too_large');
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  if (hosts > 1) return malformed('A request must have one Host header only.');
  if (hosts === 0 && httpVersion === '1.1') return malformed('A request in HTTP/1.1 needs a Host header.');
  if (!HOST.test(headers.host ?? ''))
    return malformed('The Host header is not a host with an optional port.');
  const coding = headers['transfer-encoding'];
  if (coding === undefined) return null;
  if (httpVersion !== '1.1') return malformed('Transfer-Encoding needs HTTP/1.1.');
  // The parser takes any list that ends in chunked, and leaves the rest undecoded.
  return coding.toLowerCase() === 'chunked'
    ? null
    : malformed('The only supported Transfer-Encoding is chunked.');
}

function malformed(message: string): ApiError {
  return new ApiError('bad_request', { message });
}
