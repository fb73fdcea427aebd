import { API_ERRORS, type ErrorSpec } from '#server/errors/api-errors.ts';
import { DASHBOARD_ERRORS } from '#server/errors/dashboard-errors.ts';

/** All refusals. */
export const ERROR_CATALOGUE = { ...API_ERRORS, ...DASHBOARD_ERRORS };

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

/** A refused call: a value that a stage returns, so that a flood of them stays cheap. */
export class ApiError {
  readonly code: ErrorCode;
  /** Replaces the catalogue's message when more can be said. Never holds a secret or a prompt. */
  readonly message: string;
  /** The field of the body that is at fault. */
  readonly param: string | null;
  readonly status: number;
  readonly retryAfterS: number | undefined;
  /** When the limit that rejected resets, however long that takes: some protocols state it in the body. */
  readonly resetS: number | undefined;
  /** More for the error object: the limit that refused, with its figures. */
  readonly limit: object | null;
  readonly #moreHeaders: readonly string[];
  #errorJson: string | null = null;

  constructor(
    code: ErrorCode,
    more: {
      message?: string;
      param?: string;
      status?: number;
      retryAfterS?: number | undefined;
      /** The same, exact; `Retry-After` is then the whole seconds above it. */
      retryAfterMs?: number;
      /** Until the limit resets. */
      resetMs?: number | undefined;
      /** False makes the SDKs give up: a retry doesn't help. */
      shouldRetry?: false;
      limit?: object;
      /** Further headers, in pairs. */
      headers?: readonly string[];
    } = {},
  ) {
    const row: ErrorSpec = ERROR_CATALOGUE[code];
    this.code = code;
    this.message = more.message ?? row.message;
    this.param = more.param ?? null;
    this.status = more.status ?? row.status;
    const { retryAfterMs, shouldRetry, headers = [] } = more;
    this.retryAfterS =
      retryAfterMs === undefined
        ? (more.retryAfterS ?? row.retryAfterS)
        : Math.max(1, Math.ceil(retryAfterMs / 1_000));
    if (shouldRetry === false && code === 'rate_limit_exceeded') this.retryAfterS = undefined;
    this.resetS = more.resetMs === undefined ? undefined : Math.max(1, Math.ceil(more.resetMs / 1_000));
    this.limit = more.limit ?? null;
    this.#moreHeaders = [
      ...headers,
      ...(retryAfterMs === undefined || this.retryAfterS === undefined
        ? []
        : ['retry-after-ms', String(Math.max(1, Math.ceil(retryAfterMs)))]),
      ...(shouldRetry === false ? ['x-should-retry', 'false'] : []),
    ];
  }

  /** The error object alone, for a body or an in-band event. */
  errorJson(): string {
    const { message, param, code, limit } = this;
    this.#errorJson ??= JSON.stringify({
      message,
      type: ERROR_CATALOGUE[code].type,
      param,
      code,
      ...(limit ? { limit } : {}),
    });
    return this.#errorJson;
  }

  /** The reply's body. */
  body(requestId: string): string {
    return `{"error":${this.errorJson()},"request_id":"${requestId}"}`;
  }

  /** The reply's own headers, as pairs for `writeHead`. */
  headers(requestId: string, bodyBytes: number): string[] {
    const headers = [
      'content-type',
      'application/json; charset=utf-8',
      'content-length',
      String(bodyBytes),
      'x-request-id',
      requestId,
    ];
    if (this.retryAfterS !== undefined) headers.push('retry-after', String(this.retryAfterS));
    // Claude Code retries a 401 for minutes without a word unless this header is there.
    if (this.status === 401) headers.push('www-authenticate', 'Bearer', 'x-should-retry', 'false');
    if (this.#moreHeaders.length > 0) headers.push(...this.#moreHeaders);
    return headers;
  }
}
