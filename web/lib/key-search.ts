/** Which keys the page of keys shows, as it stands in its address. Pure. */
export type KeySearch = {
  /** The key whose details are open. */
  key?: string;
  account?: string;
  /** Absent: those that are good. */
  state?: (typeof KEY_STATES)[number];
  /** A part of a name or an id. */
  name?: string;
};

/** What is undefined no longer narrows. */
export type KeySearchChange = { [Field in keyof KeySearch]: KeySearch[Field] | undefined };

export const KEY_STATES = ['active', 'rotating', 'expired', 'revoked', 'all'] as const;

export function readKeySearch(search: Record<string, unknown>): KeySearch {
  const found: KeySearch = {};
  for (const field of ['key', 'account', 'name'] as const) {
    const value = search[field];
    // A router may have read an id of digits as a number.
    if ((typeof value === 'string' && value !== '') || typeof value === 'number') found[field] = String(value).slice(0, 100);
  }
  const state = KEY_STATES.find((each) => each === search['state']);
  if (state !== undefined) found.state = state;
  return found;
}
