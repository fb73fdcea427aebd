/** What to do about a call that failed, where the message alone does not tell. Pure. */

const BY_CODE: Readonly<Record<string, string>> = {
  missing_api_key: 'The call has no key. Send one header "Authorization: Bearer <key>".',
  invalid_api_key: 'Look at the key once more: a blank or a line break at either end, a missing character, or another word than "Bearer" before it make it another key.',
  expired_api_key: 'Make a new key above, or change the expiry of this one under API keys.',
  revoked_api_key: 'Make a new key above.',
  account_disabled: 'Your account is suspended. Only an administrator can change that; new keys do not help.',
  plan_not_active: 'The plan of your account is retired. Ask an administrator for another one.',
  route_not_permitted: 'This key, or your plan, does not allow chat completions. See its limits under API keys.',
  origin_not_allowed: 'This key is for other web pages than this one. From a terminal it may work.',
  network_not_allowed: 'This key is for other networks than yours. See its limits under API keys.',
  model_not_permitted: 'Choose another model above: this key, or your plan, does not allow this one.',
  model_not_priced: 'Your quota is in money, and this model has no price. Choose another model, or ask an administrator for its price.',
  model_not_found: 'Choose another model above: nothing here serves this one.',
  route_not_found: 'The address is not right. Base URLs end in /v1, and calls go to /v1/chat/completions.',
  rate_limit_exceeded: 'Too many calls or tokens within a minute, or too many at once. Wait for some seconds and send it again.',
  insufficient_quota: 'A quota of yours is spent. The page Limits says which, and when it begins anew.',
  upstream_unauthorized: 'Your key is fine. The relay\'s own credential at the provider is not; tell an administrator.',
};

const BY_STATUS: Readonly<Record<number, string>> = {
  0: 'The browser could not reach the relay. Is it running, and is this page\'s address still right?',
  401: 'The relay does not know this key.',
  403: 'The key is right, but may not do this.',
  429: 'A limit is reached. The page Limits shows them all.',
};

/** @param status 0 where no reply came. @returns null where the message says it all. */
export function whatToDo(status: number, code: string | null): string | null {
  return (code === null ? undefined : BY_CODE[code]) ?? BY_STATUS[status] ?? (status >= 500 ? 'This is no fault of your call. Send it again in a moment.' : null);
}
