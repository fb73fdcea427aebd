import { IDEMPOTENCY_ERRORS } from '#server/errors/idempotency-errors.ts';

/**
 * The errors of the API, a closed vocabulary: one row per code with its status, type, message and retry
 * interval. Bodies have OpenAI's error shape plus `request_id`, so that every client shows code and message.
 * A message says what failed, why, and what to do next.
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
  /** Seconds a client should wait before it retries; absent: a retry doesn't help. */
  retryAfterS?: number;
};

const KEY_FORMAT_HINT =
  'Send exactly one header "Authorization: Bearer <key>", with one space and nothing after the key.';

export const API_ERRORS = {
  ...IDEMPOTENCY_ERRORS,
  bad_request: {
    status: 400,
    type: 'invalid_request_error',
    message: 'This is not a well-formed HTTP/1.1 request. Check the request line and the headers.',
  },
  invalid_json: {
    status: 400,
    type: 'invalid_request_error',
    message: 'The request body is not valid JSON. Send one JSON object.',
  },
  invalid_form: {
    status: 400,
    type: 'invalid_request_error',
    message: 'The request body is not a valid multipart form. Send it as form-data with a file.',
  },
  invalid_value: {
    status: 400,
    type: 'invalid_request_error',
    message: 'A field of the request body has the wrong type. Check it against the API reference.',
  },
  missing_required_parameter: {
    status: 400,
    type: 'invalid_request_error',
    message: 'A required field is missing. Add it and send the request again.',
  },
  duplicate_parameter: {
    status: 400,
    type: 'invalid_request_error',
    message: 'A field occurs twice in the request body, so its value is ambiguous. Send it once.',
  },
  attribution_required: {
    status: 400,
    type: 'invalid_request_error',
    message:
      'This key requires an end user, a session or tags with each request. ' +
      'Send the headers "x-daybook-user", "x-daybook-session" and "x-daybook-tags".',
  },
  nested_too_deeply: {
    status: 400,
    type: 'invalid_request_error',
    message: 'The request body has more than 128 levels of nesting. Send a flatter one.',
  },

  missing_api_key: {
    status: 401,
    type: 'authentication_error',
    message: `No API key was sent. ${KEY_FORMAT_HINT}`,
  },
  invalid_api_key: {
    status: 401,
    type: 'authentication_error',
    message: `The API key is invalid. ${KEY_FORMAT_HINT}`,
  },
  api_key_expired: {
    status: 401,
    type: 'authentication_error',
    message: "The API key has expired. Create a new one, or ask the account's administrator for one.",
  },
  api_key_revoked: {
    status: 401,
    type: 'authentication_error',
    message: 'The API key was revoked. Use another key of the account.',
  },

  account_disabled: {
    status: 403,
    type: 'permission_error',
    message: 'The API key is valid, but its account is suspended. Ask the administrator of this relay.',
  },

  plan_not_active: {
    status: 403,
    type: 'permission_error',
    message:
      'The API key is valid, but the plan of its account is retired. ' +
      'Ask the administrator of this relay for another one.',
  },
  route_not_permitted: {
    status: 403,
    type: 'permission_error',
    message: "The API key is valid, but doesn't permit this route. Use another key.",
  },
  origin_not_allowed: {
    status: 403,
    type: 'permission_error',
    message: "The API key is valid, but doesn't permit this origin. Use another key.",
  },
  network_not_allowed: {
    status: 403,
    type: 'permission_error',
    message: "The API key is valid, but doesn't permit this address. Use another key.",
  },
  model_not_permitted: {
    status: 403,
    type: 'permission_error',
    message: "The API key is valid, but doesn't permit this model. Use another model or key.",
  },
  model_not_priced: {
    status: 403,
    type: 'permission_error',
    message:
      "This model has no price, so it can't be used under this account's cost quota. " +
      'Ask the administrator of this relay to set one.',
  },

  cosignature_rejected: {
    status: 403,
    type: 'permission_error',
    message:
      'None of these signatures is from a configured witness. ' +
      'The operator of the log lists witnesses in WITNESSES.',
  },

  upstream_rejected: {
    status: 400,
    type: 'invalid_request_error',
    message: 'The model provider rejected the request. Check the model and its parameters.',
  },
  route_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No such route. Base URLs end in /v1, and requests go to paths such as /v1/chat/completions.',
  },
  request_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No such request. It may belong to another account, or be too recent; check the id.',
  },
  response_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No such response. It may be deleted, or belong to another account; check the id.',
  },
  file_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No such file. It may be deleted, or belong to another account; check the id.',
  },
  batch_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No such batch. It may be older than 30 days, or belong to another account; check the id.',
  },
  previous_response_not_found: {
    status: 400,
    type: 'invalid_request_error',
    message: 'No such response to continue. It may be deleted, or belong to another account; check the id.',
  },
  invalid_stream_id: {
    status: 400,
    type: 'invalid_request_error',
    message:
      'The field "stream_id" must be a string of at most 256 letters, numbers, underscores, hyphens and ' +
      'periods. Leave it out for the stream of the connection.',
  },
  websocket_stream_limit_reached: {
    status: 400,
    type: 'invalid_request_error',
    message:
      'This WebSocket connection has reached its maximum number of distinct stream IDs (32). ' +
      'Reuse an existing stream_id or open a new WebSocket connection.',
  },
  websocket_connection_limit_reached: {
    status: 400,
    type: 'invalid_request_error',
    message:
      'Responses websocket connection limit reached (60 minutes). ' +
      'Create a new websocket connection to continue.',
  },
  model_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No upstream serves this model. GET /v1/models lists the models that this key can use.',
  },
  checkpoint_not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'No checkpoint of this log has been published yet. Try again in some seconds.',
    retryAfterS: 10,
  },
  method_not_allowed: {
    status: 405,
    type: 'invalid_request_error',
    message: "This route doesn't support that method. The Allow header lists those that it does.",
  },
  request_timeout: {
    status: 408,
    type: 'invalid_request_error',
    message: 'The request was sent too slowly, so the connection is closed. Send it again.',
  },
  receipt_not_ready: {
    status: 409,
    type: 'invalid_request_error',
    message: 'No checkpoint covers this request yet. Try again in some seconds.',
    retryAfterS: 5,
  },
  events_archived: {
    status: 410,
    type: 'invalid_request_error',
    message: 'The events of this request have been archived. Read them from the archive.',
  },
  request_too_large: {
    status: 413,
    type: 'invalid_request_error',
    message: 'The request body is too large. Send a smaller one.',
  },
  unsupported_media_type: {
    status: 415,
    type: 'invalid_request_error',
    message: 'The request body must be JSON. Send it with "Content-Type: application/json".',
  },
  unsupported_encoding: {
    status: 415,
    type: 'invalid_request_error',
    message: 'Compressed request bodies are not supported. Send the body without Content-Encoding.',
  },
  expectation_failed: {
    status: 417,
    type: 'invalid_request_error',
    message: 'The only supported expectation is "Expect: 100-continue".',
  },
  upgrade_required: {
    status: 426,
    type: 'invalid_request_error',
    message: 'This route requires a WebSocket. Send a request with "Upgrade: websocket".',
  },
  headers_too_large: {
    status: 431,
    type: 'invalid_request_error',
    message: 'The request headers are larger than 32 KiB or more than 256. Send fewer or shorter ones.',
  },

  rate_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    message: 'A rate limit is exceeded. Wait as long as Retry-After says and try again.',
    retryAfterS: 1,
  },

  batch_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    message:
      'The batches of this account that are in progress have too many lines together. ' +
      'Wait for one to end, or cancel one, and create this one again.',
    retryAfterS: 60,
  },

  buffer_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    message:
      'The requests and replies of this key that are held in memory have reached its limit. ' +
      'Wait for some to end and try again.',
    retryAfterS: 1,
  },

  insufficient_quota: {
    status: 429,
    type: 'insufficient_quota',
    message: 'The quota is exhausted. Wait until it resets, or ask for a larger one.',
  },

  internal_error: {
    status: 500,
    type: 'server_error',
    message: 'The relay failed. Try again; if the error persists, report the request id.',
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
      "The model provider rejected the relay's own credential. Your API key is valid; " +
      "contact the relay's administrator.",
  },
  upstream_disconnected: {
    status: 502,
    type: 'server_error',
    message: "The model provider's reply broke off before it was complete. Try again.",
    retryAfterS: 1,
  },
  upstream_rate_limited: {
    status: 503,
    type: 'server_error',
    message: 'The model provider has reached its own rate limit. Try again later.',
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
    message: "Requests can't be recorded right now, so none are accepted. Try again.",
    retryAfterS: 2,
  },
  relay_outdated: {
    status: 503,
    type: 'server_error',
    message:
      'A newer version of this relay has changed this key, its account, its plan or this model in a way ' +
      "that this server doesn't know yet. Try again; another server may answer.",
    retryAfterS: 5,
  },
  attribution_unavailable: {
    status: 503,
    type: 'server_error',
    message:
      'This key requires requests to be attributed, which is temporarily impossible. Try again; ' +
      'if the error persists, contact the administrator of this relay.',
    retryAfterS: 5,
  },
  query_timeout: {
    status: 503,
    type: 'server_error',
    message:
      'The report took longer than two seconds. Use a shorter time range or one account, or try again later.',
    retryAfterS: 5,
  },
  relay_overloaded: {
    status: 503,
    type: 'server_error',
    message: 'This relay is running as many requests as it can. Try again.',
    retryAfterS: 1,
  },
  relay_buffer_full: {
    status: 503,
    type: 'server_error',
    message: 'This relay holds as many bytes of requests and replies in memory as it can. Try again.',
    retryAfterS: 1,
  },
  limit_unavailable: {
    status: 503,
    type: 'server_error',
    message: "Another server of this relay holds a part of this limit and isn't responding. Try again.",
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
    message: 'The model provider did not respond in time. Try again.',
    retryAfterS: 2,
  },
} as const satisfies Record<string, ErrorSpec>;
