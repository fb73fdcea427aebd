import type { Key } from '#db/fold/key.ts';

/** The requests and usage that a reader may see; null: all. */
export type Scope = {
  /** Null: all accounts, for administrators and auditors. */
  account: string | null;
  /** Null: all keys of the account. */
  key: string | null;
};

/** The scope of a key: its own requests or, if its terms say so, its account's. */
export function scopeOf({ id, account, terms }: Pick<Key, 'id' | 'account' | 'terms'>): {
  account: string;
  key: string | null;
} {
  return { account, key: terms?.reads === 'account' ? null : id };
}
