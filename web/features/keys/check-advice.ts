/** What to do about a refusal, by its code. Pure. */
const ADVICE: Record<string, string> = {
  revoked_api_key: 'Create another key: a revoked one stays revoked.',
  expired_api_key: 'Create another key, with a later expiry or none.',
  account_disabled: 'An administrator can reinstate the account.',
  plan_not_active: 'An administrator can put the account on another plan.',
  route_not_permitted: 'Change the routes of the key; if its account may not use the route either, ask an administrator.',
  origin_not_allowed: 'Add the origin to the key, or none for programs; if its account does not allow it either, ask an administrator.',
  network_not_allowed: 'Add the address, or a network that it is in, to the key.',
  model_not_permitted: 'Add the model to the key; if its plan does not have it either, ask an administrator.',
  model_not_found: 'No upstream serves a model of that name. The page of models and prices lists those that are served.',
  model_not_priced: 'An administrator can set a price for the model, or take the quota in money away.',
  rate_limit_exceeded: 'Wait until the limit is free again; the page of limits counts down to it.',
  insufficient_quota: 'Wait for the next window, or raise the quota.',
};

export const adviceFor = (code: string): string => ADVICE[code] ?? 'The message says why.';
