/** The dashboard's own API: same origin, JSON, and errors that say what happened. */

/** Why a request was not carried out, as the server told it. */
export class ApiError extends Error {
  override name = 'ApiError';
  /** 0: no reply came. */
  readonly status: number;
  readonly code: string;
  /** The field of the body or the parameter that is at fault. */
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

/** Told when the server says that nobody is signed in any more. */
let onSignedOut: () => void = () => {};
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}
/** For what learns of it by another way than a request. */
export const tellSignedOut = (): void => onSignedOut();

export const noReply = (method: string): ApiError =>
  new ApiError(
    `The server does not answer. Check your connection.${method === 'GET' ? '' : ' It may have been done all the same: look before you repeat it.'}`,
    { status: 0, code: 'no_reply' },
  );

/** Longer than the server's own slowest read. */
const TIMEOUT_MS = 30_000;

/**
 * Asks the dashboard's API.
 * @param path begins with `/api/`; its query is already encoded.
 * @throws {ApiError} whatever went wrong.
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
  // What JSON says is never undefined: that is a reply that was cut, or came too slowly.
  const parsed: unknown = await response.json().catch(() => undefined);
  signal?.throwIfAborted();
  if (response.ok && parsed === undefined) throw noReply(method);
  if (response.ok) return parsed as T;
  const failure = failureOf(response, parsed);
  if (failure.code === 'not_signed_in') onSignedOut();
  throw failure;
}

/**
 * Why a request failed, as its reply tells it. @param said JSON of its body, or of what came in the middle of
 * it; whatever that is.
 */
export function failureOf(response: Response, said: unknown): ApiError {
  const { error, request_id } = (said ?? {}) as ErrorBody;
  return new ApiError(error?.message ?? `The server replied with status ${response.status}.`, {
    status: response.status,
    code: error?.code ?? 'unknown',
    param: error?.param ?? null,
    requestId: request_id ?? response.headers.get('x-request-id'),
    retryAfterS: Number(response.headers.get('retry-after')) || null,
  });
}

/** What every list of the API looks like. */
export type List<T> = { object: 'list'; data: T[] };
/** One that may be too long to be told whole. */
export type LongList<T> = List<T> & { /** Those that are left out, the oldest. */ rows_omitted: number };

/** `?a=1&b=2` of what is there; empty where nothing is. */
export function queryString(values: Record<string, string | number | boolean | null | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    if (value !== undefined && value !== null && value !== '') query.set(name, String(value));
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}
