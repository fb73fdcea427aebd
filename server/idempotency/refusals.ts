import { ApiError } from '#server/errors/api-error.ts';

/** The errors of requests whose idempotency key another request holds; each names that request. */

const ORIGINAL = 'original-request';

const naming = (request: string): readonly string[] => [ORIGINAL, request];

export const keyReused = (request: string): ApiError =>
  new ApiError('idempotency_key_reused', {
    message:
      `The idempotency key was sent with another request before, ${request}. ` +
      'Send each new request with a key of its own, and a retry with the same body, path and headers.',
    shouldRetry: false,
    headers: naming(request),
  });

export const noReply = (request: string): ApiError =>
  new ApiError('idempotent_reply_unavailable', {
    message:
      `The request with this idempotency key, ${request}, has ended, and its reply is not kept. ` +
      `GET /v1/requests/${request} has its record. To run it a second time, send a new key.`,
    shouldRetry: false,
    headers: naming(request),
  });

export const outcomeUnknown = (request: string): ApiError =>
  new ApiError('idempotent_outcome_unknown', {
    message:
      `The server that ran the request with this idempotency key, ${request}, ended before the reply did, ` +
      'so a model may have worked on it. It is not sent a second time. ' +
      `GET /v1/requests/${request} has its record. To run it a second time, send a new key.`,
    shouldRetry: false,
    headers: naming(request),
  });

export const keyInUse = (request: string): ApiError =>
  new ApiError('idempotency_key_in_use', {
    message: `The request with this idempotency key, ${request}, is still running. Try again later.`,
    headers: naming(request),
  });
