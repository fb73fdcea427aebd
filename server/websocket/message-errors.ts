import type { ApiError } from '#server/errors/api-error.ts';
import type { ErrorFormat } from '#server/wire/error-format.ts';

/**
 * Errors as OpenAI's WebSocket mode has them: `{"type":"error","status","error":{…}}`. Some clients read the
 * headers of the error from the message, others from the object in it.
 */
export const MESSAGE_ERRORS: ErrorFormat = {
  body: (refusal, requestId) => errorMessage(refusal, requestId),
  event: (refusal, requestId, eventsBefore) => `data: ${errorMessage(refusal, requestId, eventsBefore)}\n\n`,
};

/** @param sequence the number of the event; absent: the response has none. */
export function errorMessage(refusal: ApiError, requestId: string, sequence?: number): string {
  const headers = JSON.stringify(headersOf(refusal, requestId));
  return [
    `{"type":"error","status":${refusal.status}`,
    `"error":${refusal.errorJson().slice(0, -1)},"headers":${headers}}`,
    `"headers":${headers}`,
    ...(sequence === undefined ? [] : [`"sequence_number":${sequence}`]),
    `"request_id":"${requestId}"}`,
  ].join(',');
}

/** The headers that an HTTP reply would have, without those of its body. */
function headersOf(refusal: ApiError, requestId: string): Record<string, string> {
  const pairs = refusal.headers(requestId, 0);
  const headers: Record<string, string> = {};
  for (let index = 0; index < pairs.length; index += 2) {
    const name = pairs[index] as string;
    if (!name.startsWith('content-')) headers[name] = pairs[index + 1] as string;
  }
  return headers;
}

/** The status of an error that an upstream reports in its stream, where its code has no other. */
const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  context_length_exceeded: 400,
  invalid_prompt: 400,
};
const FAILED = 502;

type Fault = { code?: unknown; message?: unknown; param?: unknown; type?: unknown };

/**
 * An event that reports an error, as upstreams write them in a stream, as a message: clients wait for the end
 * of the response where an error has no status. @returns null: it is no error, or is such a message already.
 */
export function asErrorMessage(event: unknown): string | null {
  if (typeof event !== 'object' || event === null) return null;
  const { type, status, error, sequence_number } = event as Fault & Record<string, unknown>;
  if (type !== undefined && type !== 'error') return null;
  const nested = typeof error === 'object' && error !== null ? (error as Fault) : null;
  if (type === undefined && !error) return null;
  if (typeof status === 'number' && nested) return null;
  const fault: Fault = nested ?? event;
  const { code, message, param } = fault;
  const ownType = nested?.type;
  return JSON.stringify({
    type: 'error',
    status: typeof status === 'number' ? status : (STATUS_OF_CODE[String(code)] ?? FAILED),
    error: {
      type: typeof ownType === 'string' ? ownType : 'server_error',
      code: code ?? null,
      message: typeof message === 'string' ? message : typeof error === 'string' ? error : '',
      param: param ?? null,
    },
    ...(typeof sequence_number === 'number' ? { sequence_number } : {}),
  });
}
