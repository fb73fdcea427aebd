/**
 * The refusal catalogue, a closed vocabulary: each code with its status, type and message in one
 * row, those of permissions and quotas that plans will use included. Bodies have the OpenAI error
 * shape plus `request_id`, so that every client shows code and message.
 */
export type ErrorSpec = {
  status: number;
  type:
    | 'invalid_request_error'
    | 'authentication_error'
    | 'permission_error'
    | 'rate_limit_error'
    | 'insufficient_quota'
    | 'server_error';
  message: string;
  /** Whole seconds a client should wait before it tries again. */
  retryAfterS?: number;
};

const BAD_KEY_HINT =
  'Send exactly one header "Authorization: Bearer <key>", with one space and nothing after the key.';

export const API_ERRORS = {
  bad_request: {
    status: 400,
    type: 'invalid_request_error',
    message: 'This is not a well-formed HTTP request.',
  },
  invalid_json: { status: 400, type: 'invalid_request_error', message: 'The body is not valid JSON.' },
  invalid_value: {
    status: 400,
    type: 'invalid_request_error',
    message: 'A field of the body has the wrong type.',
  },
  missing_field: { status: 400, type: 'invalid_request_error', message: 'A required field is missing.' },
  duplicate_field: {
    status: 400,
    type: 'invalid_request_error',
    message: 'A field occurs twice in the body, so its value is not certain.',
  },
  nested_too_deeply: {
    status: 400,
    type: 'invalid_request_error',
    message: 'The body is nested too deeply.',
  },

  missing_api_key: {
    status: 401,
    type: 'authentication_error',
    message: `No API key was sent. ${BAD_KEY_HINT}`,
  },
  invalid_api_key: {
    status: 401,
    type: 'authentication_error',
    message: `The API key is not valid. ${BAD_KEY_HINT}`,
  },
  expired_api_key: {
    status: 401,
    type: 'authentication_error',
    message: "The API key has expired. Create a new one, or ask the account's administrator for one.",
  },
  revoked_api_key: {
    status: 401,
    type: 'authentication_error',
    message: 'The API key was revoked. Use another key of the account.',
  },

  account_disabled: {
    status: 403,
    type: 'permission_error',
    message: 'The key is valid, but its account is suspended. Ask the administrator of this relay.',
  },

  plan_not_active: {
    status: 403,
    type: 'permission_error',
    message:
      'The key is valid, but the plan of its account is retired. Ask the administrator of this relay for another one.',
  },
  route_not_permitted: {
    status: 403,
    type: 'permission_error',
    message: 'The key is valid, but may not use this route.',
  },
  origin_not_allowed: {
    status: 403,
    type: 'permission_error',
    message: 'The key is valid, but may not be used from this origin.',
  },
  network_not_allowed: {
    status: 403,
    type: 'permission_error',
    message: 'The key is valid, but may not be used from this address.',
  },
  model_not_permitted: {
    status: 403,
    type: 'permission_error',
    message: 'The key is valid, but may not use this model.',
  },
  model_not_priced: {
    status: 403,
    type: 'permission_error',
    message:
      'This account has a quota in money, and no price is known for this model. Ask the administrator of this relay to set one.',
  },

  cosignature_refused: {
    status: 403,
    type: 'permission_error',
    message:
      'None of these signatures is of a witness that this log knows. Its operator names them in WITNESSES.',
  },

  upstream_rejected: {
    status: 400,
    type: 'invalid_request_error',
    message: 'The model provider refused the request.',
  },
  route_not_found: { status: 404, type: 'invalid_request_error', message: 'There is no such route here.' },
  request_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No such request is known to this key.',
  },
  model_not_found: { status: 404, type: 'invalid_request_error', message: 'No upstream serves this model.' },
  no_checkpoint: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No checkpoint of this log has been published yet.',
    retryAfterS: 10,
  },
  method_not_allowed: {
    status: 405,
    type: 'invalid_request_error',
    message: 'This route does not take that method.',
  },
  request_timeout: {
    status: 408,
    type: 'invalid_request_error',
    message: 'The request took too long to arrive.',
  },
  receipt_not_ready: {
    status: 409,
    type: 'invalid_request_error',
    message: 'No checkpoint covers this request yet. Ask again.',
    retryAfterS: 5,
  },
  events_archived: {
    status: 410,
    type: 'invalid_request_error',
    message: 'The events of this request have left the database for the archive.',
  },
  request_too_large: { status: 413, type: 'invalid_request_error', message: 'The body is too large.' },
  unsupported_media_type: {
    status: 415,
    type: 'invalid_request_error',
    message: 'Send the body as "Content-Type: application/json".',
  },
  unsupported_encoding: {
    status: 415,
    type: 'invalid_request_error',
    message: 'Compressed bodies are not accepted. Send the body without Content-Encoding.',
  },
  expectation_failed: {
    status: 417,
    type: 'invalid_request_error',
    message: 'Only "Expect: 100-continue" is known.',
  },
  upgrade_required: { status: 426, type: 'invalid_request_error', message: 'This route is a WebSocket.' },
  headers_too_large: {
    status: 431,
    type: 'invalid_request_error',
    message: 'The request headers are too large.',
  },

  rate_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    message: 'A rate limit is reached. Wait and try again.',
    retryAfterS: 1,
  },

  insufficient_quota: {
    status: 429,
    type: 'insufficient_quota',
    message: 'The quota of this window is spent. Wait for the next window, or ask for a larger one.',
  },

  internal_error: {
    status: 500,
    type: 'server_error',
    message: 'The relay failed. Try again; if it persists, report the request id.',
    retryAfterS: 1,
  },
  upstream_unreachable: {
    status: 502,
    type: 'server_error',
    message: "The model provider can't be reached. Try again.",
    retryAfterS: 2,
  },
  upstream_error: {
    status: 502,
    type: 'server_error',
    message: 'The model provider failed. Try again.',
    retryAfterS: 2,
  },
  upstream_unauthorized: {
    status: 502,
    type: 'server_error',
    message:
      "The model provider refused the relay's own credential. Your key is fine; tell the relay's administrator.",
  },
  upstream_disconnected: {
    status: 502,
    type: 'server_error',
    message: 'The model provider ended the reply before it was complete. Try again.',
    retryAfterS: 1,
  },
  upstream_busy: {
    status: 503,
    type: 'server_error',
    message: 'The model provider is over its own limit. Try again later.',
    retryAfterS: 5,
  },
  model_paused: {
    status: 503,
    type: 'server_error',
    message:
      'The upstreams of this model are paused or lack a credential. Ask the administrator of this relay.',
    retryAfterS: 30,
  },
  store_unavailable: {
    status: 503,
    type: 'server_error',
    message: "The relay can't record calls right now, so it takes none. Try again.",
    retryAfterS: 2,
  },
  report_too_slow: {
    status: 503,
    type: 'server_error',
    message:
      'Summing this up takes longer than a reader may take. Ask for a shorter time or for one account, or try again later.',
    retryAfterS: 5,
  },
  relay_busy: {
    status: 503,
    type: 'server_error',
    message: 'This relay runs as many calls as it can. Try again.',
    retryAfterS: 1,
  },
  limit_undecided: {
    status: 503,
    type: 'server_error',
    message:
      "Part of this limit is with another server of the relay that doesn't answer right now. Try again.",
    retryAfterS: 2,
  },
  shutting_down: {
    status: 503,
    type: 'server_error',
    message: 'This relay is restarting. Try again.',
    retryAfterS: 1,
  },
  upstream_timeout: {
    status: 504,
    type: 'server_error',
    message: 'The model provider did not answer in time. Try again.',
    retryAfterS: 2,
  },
} as const satisfies Record<string, ErrorSpec>;
