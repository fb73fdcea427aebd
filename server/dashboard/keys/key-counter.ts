import { countKeys, type KeyCounts } from '#server/decide/key.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/**
 * Counts the keys of accounts for the decision whether another may be created. Keys that were created here
 * and that the read model has not read from the log yet count too, so that many requests at once can't exceed
 * it.
 */
export class KeyCounter {
  readonly #readModel: ReadModel;
  /** The accounts of keys that were created here, by the keys' ids. */
  readonly #unread = new Map<string, string>();

  constructor(readModel: ReadModel) {
    this.#readModel = readModel;
  }

  /** Creates a key, given the keys that its account has. To be called for one key at a time. */
  async create<T extends { id: string }>(
    account: string,
    create: (existing: KeyCounts) => Promise<T>,
  ): Promise<T> {
    const created = await create(this.#count(account));
    this.#unread.set(created.id, account);
    return created;
  }

  #count(account: string): KeyCounts {
    for (const id of this.#unread.keys()) if (this.#readModel.key(id)) this.#unread.delete(id);
    const unread = this.#unread
      .values()
      .filter((each) => each === account)
      .toArray().length;
    const read = countKeys(this.#readModel.keysOf(account), new Date(this.#readModel.nowMs()));
    return { active: read.active + unread, ever: read.ever + unread };
  }
}
