import type { Client } from 'pg';
import { HEARTBEAT_MS } from '#db/bounds.ts';
import { closeClient, type Store } from '#db/connect.ts';
import type { ControlEvent, Placed, PlanTerms } from '#db/events.ts';
import type { Account } from '#db/fold/account.ts';
import type { Key, Secret } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import { publicId } from '#db/ids.ts';
import { heartbeat, registerInstance, retireInstance } from '#db/instance.ts';
import { appendControl, ConflictError, type ControlAppend } from '#db/log/append.ts';
import { PAGE_ROWS, readPage, readStream } from '#db/log/read.ts';
import type { Prices } from '#db/money.ts';
import { PRICES_APPEND_MAX } from '#server/bounds.ts';
import { overrideTerms, registerAccount, reinstateAccount, requireAccount, setPlan, suspendAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { createKey, requireKey, type Restriction, restrictKey, revokeKey, rotateKey } from '#server/decide/key.ts';
import { definePlan, requirePlan, retirePlan, type WindowsChoice } from '#server/decide/plan.ts';
import { type ImportPlan, MANUAL, type Offer, planImport, setPrice } from '#server/decide/price.ts';
import { createSecret, digestSecret } from '#server/key-secret.ts';
import { ReadModel } from '#server/read-model.ts';
import { connectRelay } from '#server/store.ts';

/** Batches of one instance are numbered without a gap, whoever appends them: a number that comes twice is taken for a retry. */
export type Batches = { instance: number; last: number };

/**
 * Changes to accounts, plans, keys and prices: load the state from the log, decide, append with the version that
 * the decision was made on. When somebody else was faster, it is decided once more on what is then
 * there.
 */
export class Control {
  readonly #client: Client;
  readonly #batches: Batches;
  readonly #actor: string;

  constructor(client: Client, batches: Batches, actor: string) {
    this.#client = client;
    this.#batches = batches;
    this.#actor = actor;
  }

  /** Who is told of in what is appended. */
  get actor(): string {
    return this.#actor;
  }

  /** The state of everything, as the log has it now. */
  async load(): Promise<ReadModel> {
    const model = new ReadModel();
    for (;;) {
      const page = await readPage(this.#client, model.position, 'control');
      model.apply(page);
      if (page.length < PAGE_ROWS) break;
    }
    return this.#withClock(model);
  }

  /**
   * A key with all that its calls depend on: its account, and the plans that the account has been
   * on. A few streams, so it takes no longer when there are many keys.
   */
  async loadKey(id: string): Promise<{ model: ReadModel; key: Key }> {
    const ofKey = await this.#read([`key/${id}`]);
    const account = ofKey.map(({ event }) => event).find((event) => event.type === 'key.created')?.account;
    const ofAccount = account === undefined ? [] : await this.#read([`account/${account}`]);
    const plans = new Set(ofAccount.flatMap(({ event }) => (event.type === 'account.plan_changed' && event.plan !== null ? [`plan/${event.plan}`] : [])));
    const model = new ReadModel();
    model.apply([...ofKey, ...ofAccount, ...(await this.#read([...plans]))].toSorted((one, other) => one.position - other.position));
    await this.#withClock(model);
    return { model, key: requireKey(model.key(id), id) };
  }

  async #read(streams: readonly string[]): Promise<Placed<ControlEvent>[]> {
    const events: Placed<ControlEvent>[] = [];
    for (const stream of streams) events.push(...(await readStream(this.#client, stream)));
    return events;
  }

  async #withClock(model: ReadModel): Promise<ReadModel> {
    const { rows } = await this.#client.query<{ now: Date }>('select clock_timestamp() as now');
    if (rows[0]) model.setClock(rows[0].now);
    return model;
  }

  /** Registers an account. @throws {DecisionError} when the name is taken. */
  async createAccount(name: string): Promise<{ id: string; name: string }> {
    const id = publicId();
    const event = registerAccount({ id, name, actor: this.#actor });
    try {
      await this.append([{ event, version: 1, claim: `account-name/${name}` }]);
    } catch (error) {
      if (error instanceof ConflictError) throw new DecisionError('already_exists', `There is an account named "${name}" already.`);
      throw error;
    }
    return { id, name };
  }

  async suspendAccount(name: string): Promise<void> {
    await this.#changeAccount(name, (account) => suspendAccount(account, this.#actor));
  }

  async reinstateAccount(name: string): Promise<void> {
    await this.#changeAccount(name, (account) => reinstateAccount(account, this.#actor));
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
    await this.append([{ event, version: 1 }]);
    return { id, secret };
  }

  /** Gives a key a new secret; the old one is good for `overlapMs` more. */
  async rotateKey(pepper: Buffer, id: string, overlapMs: number): Promise<{ id: string; secret: string }> {
    const secret = createSecret(id);
    const known = describeSecret(pepper, secret);
    await this.#changeKey(id, (key, now) => rotateKey(key, { secret: known, overlapMs, actor: this.#actor }, now));
    return { id, secret };
  }

  async revokeKey(id: string): Promise<void> {
    await this.#changeKey(id, (key) => revokeKey(key, this.#actor));
  }

  /** Narrows what a key may use. @returns whether that changed anything. */
  restrictKey(id: string, restriction: Restriction): Promise<boolean> {
    return this.#changeKey(id, (key, now) => restrictKey(key, { ...restriction, actor: this.#actor }, now));
  }

  /** Gives a plan its terms, the first time or anew. */
  async definePlan(name: string, terms: PlanTerms, windows: WindowsChoice): Promise<'defined' | 'changed' | 'unchanged'> {
    let isNew = false;
    const changed = await this.#changePlan(name, (plan) => {
      isNew = plan === undefined;
      return definePlan(plan, { name, terms, windows, actor: this.#actor });
    });
    if (!changed) return 'unchanged';
    return isNew ? 'defined' : 'changed';
  }

  /** Ends a plan for good. @returns false when it is retired already. */
  retirePlan(name: string): Promise<boolean> {
    return this.#changePlan(name, (plan) => retirePlan(requirePlan(plan, name), this.#actor));
  }

  /** Puts an account on a plan, or with null on none. @returns whether that changed anything. */
  setPlan(name: string, plan: string | null, windows: WindowsChoice): Promise<boolean> {
    return this.#changeAccount(name, (account, model) => {
      const chosen = plan === null ? null : requirePlan(model.plan(plan), plan);
      return setPlan(account, { plan: chosen, windows, actor: this.#actor });
    });
  }

  /** Gives an account terms of its own, none with {}. @returns whether that changed anything. */
  overrideTerms(name: string, terms: PlanTerms, windows: WindowsChoice): Promise<boolean> {
    return this.#changeAccount(name, (account) => overrideTerms(account, { terms, windows, actor: this.#actor }));
  }

  /** Sets what calls of a model cost. */
  async setPrice(pattern: string, prices: Prices): Promise<void> {
    await this.#change(async () => {
      const { prices: table } = await this.load();
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
          await this.append(plan.changes.slice(from, from + PRICES_APPEND_MAX));
        }
        return plan;
      } catch (error) {
        // What was appended before somebody else's change came between is found unchanged next time.
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }

  #changeAccount(name: string, decide: (account: Account, model: ReadModel) => ControlEvent | null): Promise<boolean> {
    return this.#change(async () => {
      const model = await this.load();
      const account = requireAccount(model.accountNamed(name), name);
      return { event: decide(account, model), version: account.version + 1 };
    });
  }

  #changeKey(id: string, decide: (key: Key, now: Date) => ControlEvent | null): Promise<boolean> {
    return this.#change(async () => {
      const { model, key } = await this.loadKey(id);
      return { event: decide(key, new Date(model.nowMs())), version: key.version + 1 };
    });
  }

  #changePlan(name: string, decide: (plan: Plan | undefined) => ControlEvent | null): Promise<boolean> {
    return this.#change(async () => {
      const model = new ReadModel();
      model.apply(await this.#read([`plan/${name}`]));
      const plan = model.plan(name);
      return { event: decide(plan), version: (plan?.version ?? 0) + 1 };
    });
  }

  /** Loads, decides and appends. @returns false when the decision was that nothing has to change. */
  async #change(decide: () => Promise<{ event: ControlEvent | null; version: number }>): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      const { event, version } = await decide();
      if (event === null) return false;
      try {
        await this.append([{ event, version }]);
        return true;
      } catch (error) {
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }

  /**
   * Appends what was decided, all of it or nothing.
   * @returns the position of the last event.
   * @throws {ConflictError} when it was decided on what is no longer so.
   */
  append(appends: readonly ControlAppend[]): Promise<number> {
    return appendControl(this.#client, this.#batches.instance, ++this.#batches.last, appends);
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
      return await use(new Control(client, { instance, last: 0 }, actor), client);
    } finally {
      clearInterval(beat);
      await retireInstance(client, instance);
    }
  } finally {
    await closeClient(client);
  }
}
