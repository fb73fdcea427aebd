import type { Key } from '#db/fold/key.ts';

/** Whose requests and usage somebody may see; what is null does not narrow. */
export type Scope = {
  /** Null: those of all accounts, which only administrators see. */
  account: string | null;
  /** Null: those of all keys of the account. */
  key: string | null;
};

/** What the holder of a key may see: what this key did or, where its terms say so, what its account did. */
export function scopeOf({ id, account, terms }: Pick<Key, 'id' | 'account' | 'terms'>): {
  account: string;
  key: string | null;
} {
  return { account, key: terms?.reads === 'account' ? null : id };
}
