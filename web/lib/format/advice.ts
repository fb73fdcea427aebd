/** Advice by error code: why a request was rejected and what to do. Pure. */

export type Advice = {
  why: string;
  todo: string;
  /** The page to do it on, or null. */ to: '/limits' | '/keys' | null;
};

/** Advice for the codes that requests with a known key are rejected with. */
export const ADVICE: Readonly<Record<string, Advice>> = {
  rate_limit_exceeded: {
    why: 'A rate limit of the account or the key was reached.',
    todo: 'Retry in a moment, or send fewer requests in parallel.',
    to: '/limits',
  },
  buffer_limit_exceeded: {
    why: 'Requests and replies of the account or the key held more memory than it may use.',
    todo: 'Retry in a moment, or send fewer large requests in parallel.',
    to: null,
  },
  batch_limit_exceeded: {
    why: 'The batches of the account that are in progress have too many lines together.',
    todo: 'Wait for a batch to end, or cancel one.',
    to: null,
  },
  too_many_idempotency_keys: {
    why: 'The account has used as many idempotency keys as are remembered in a day.',
    todo: 'Send requests without a key, or use one key for a request and its retries only.',
    to: null,
  },
  insufficient_quota: {
    why: 'The quota is exhausted.',
    todo: 'Wait for the reset, or ask an administrator for a larger quota.',
    to: '/limits',
  },
  account_disabled: {
    why: 'The account is suspended.',
    todo: 'Ask an administrator to reinstate it.',
    to: null,
  },
  plan_not_active: {
    why: 'The account’s plan is retired.',
    todo: 'Ask an administrator to assign another plan.',
    to: null,
  },
  route_not_permitted: {
    why: 'The key or its account is not permitted to use this route.',
    todo: 'Allow the route for this key, or ask an administrator to allow it for the account.',
    to: '/keys',
  },
  origin_not_allowed: {
    why: 'The key or its account does not allow this origin.',
    todo: 'Add the origin to the key, or ask an administrator to allow it for the account.',
    to: '/keys',
  },
  network_not_allowed: {
    why: 'The key does not allow this IP address.',
    todo: 'Add the address or its network to the key, or use another key.',
    to: '/keys',
  },
  model_not_permitted: {
    why: 'The key or its account’s plan does not include this model.',
    todo: 'Use another model, add it to the key, or ask an administrator to add it to the plan.',
    to: '/keys',
  },
  model_not_priced: {
    why: 'The model has no price, so it can’t be used under this account’s cost quota.',
    todo: 'Use another model, or ask an administrator to set a price.',
    to: null,
  },
  model_not_found: { why: 'No upstream serves this model.', todo: 'Use another model.', to: null },
  api_key_revoked: {
    why: 'The key was revoked.',
    todo: 'Use another key or create a new one.',
    to: '/keys',
  },
  api_key_expired: {
    why: 'The key has expired.',
    todo: 'Use another key or create a new one.',
    to: '/keys',
  },
  upstream_rejected: {
    why: 'The model provider rejected the request.',
    todo: 'Check the model and the parameters of the request.',
    to: null,
  },
  upstream_unauthorized: {
    why: 'The model provider rejected the relay’s credential.',
    todo: 'Contact an administrator. Your key is valid.',
    to: null,
  },
};

/** Generic advice for unknown codes. */
export const adviceOn = (code: string): Advice =>
  ADVICE[code] ?? {
    why: 'The request failed.',
    todo: 'Try again. If the problem persists, report the request ID.',
    to: null,
  };
