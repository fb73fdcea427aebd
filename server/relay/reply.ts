import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { discardRest } from '#server/http/lingering-close.ts';
import type { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ClientReply } from '#server/http/client-reply.ts';
import { OPENAI_ERRORS, type ErrorFormat } from '#server/wire/error-format.ts';

/** What every reply to a request carries. */
export type Reply = {
  /** The relay's own id of this request: in the log, on every reply, in every error. */
  requestId: string;
  /** Headers for every reply to it, in pairs. */
  extraHeaders: readonly string[];
  /** The format of errors; absent: OpenAI's. */
  errorFormat?: ErrorFormat;
  /** Its diagnostic lines; absent: none. */
  diagnostics?: RequestDiagnostics;
};

/** No browser is to guess another type: a reply may hold what an upstream or a model wrote. */
const SAFETY_HEADERS: readonly string[] = ['x-content-type-options', 'nosniff'];
const CORS_HEADERS: readonly string[] = [
  ...SAFETY_HEADERS,
  'access-control-allow-origin',
  '*',
  'access-control-expose-headers',
  [
    'x-request-id, request-id, retry-after, retry-after-ms, x-should-retry',
    'x-daybook-unsupported, x-daybook-untranslated, x-daybook-count-source, x-quota-reset',
    'idempotent-replayed, original-request',
    'x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests',
    'x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens',
  ].join(', '),
];

/**
 * The headers of every reply under /v1, with those that let a page on another origin read a reply. Keys
 * travel in a header that a page must set itself and cookies play no part, so every origin may read what its
 * key may get.
 */
export function corsHeaders(headers: IncomingHttpHeaders): readonly string[] {
  return headers.origin === undefined ? SAFETY_HEADERS : CORS_HEADERS;
}

/** Answers a preflight, which never carries a key. */
export function answerPreflight(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
  const asked = request.headers['access-control-request-headers'];
  response.writeHead(204, [
    'access-control-allow-methods',
    'GET, POST, DELETE, OPTIONS',
    'access-control-allow-headers',
    safeHeaderList(asked) ?? 'authorization, content-type',
    'access-control-max-age',
    '7200',
    'vary',
    'origin, access-control-request-headers',
    'x-request-id',
    reply.requestId,
    ...CORS_HEADERS,
  ]);
  response.end();
}

function safeHeaderList(asked: string | undefined): string | undefined {
  return asked !== undefined && asked.length <= 2_000 && /^[\w\-, ]+$/.test(asked) ? asked : undefined;
}

/**
 * Refuses a request: the catalogue's answer at once, whatever of its body is still to come. That
 * is read and thrown away, so that the client gets to read the answer, but only up to a bound.
 */
export function sendError(
  request: IncomingMessage,
  response: ClientReply,
  reply: Reply,
  refusal: ApiError,
): void {
  if (response.headersSent || response.destroyed) return;
  reply.diagnostics?.rejected(refusal);
  const body = (reply.errorFormat ?? OPENAI_ERRORS).body(refusal, reply.requestId);
  response.writeHead(refusal.status, [
    ...refusal.headers(reply.requestId, Buffer.byteLength(body)),
    ...reply.extraHeaders,
  ]);
  discardRest(request);
  response.end(body);
}

/** A refusal as the bytes of a whole reply, for a connection without a response object; it ends with it. */
export function bareRefusal(refusal: ApiError, requestId: string): string {
  const body = refusal.body(requestId);
  const pairs = [
    ...refusal.headers(requestId, Buffer.byteLength(body)),
    ...SAFETY_HEADERS,
    'connection',
    'close',
  ];
  let head = `HTTP/1.1 ${refusal.status} ${refusal.code}\r\n`;
  for (let index = 0; index < pairs.length; index += 2) head += `${pairs[index]}: ${pairs[index + 1]}\r\n`;
  return `${head}\r\n${body}`;
}

/**
 * JSON, or a form, and not compressed. A missing Content-Type is taken for JSON, as many clients send none;
 * the one of a form is read with its boundary.
 */
export function checkMedia(headers: IncomingHttpHeaders, isForm = false): ApiError | null {
  const type = headers['content-type'];
  if (!isForm && type !== undefined && !/^application\/(?:[\w.+-]+\+)?json *(?:;|$)/i.test(type)) {
    return new ApiError('unsupported_media_type');
  }
  const encoding = headers['content-encoding'];
  return encoding === undefined || encoding === 'identity' ? null : new ApiError('unsupported_encoding');
}

/** How often the client has tried this call before, when it says so. */
export function clientRetryCount(headers: IncomingHttpHeaders): number | undefined {
  const count = headers['x-stainless-retry-count'];
  return typeof count === 'string' && /^\d{1,4}$/.test(count) ? Number(count) : undefined;
}
