/** The errors of requests with an idempotency key: rows of the errors of the API. */
export const IDEMPOTENCY_ERRORS = {
  invalid_idempotency_key: {
    status: 400,
    type: 'invalid_request_error',
    message: 'Send exactly one header "Idempotency-Key", of 1 to 255 printable ASCII characters, or none.',
  },
  idempotency_key_in_use: {
    status: 409,
    type: 'invalid_request_error',
    message: 'The request with this idempotency key is still running. Try again later.',
    retryAfterS: 2,
  },
  idempotent_reply_unavailable: {
    status: 409,
    type: 'invalid_request_error',
    message: 'The request with this idempotency key has ended, and its reply is not kept.',
  },
  idempotent_outcome_unknown: {
    status: 409,
    type: 'invalid_request_error',
    message:
      'The server that ran the request with this idempotency key ended before the reply did. ' +
      'A model may have worked on it, so it is not sent a second time.',
  },
  idempotency_key_reused: {
    status: 422,
    type: 'invalid_request_error',
    message: 'The idempotency key was sent with another request before. Send each request with its own.',
  },
  too_many_idempotency_keys: {
    status: 429,
    type: 'rate_limit_error',
    message:
      'The account has used as many idempotency keys as are remembered in a day. ' +
      'Send the request without one, or try again later.',
    retryAfterS: 60,
  },
} as const;
