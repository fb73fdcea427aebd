import { STATUS_CODES } from 'node:http';
import type { Script } from './script.ts';

type Header = [name: string, value: string];

/** Never to be seen by a client of the relay: the name of a machine behind the upstream. */
export const INNER_HOST = 'inner-7.upstream.internal';

const FILLER_HEADER_BYTES = 1000;

/**
 * Headers that real providers send with every reply and that a relay must not pass on as they are:
 * cookies, the owner of the credential, the provider's own limits, request id and CORS rules.
 */
export function ownHeaders(attempt: number): Header[] {
  return [
    ['date', new Date().toUTCString()],
    ['server', 'scripted-upstream'],
    ['x-request-id', `req_upstream_${attempt}`],
    ['set-cookie', `__scripted=${attempt}; path=/; HttpOnly; Secure`],
    ['openai-organization', 'org-scripted'],
    ['openai-project', 'proj_scripted'],
    ['openai-processing-ms', '12'],
    ['openai-version', '2020-10-01'],
    ['access-control-allow-origin', 'https://upstream.example'],
    ['access-control-expose-headers', 'X-Request-ID'],
    ['x-ratelimit-limit-requests', '500'],
    ['x-ratelimit-remaining-requests', '499'],
    ['x-ratelimit-reset-requests', '120ms'],
    ['x-ratelimit-limit-tokens', '200000'],
    ['x-ratelimit-remaining-tokens', '199000'],
    ['x-ratelimit-reset-tokens', '300ms'],
  ];
}

/** Filler headers of about this size in all. */
export function fillerHeaders(sizeBytes: number): Header[] {
  const headers: Header[] = [];
  for (let left = sizeBytes; left > 0; left -= FILLER_HEADER_BYTES) {
    headers.push([`x-filler-${headers.length}`, 'f'.repeat(Math.min(left, FILLER_HEADER_BYTES))]);
  }
  return headers;
}

/** The bytes of a reply's head. */
export function headBytes(status: number, headers: Header[]): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unheard Of'}\r\n${lines.join('')}\r\n`,
    'latin1',
  );
}

type ErrorRow = { type: string; code: string | null; message: string };

const ERRORS: Record<number, ErrorRow> = {
  400: invalid(null, "'temperature' has to be a number between 0 and 2."),
  403: invalid('unsupported_country_region_territory', 'This country or region is not served.'),
  404: invalid('model_not_found', 'There is no such model, or it is not yours to use.'),
  408: { type: 'server_error', code: 'request_timeout', message: 'The request took too long.' },
  413: invalid('context_length_exceeded', 'The messages are longer than the context of the model.'),
  422: invalid(null, "The property 'surprise' is not expected here."),
  429: {
    type: 'tokens',
    code: 'rate_limit_exceeded',
    message: 'Too many tokens per minute. Try again in 1s.',
  },
};
const SERVER_ERROR: ErrorRow = {
  type: 'server_error',
  code: null,
  message: 'The server had an error while processing your request.',
};

function invalid(code: string | null, message: string): ErrorRow {
  return { type: 'invalid_request_error', code, message };
}

/** The object that OpenAI answers an error with. A 401 quotes the credential, as real ones do in part. */
export function errorObject(status: number, credential: string | null): object {
  if (status === 401) {
    const message = `Incorrect API key provided: ${credential ?? '(none)'}.`;
    return { error: { message, type: 'invalid_request_error', param: null, code: 'invalid_api_key' } };
  }
  const { message, type, code } = ERRORS[status] ?? SERVER_ERROR;
  return { error: { message, type, param: null, code } };
}

/** What an error answer carries besides: its headers, and its body. */
export function errorReply(
  script: Script,
  credential: string | null,
  errorJson: typeof errorObject,
): { headers: Header[]; body: Buffer } {
  const { status } = script;
  const headers: Header[] = [];
  if (status === 101) headers.push(['connection', 'upgrade'], ['upgrade', 'websocket']);
  else if (status >= 300 && status < 400) headers.push(['location', '/redirected']);
  const retryAfter = script.retry || (status === 429 || status === 503 ? '1' : '');
  if (retryAfter !== '') headers.push(['retry-after', retryAfter]);
  if (script.body === 'empty' || status < 200 || status === 304) return { headers, body: Buffer.alloc(0) };
  if (script.body === 'html') {
    headers.push(['content-type', 'text/html']);
    const title = `${status} ${STATUS_CODES[status] ?? 'Unheard Of'}`;
    const content = `<h1>${title}</h1><hr>${INNER_HOST}`;
    const html = `<html><head><title>${title}</title></head><body>${content}</body></html>\n`;
    return { headers, body: Buffer.from(html) };
  }
  headers.push(['content-type', 'application/json']);
  return { headers, body: Buffer.from(JSON.stringify(errorJson(status, credential))) };
}
