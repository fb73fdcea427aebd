/** Why calls are refused, and what to do about it: by the code of the refusal. Pure. */

export type Advice = { why: string; todo: string; /** The page where that is done or seen. */ to: '/limits' | '/keys' | null };

const ADVICE: Record<string, Advice> = {
  rate_limit_exceeded: { why: 'A rate limit of the account or the key was reached.', todo: 'Wait a moment and send it again, or send fewer at once.', to: '/limits' },
  insufficient_quota: { why: 'The quota of this window was spent.', todo: 'Wait for the next window, or ask the administrator for a larger one.', to: '/limits' },
  account_disabled: { why: 'The account was suspended.', todo: 'Ask the administrator of this relay.', to: null },
  plan_not_active: { why: 'The plan of the account was retired.', todo: 'Ask the administrator of this relay for another one.', to: null },
  route_not_permitted: { why: 'The key may not use this route.', todo: 'Use another key, or widen what this one may do.', to: '/keys' },
  origin_not_allowed: { why: 'The key may not be used from this origin.', todo: 'Allow the origin for the key, or use another key.', to: '/keys' },
  network_not_allowed: { why: 'The key may not be used from this address.', todo: 'Allow the network for the key, or use another key.', to: '/keys' },
  model_not_permitted: { why: 'The key may not use this model.', todo: 'Choose another model, or widen what the key may do.', to: '/keys' },
  model_not_priced: { why: 'The account has a quota in money, and no price is known for this model.', todo: 'Ask the administrator to set a price.', to: null },
  model_not_found: { why: 'No upstream serves this model.', todo: 'Choose another model.', to: null },
  revoked_api_key: { why: 'The key was revoked.', todo: 'Use another key.', to: '/keys' },
  expired_api_key: { why: 'The key has expired.', todo: 'Use another key, or create one.', to: '/keys' },
  upstream_refused: { why: 'The model provider refused the request.', todo: 'Change what it names, such as the model or a parameter.', to: null },
  upstream_unauthorized: { why: 'The model provider refused the credential of the relay.', todo: 'Tell the administrator of this relay; your key is fine.', to: null },
};

/** Of a code that is not known: that it was refused, and no more. */
export const adviceOn = (code: string): Advice => ADVICE[code] ?? { why: 'The call was not carried out.', todo: 'Try again; if it persists, report the id of the request.', to: null };

/** What the way to such a page is called. */
export const PLACE_NAMES = { '/limits': 'See the limits', '/keys': 'Go to the keys' } as const;
