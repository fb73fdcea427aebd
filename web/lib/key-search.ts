import { textsIn } from './search-text.ts';

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
  const state = KEY_STATES.find((each) => each === search['state']);
  return { ...textsIn(search, ['key', 'account', 'name'], 100), ...(state === undefined ? {} : { state }) };
}
