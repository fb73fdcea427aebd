/** Why calls are refused, and what to do about it: by the code of the refusal. Pure. */

export type Advice = {
  why: string;
  todo: string;
  /** The page where that is done or seen. */ to: '/limits' | '/keys' | null;
};

/** What is known of a code that calls with a good key are refused with, or of a key that is good no more. */
export const ADVICE: Readonly<Record<string, Advice>> = {
  rate_limit_exceeded: {
    why: 'A rate limit of the account or the key was reached.',
    todo: 'Wait a moment and send it again, or send fewer at once.',
    to: '/limits',
  },
  insufficient_quota: {
    why: 'The quota of this window was spent.',
    todo: 'Wait for the next window, or ask an administrator for a larger one.',
    to: '/limits',
  },
  account_disabled: {
    why: 'The account was suspended.',
    todo: 'An administrator can reinstate it; other keys of it do not help.',
    to: null,
  },
  plan_not_active: {
    why: 'The plan of the account was retired.',
    todo: 'An administrator can put the account on another plan.',
    to: null,
  },
  route_not_permitted: {
    why: 'The key, or its account, may not use this route.',
    todo: 'Use another key, or change the routes of this one; if its account may not use the route either, ask an administrator.',
    to: '/keys',
  },
  origin_not_allowed: {
    why: 'The key, or its account, may not be used from this origin.',
    todo: 'Add the origin to the key, or none for programs; if its account does not allow it either, ask an administrator.',
    to: '/keys',
  },
  network_not_allowed: {
    why: 'The key may not be used from this address.',
    todo: 'Add the address, or a network that it is in, to the key, or use another key.',
    to: '/keys',
  },
  model_not_permitted: {
    why: 'The key, or the plan of its account, does not have this model.',
    todo: 'Choose another model, or add this one to the key; if its plan does not have it either, ask an administrator.',
    to: '/keys',
  },
  model_not_priced: {
    why: 'The account has a quota in money, and no price is known for this model.',
    todo: 'Choose another model, or ask an administrator to set a price.',
    to: null,
  },
  model_not_found: { why: 'No upstream serves this model.', todo: 'Choose another model.', to: null },
  revoked_api_key: {
    why: 'The key was revoked.',
    todo: 'Use another key, or create one: a revoked one stays revoked.',
    to: '/keys',
  },
  expired_api_key: {
    why: 'The key has expired.',
    todo: 'Use another key, or create one with a later expiry or none.',
    to: '/keys',
  },
  upstream_rejected: {
    why: 'The model provider refused the request.',
    todo: 'Change what it names, such as the model or a parameter.',
    to: null,
  },
  upstream_unauthorized: {
    why: 'The model provider refused the credential of the relay.',
    todo: 'Tell an administrator of this relay; your key is fine.',
    to: null,
  },
};

/** Of a code that is not known: that it was refused, and no more. */
export const adviceOn = (code: string): Advice =>
  ADVICE[code] ?? {
    why: 'The call was not carried out.',
    todo: 'Try again; if it persists, report the id of the request.',
    to: null,
  };
