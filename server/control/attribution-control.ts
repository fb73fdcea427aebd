import type { Client } from 'pg';
import { openAccountKey, pseudonymOf } from '#db/attribution/keys.ts';
import { nameKey, readNames } from '#db/attribution/names.ts';
import {
  destroyAccountKey,
  eraseValue,
  kindsOfPseudonym,
  lockAccountKey,
  readAccountKeys,
  type StoredKey,
} from '#db/attribution/store.ts';
import { type AttributionKind, normalizeValue } from '#db/attribution/value.ts';
import type { AttributionEvent } from '#db/events/subjects.ts';
import { Pseudonym } from '#db/events/parts.ts';
import { ConflictError } from '#db/log/append.ts';
import { type MasterKeys, UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import { type Change, UNCHANGED } from '#server/control/change.ts';
import type { AccountRef } from '#server/control/control-log.ts';
import type { Control } from '#server/control/control.ts';
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
    const [stored] = await readAccountKeys(this.#client, [id]);
    const found = await this.#find(id, stored, wanted);
    const names = await this.#opened(id, () => readNames(this.#client, this.#masterKeys(), id, [found]));
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
      found = await this.#find(id, await lockAccountKey(this.#client, id), wanted);
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
      const stored = await lockAccountKey(this.#client, id);
      if (stored === undefined || !('sealed' in stored)) throw noKey();
      values = await destroyAccountKey(this.#client, id);
      return { type: 'attribution.key_destroyed', account: id, actor: this.#control.actor };
    });
    return { ...change, values };
  }

  async #find(account: string, stored: StoredKey | undefined, wanted: Wanted): Promise<Found> {
    if (stored === undefined || !('sealed' in stored)) throw noKey();
    if ('value' in wanted) {
      const value = normalizeValue(wanted.value);
      if (value === null)
        throw new DecisionError('invalid', 'A value has 1 to 256 bytes and no control characters.');
      const key = await this.#opened(account, async () => openAccountKey(this.#masterKeys(), stored));
      return { kind: wanted.kind, pseudonym: pseudonymOf(key, wanted.kind, value) };
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

  #masterKeys(): MasterKeys {
    return readKeys(this.#file) ?? { current: '', all: new Map() };
  }

  async #opened<T>(account: string, open: () => Promise<T>): Promise<T> {
    try {
      return await open();
    } catch (error) {
      if (!(error instanceof UnknownMasterKeyError)) throw error;
      throw new DecisionError(
        'not_allowed',
        `The key of attribution of account ${account} is encrypted with the master key ${error.masterKey}, ` +
          `which ${this.#file} does not contain. Copy the key from a server's host, or name a pseudonym.`,
      );
    }
  }

  /** Decides and appends within one transaction; once more after a conflict with a concurrent change. */
  async #changeAtomically(account: string, decide: () => Promise<AttributionEvent | null>): Promise<Change> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await inTransaction(this.#client, async () => {
          const event = await decide();
          if (event === null) return UNCHANGED;
          const version = (await this.#control.loadVersion(`attribution/${account}`)) + 1;
          const position = await this.#control.append([{ event, version }]);
          return { event: { type: event.type, position } };
        });
      } catch (error) {
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }
}

const noKey = (): DecisionError =>
  new DecisionError('not_found', 'The account has no key of attribution: no call was attributed yet.');
