import type { ApiError } from '#server/errors/api-error.ts';
import type { ErrorFormat } from '#server/wire/error-format.ts';

/** Google's names of errors, by status. */
const STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** Errors as clients of Gemini read them: `{"error":{"code","message","status","details"}}`. Pure. */
export const GEMINI_ERRORS: ErrorFormat = {
  body: errorBody,
  event: (refusal, requestId) => `data: ${errorBody(refusal, requestId)}\n\n`,
};

function errorBody(refusal: ApiError, requestId: string): string {
  const { status, code, message, retryAfterS, resetS } = refusal;
  const waitS = retryAfterS ?? resetS;
  return JSON.stringify({
    error: {
      code: status,
      message,
      status: STATUSES[status] ?? (status < 500 ? 'FAILED_PRECONDITION' : 'INTERNAL'),
      details: [
        { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: code, domain: 'daybook' },
        { '@type': 'type.googleapis.com/google.rpc.RequestInfo', requestId },
        // Google's clients read the wait here alone: with one of hours they give up instead of retrying.
        ...(waitS === undefined
          ? []
          : [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${waitS}s` }]),
      ],
    },
  });
}
