import type { Client } from 'pg';
import { closeClient, type Store } from '#db/connect.ts';
import type { ControlEvent } from '#db/events.ts';
import type { Account } from '#db/fold/account.ts';
import type { Key, Secret } from '#db/fold/key.ts';
import { publicId } from '#db/ids.ts';
import { heartbeat, registerInstance, retireInstance } from '#db/instance.ts';
import { appendControl, ConflictError, type ControlAppend } from '#db/log/append.ts';
import { PAGE_ROWS, readPage } from '#db/log/read.ts';
import type { Prices } from '#db/money.ts';
import { HEARTBEAT_MS, PRICES_APPEND_MAX } from '#server/bounds.ts';
import { registerAccount, reinstateAccount, requireAccount, suspendAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { createKey, requireKey, revokeKey, rotateKey } from '#server/decide/key.ts';
import { type ImportPlan, MANUAL, type Offer, planImport, setPrice } from '#server/decide/price.ts';
import { createSecret, digestSecret } from '#server/key-secret.ts';
import { ReadModel } from '#server/read-model.ts';
import { connectRelay } from '#server/store.ts';

/**
 * Changes to accounts and keys: load the state from the log, decide, append with the version that
 * the decision was made on. When somebody else was faster, it is decided once more on what is then
 * there.
 */
export class Control {
  readonly #client: Client;
  readonly #instance: number;
  readonly #actor: string;
  #batchNo = 0;

  constructor(client: Client, instance: number, actor: string) {
    this.#client = client;
    this.#instance = instance;
    this.#actor = actor;
  }

  /** The state of everything, as the log has it now. */
  async load(): Promise<ReadModel> {
    const model = new ReadModel();
    for (;;) {
      const page = await readPage(this.#client, model.position, 'control');
      model.apply(page);
      if (page.length < PAGE_ROWS) break;
    }
    const { rows } = await this.#client.query<{ now: Date }>('select clock_timestamp() as now');
    if (rows[0]) model.setClock(rows[0].now);
    return model;
  }

  /** Registers an account. @throws {DecisionError} when the name is taken. */
  async createAccount(name: string): Promise<{ id: string; name: string }> {
    const id = publicId();
    const event = registerAccount({ id, name, actor: this.#actor });
    try {
      await this.#append([{ event, version: 1, claim: `account-name/${name}` }]);
    } catch (error) {
      if (error instanceof ConflictError) throw new DecisionError('already_exists', `There is an account named "${name}" already.`);
      throw error;
    }
    return { id, name };
  }

  suspendAccount(name: string): Promise<void> {
    return this.#changeAccount(name, (account) => suspendAccount(account, this.#actor));
  }

  reinstateAccount(name: string): Promise<void> {
    return this.#changeAccount(name, (account) => reinstateAccount(account, this.#actor));
  }

  /** Creates a key. The secret is in the reply and nowhere else. */
  async createKey(
    pepper: Buffer,
    command: { account: string; name: string; expiresAt: Date | null },
  ): Promise<{ id: string; secret: string }> {
    const model = await this.load();
    const account = requireAccount(model.accountNamed(command.account), command.account);
    const id = publicId();
    const secret = createSecret(id);
    const { name, expiresAt } = command;
    const known = describeSecret(pepper, secret);
    const event = createKey({ id, account: account.id, name, secret: known, expiresAt, actor: this.#actor }, new Date(model.nowMs()));
    await this.#append([{ event, version: 1 }]);
    return { id, secret };
  }

  /** Gives a key a new secret; the old one is good for `overlapMs` more. */
  async rotateKey(pepper: Buffer, id: string, overlapMs: number): Promise<{ id: string; secret: string }> {
    const secret = createSecret(id);
    const known = describeSecret(pepper, secret);
    await this.#changeKey(id, (key, now) => rotateKey(key, { secret: known, overlapMs, actor: this.#actor }, now));
    return { id, secret };
  }

  revokeKey(id: string): Promise<void> {
    return this.#changeKey(id, (key) => revokeKey(key, this.#actor));
  }

  /** Sets what calls of a model cost. */
  setPrice(pattern: string, prices: Prices): Promise<void> {
    return this.#change(({ prices: table }) => {
      const price = table.get(pattern);
      return { event: setPrice(price, { pattern, prices, source: MANUAL, actor: this.#actor }), version: (price?.version ?? 0) + 1 };
    });
  }

  /**
   * Sets those of the offered prices that differ from the ones in force.
   * @param command.dryRun to say only what would be done.
   */
  async importPrices(offers: readonly Offer[], command: { replaceManual: boolean; dryRun: boolean }): Promise<ImportPlan> {
    for (let attempt = 1; ; attempt++) {
      const { prices } = await this.load();
      const plan = planImport((pattern) => prices.get(pattern), offers, { ...command, actor: this.#actor });
      if (command.dryRun) return plan;
      try {
        for (let from = 0; from < plan.changes.length; from += PRICES_APPEND_MAX) {
          await this.#append(plan.changes.slice(from, from + PRICES_APPEND_MAX));
        }
        return plan;
      } catch (error) {
        // What was appended before somebody else's change came between is found unchanged next time.
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }

  #changeAccount(name: string, decide: (account: Account) => ControlEvent | null): Promise<void> {
    return this.#change((model) => {
      const account = requireAccount(model.accountNamed(name), name);
      return { event: decide(account), version: account.version + 1 };
    });
  }

  #changeKey(id: string, decide: (key: Key, now: Date) => ControlEvent | null): Promise<void> {
    return this.#change((model) => {
      const key = requireKey(model.key(id), id);
      return { event: decide(key, new Date(model.nowMs())), version: key.version + 1 };
    });
  }

  async #change(decide: (model: ReadModel) => { event: ControlEvent | null; version: number }): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { event, version } = decide(await this.load());
      if (event === null) return;
      try {
        return await this.#append([{ event, version }]);
      } catch (error) {
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }

  async #append(appends: ControlAppend[]): Promise<void> {
    await appendControl(this.#client, this.#instance, ++this.#batchNo, appends);
  }
}

function describeSecret(pepper: Buffer, secret: string): Secret {
  return { digest: digestSecret(pepper, secret), last4: secret.slice(-4) };
}

/** Runs commands as an instance of their own, which lives as long as they take. */
export async function withControl<T>(store: Store, actor: string, use: (control: Control, client: Client) => Promise<T>): Promise<T> {
  const client = await connectRelay(store);
  try {
    const instance = await registerInstance(client, actor);
    const beat = setInterval(() => void heartbeat(client, instance, 0).catch(() => {}), HEARTBEAT_MS);
    try {
      return await use(new Control(client, instance, actor), client);
    } finally {
      clearInterval(beat);
      await retireInstance(client, instance);
    }
  } finally {
    await closeClient(client);
  }
}
