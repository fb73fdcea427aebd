import { textsIn } from './params.ts';

/** URL search parameters of the keys page. Pure. */
export type KeySearch = {
  /** The key whose details are open. */
  key?: string;
  account?: string;
  /** Defaults to active and rotating keys. */
  state?: (typeof KEY_STATES)[number];
  /** Part of a name or id. */
  name?: string;
};

/** Undefined clears a field. */
export type KeySearchChange = { [Field in keyof KeySearch]: KeySearch[Field] | undefined };

export const KEY_STATES = ['active', 'rotating', 'expired', 'revoked', 'all'] as const;

export function readKeySearch(search: Record<string, unknown>): KeySearch {
  const state = KEY_STATES.find((each) => each === search['state']);
  return { ...textsIn(search, ['key', 'account', 'name'], 100), ...(state === undefined ? {} : { state }) };
}
