import type { Client } from 'pg';
import { type AccountKey, openAccountKey, type SealedKey } from '#db/attribution/keys.ts';
import { findPseudonym, nameKey, readNames } from '#db/attribution/names.ts';
import {
  destroyAccountKey,
  eraseValue,
  kindsOfPseudonym,
  lockAccountKey,
  readAccountKeys,
  type StoredKey,
} from '#db/attribution/store.ts';
import type { AttributionKind } from '#db/attribution/value.ts';
import type { AttributionEvent } from '#db/events/subjects.ts';
import { Pseudonym } from '#db/events/parts.ts';
import { UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import { type Change, UNCHANGED } from '#server/control/change.ts';
import type { AccountRef } from '#server/control/control-log.ts';
import type { Control } from '#server/control/control.ts';
import { retryConflict } from '#server/control/retry-conflict.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';

/** An end user, a session or a tag: by the value that clients send, or by its pseudonym. */
export type Wanted =
  | { kind: AttributionKind; value: string }
  /** The kind is needed only where no value was ever stored. */
  | { kind?: AttributionKind | undefined; pseudonym: string };

export type Found = { kind: AttributionKind; pseudonym: string };

/**
 * Shows and erases what pseudonyms stand for. Each change is a transaction of its own, so the caller must not
 * begin one. Errors never contain a value.
 */
export class AttributionControl {
  readonly #control: Control;
  readonly #client: Client;
  readonly #file: string;

  /**
   * @param client the connection of `control`.
   * @param file of the master key.
   */
  constructor(control: Control, client: Client, file: string) {
    this.#control = control;
    this.#client = client;
    this.#file = file;
  }

  /**
   * A pseudonym with its readable value; null: it was erased or never stored.
   * @throws {DecisionError} when the account was never attributed a call, or its key can't be opened.
   */
  async show(ref: AccountRef, wanted: Wanted): Promise<Found & { value: string | null }> {
    const { id } = await this.#control.loadAccount(ref);
    const stored = requireKey((await readAccountKeys(this.#client, [id]))[0]);
    const found = await this.#find(id, stored, wanted);
    const names = await readNames(this.#client, this.#open(stored), [found]);
    return { ...found, value: names.get(nameKey(found)) ?? null };
  }

  /**
   * Erases the value of one end user, session or tag. Servers don't store it again; the pseudonym stays in
   * the log. No event is appended where it was erased before.
   * @throws {DecisionError} as {@link show}.
   */
  async erase(ref: AccountRef, wanted: Wanted): Promise<Change & Found> {
    const { id } = await this.#control.loadAccount(ref);
    let found: Found | undefined;
    const change = await this.#changeAtomically(id, async () => {
      found = await this.#find(id, await this.#lock(id), wanted);
      const isNew = await eraseValue(this.#client, id, found);
      return isNew ? { type: 'attribution.erased', account: id, ...found, actor: this.#control.actor } : null;
    });
    return { ...change, ...(found as Found) };
  }

  /**
   * Erases all values of an account, and the key without which its pseudonyms can't be made again. It needs
   * no master key. Later calls of the account get a new key, and other pseudonyms.
   * @throws {DecisionError} when the account has no key.
   */
  async destroyKey(ref: AccountRef): Promise<Change & { values: number }> {
    const { id } = await this.#control.loadAccount(ref);
    let values = 0;
    const change = await this.#changeAtomically(id, async () => {
      await this.#lock(id);
      values = await destroyAccountKey(this.#client, id);
      return { type: 'attribution.key_destroyed', account: id, actor: this.#control.actor };
    });
    return { ...change, values };
  }

  async #lock(account: string): Promise<SealedKey> {
    return requireKey(await lockAccountKey(this.#client, account));
  }

  async #find(account: string, stored: SealedKey, wanted: Wanted): Promise<Found> {
    if ('value' in wanted) {
      const { kind, value } = wanted;
      const pseudonym = findPseudonym(this.#open(stored), kind, value);
      if (pseudonym === null)
        throw new DecisionError('invalid', 'A value has 1 to 256 bytes and no control characters.');
      return { kind, pseudonym };
    }
    const { pseudonym } = wanted;
    if (!Pseudonym.safeParse(pseudonym).success)
      throw new DecisionError('invalid', 'A pseudonym has 16 letters and digits.');
    const kinds = await kindsOfPseudonym(this.#client, account, pseudonym);
    const kind = wanted.kind ?? kinds[0];
    if (kind === undefined || (wanted.kind === undefined && kinds.length > 1))
      throw new DecisionError(
        'not_found',
        `No value of the pseudonym ${pseudonym} is stored. To erase it all the same, name its kind: --kind.`,
      );
    return { kind, pseudonym };
  }

  #open(stored: SealedKey): AccountKey {
    try {
      return openAccountKey(readKeys(this.#file) ?? { current: '', all: new Map() }, stored);
    } catch (error) {
      if (!(error instanceof UnknownMasterKeyError)) throw error;
      throw new DecisionError(
        'not_allowed',
        `The key of attribution of account ${stored.account} is encrypted with the master key ` +
          `${error.masterKey}, which ${this.#file} does not contain. Copy the key from a server's host, or ` +
          'name a pseudonym.',
      );
    }
  }

  /** Decides and appends within one transaction; once more after a conflict with a concurrent change. */
  #changeAtomically(account: string, decide: () => Promise<AttributionEvent | null>): Promise<Change> {
    return retryConflict(() =>
      inTransaction(this.#client, async () => {
        const event = await decide();
        if (event === null) return UNCHANGED;
        const version = (await this.#control.loadVersion(`attribution/${account}`)) + 1;
        const position = await this.#control.append([{ event, version }]);
        return { event: { type: event.type, position } };
      }),
    );
  }
}

function requireKey(stored: StoredKey | undefined): SealedKey {
  if (stored !== undefined && 'sealed' in stored) return stored;
  throw new DecisionError('not_found', 'The account has no key of attribution: no call was attributed yet.');
}
