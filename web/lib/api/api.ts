/** Client of the dashboard's API: same origin, JSON, typed errors. */

/** A failed API request. */
export class ApiError extends Error {
  override name = 'ApiError';
  /** 0 if there was no response. */
  readonly status: number;
  readonly code: string;
  /** The invalid body field or parameter. */
  readonly param: string | null;
  readonly requestId: string | null;
  readonly retryAfterS: number | null;

  constructor(
    message: string,
    more: {
      status: number;
      code: string;
      param?: string | null;
      requestId?: string | null;
      retryAfterS?: number | null;
    },
  ) {
    super(message);
    this.status = more.status;
    this.code = more.code;
    this.param = more.param ?? null;
    this.requestId = more.requestId ?? null;
    this.retryAfterS = more.retryAfterS ?? null;
  }
}

type ErrorBody = { error?: { message?: string; code?: string; param?: string | null }; request_id?: string };

/** Called when the session has ended. */
let onSignedOut: () => void = () => {};
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}
/** For callers other than requests, such as the live feed. */
export const notifySignedOut = (): void => onSignedOut();

export const noReply = (method: string): ApiError =>
  new ApiError(
    method === 'GET'
      ? 'The server is not responding. Check your connection.'
      : 'The server is not responding. Check your connection and whether the change was saved.',
    { status: 0, code: 'no_reply' },
  );

/** Longer than the server's own timeout for reads. */
const TIMEOUT_MS = 30_000;

/**
 * Sends a request to the dashboard's API.
 * @param path starts with `/api/v1/`, with an encoded query.
 * @throws {ApiError} for any failure.
 */
export async function api<T>(
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  let response: Response;
  try {
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    response = await fetch(path, {
      method,
      credentials: 'same-origin',
      headers:
        body === undefined
          ? { accept: 'application/json' }
          : { accept: 'application/json', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw noReply(method);
  }
  // Undefined means an incomplete or late response, since JSON has no undefined.
  const parsed: unknown = await response.json().catch(() => undefined);
  signal?.throwIfAborted();
  if (response.ok && parsed === undefined) throw noReply(method);
  if (response.ok) return parsed as T;
  const failure = failureOf(response, parsed);
  if (failure.code === 'unauthenticated') onSignedOut();
  throw failure;
}

/**
 * Converts an error response.
 * @param body the parsed JSON of the response or of an error event in a stream.
 */
export function failureOf(response: Response, body: unknown): ApiError {
  const { error, request_id } = (body ?? {}) as ErrorBody;
  return new ApiError(error?.message ?? `The server responded with status ${response.status}.`, {
    status: response.status,
    code: error?.code ?? 'unknown',
    param: error?.param ?? null,
    requestId: request_id ?? response.headers.get('x-request-id'),
    retryAfterS: Number(response.headers.get('retry-after')) || null,
  });
}

/** A list response. */
export type List<T> = { object: 'list'; data: T[] };
/** A list response with a bound. */
export type LongList<T> = List<T> & {
  /** The number of oldest rows that are not included. */ rows_omitted: number;
};

/** `?a=1&b=2` without empty values, or an empty string. */
export function queryString(values: Record<string, string | number | boolean | null | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    if (value !== undefined && value !== null && value !== '') query.set(name, String(value));
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}
