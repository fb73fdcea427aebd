import { isGoodKey } from '#db/fold/key.ts';
import { KEYS_EVER_MAX, KEYS_ACTIVE_MAX } from '#server/decide/bounds.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/**
 * How many keys an account may have. What was made here and has not been heard of by the log counts as well,
 * so that many at once count as many.
 */
export class KeyRoom {
  readonly #readModel: ReadModel;
  /** The accounts of keys that were made here, by the keys' ids. */
  readonly #unheard = new Map<string, string>();

  constructor(readModel: ReadModel) {
    this.#readModel = readModel;
  }

  /**
   * Makes a key where there is room. One at a time: what is made next is judged by all before it.
   * @throws {DecisionError} where there is none.
   */
  async make<T extends { id: string }>(account: string, make: () => Promise<T>): Promise<T> {
    this.#require(account);
    const made = await make();
    this.#unheard.set(made.id, account);
    return made;
  }

  #require(account: string): void {
    for (const id of this.#unheard.keys()) if (this.#readModel.key(id)) this.#unheard.delete(id);
    const coming = this.#unheard
      .values()
      .filter((each) => each === account)
      .toArray().length;
    const keys = this.#readModel.keysOf(account);
    if (keys.length + coming >= KEYS_EVER_MAX) {
      throw new DecisionError(
        'not_allowed',
        `An account may have ${KEYS_EVER_MAX} keys in all, those that are revoked too. Rotate one instead.`,
      );
    }
    const now = new Date(this.#readModel.nowMs());
    const good = keys.filter((key) => isGoodKey(key, now)).length;
    if (good + coming >= KEYS_ACTIVE_MAX) {
      throw new DecisionError(
        'not_allowed',
        `An account may have ${KEYS_ACTIVE_MAX} keys at once. Revoke one that nobody uses first.`,
      );
    }
  }
}
