import type { Client } from 'pg';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import type { ControlEvent, KeyTerms, PlanTerms } from '#db/events/events.ts';
import { type Account, newAccount } from '#db/fold/account.ts';
import type { Key, Secret } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import { publicId } from '#db/ids.ts';
import { withInstance } from '#db/instances/instance-session.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { ConflictError } from '#db/log/append.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { PRICES_IMPORT_MAX } from '#server/control/bounds.ts';
import { type AccountRef, type BatchNumbers, ControlLog } from '#server/control/control-log.ts';
import { type Change, UNCHANGED } from '#server/control/change.ts';
import { retryConflict } from '#server/control/retry-conflict.ts';
import {
  overrideTerms,
  registerAccount,
  reinstateAccount,
  requireAccount,
  setParent,
  setPlan,
  suspendAccount,
  topUp,
} from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import {
  type KeyCounts,
  countKeys,
  createKey,
  createNarrowedKey,
  renameKey,
  replaceLeaked,
  type Restriction,
  restrictKey,
  revokeKey,
  rotateKey,
} from '#server/decide/key.ts';
import { definePlan, requirePlan, retirePlan, type WindowsChoice } from '#server/decide/plan.ts';
import { type ImportPlan, MANUAL, type Offer, planImport, setPrice } from '#server/decide/price.ts';
import { adjustQuotas, type QuotaAdjustment } from '#server/decide/quota.ts';
import { type Correction, correctUsage } from '#server/decide/usage.ts';
import { createSecret, digestSecret } from '#server/secrets/key-secret.ts';

/** A created or rotated key with its new secret, which is stored nowhere. */
export type KeyWithSecret = Change & { id: string; secret: string };

/**
 * Changes to accounts, plans, keys and prices. Each method returns the event that it appended, or none if
 * nothing had to change, and throws a {@link DecisionError} if the change is rejected.
 */
export class Control extends ControlLog {
  readonly #actor: string;

  /** @param actor the actor recorded in the events. */
  constructor(client: Client, batches: BatchNumbers, actor: string) {
    super(client, batches);
    this.#actor = actor;
  }

  /** The actor recorded in the appended events. */
  get actor(): string {
    return this.#actor;
  }

  /**
   * Registers an account.
   * @param plan the initial plan; absent: no plan.
   * @throws {DecisionError} when the name is taken.
   */
  async createAccount(name: string, plan?: string): Promise<Change & { id: string; name: string }> {
    const id = publicId();
    const actor = this.#actor;
    const registered = registerAccount({ id, name, actor });
    const chosen = plan === undefined ? null : requirePlan(await this.loadPlan(plan), plan);
    const onPlan = chosen && setPlan(newAccount(registered), { plan: chosen, windows: 'keep', actor });
    const last = onPlan ?? registered;
    try {
      const position = await this.append([
        { event: registered, version: 1, claim: `account-name/${name}` },
        ...(onPlan ? [{ event: onPlan, version: 2 }] : []),
      ]);
      return { id, name, event: { type: last.type, position } };
    } catch (error) {
      throw error instanceof ConflictError ? nameTaken(name) : error;
    }
  }

  /**
   * Registers an account with its first key, in one append.
   * @param command.keep stores the secret before the key exists, so that no failure loses it.
   * @returns the secret.
   * @throws {DecisionError} when the name is taken.
   */
  async createAccountWithKey(
    pepper: Buffer,
    command: { account: string; key: string; keep: (secret: string) => void },
  ): Promise<string> {
    const actor = this.#actor;
    const [account, key] = [publicId(), publicId()];
    const now = await this.now();
    const registered = registerAccount({ id: account, name: command.account, actor });
    const secret = createSecret(key);
    const known = describeSecret(pepper, secret);
    const existing = countKeys([], now);
    const created = createKey(
      { id: key, account, existing, name: command.key, secret: known, expiresAt: null, actor },
      now,
    );
    command.keep(secret);
    try {
      await this.append([
        { event: registered, version: 1, claim: `account-name/${command.account}` },
        { event: created, version: 1 },
      ]);
      return secret;
    } catch (error) {
      throw error instanceof ConflictError ? nameTaken(command.account) : error;
    }
  }

  /** Also if a newer version has changed the account: it takes permissions away. */
  suspendAccount(account: AccountRef): Promise<Change> {
    return this.#changeAccount(account, (each) => suspendAccount(each, this.#actor), { evenUnapplied: true });
  }

  reinstateAccount(account: AccountRef): Promise<Change> {
    return this.#changeAccount(account, (each) => reinstateAccount(each, this.#actor));
  }

  /** Creates a key. Only the reply contains the secret. */
  async createKey(
    pepper: Buffer,
    command: {
      account: AccountRef;
      name: string;
      expiresAt: Date | null;
      terms?: KeyTerms;
      /** The account's number of keys; absent: they are counted by reading all control events. */
      existing?: KeyCounts;
    },
  ): Promise<KeyWithSecret> {
    const { account, existing } = command.existing
      ? { account: await this.loadAccount(command.account), existing: command.existing }
      : await this.loadAccountWithKeys(command.account);
    const id = publicId();
    const secret = createSecret(id);
    const { name, expiresAt, terms = {} } = command;
    const known = describeSecret(pepper, secret);
    const events = createNarrowedKey(
      { id, account: account.id, existing, name, secret: known, expiresAt, terms, actor: this.#actor },
      await this.now(),
    );
    return { id, secret, ...(await this.decide(async () => ({ events, version: 1 }))) };
  }

  /**
   * Rotates a key's secret; the old one stays valid for `overlapMs`.
   * @param rotation the client's idempotency key: the same key is never rotated twice under one id.
   */
  async rotateKey(pepper: Buffer, id: string, overlapMs: number, rotation?: string): Promise<KeyWithSecret> {
    const secret = createSecret(id);
    const known = describeSecret(pepper, secret);
    const claim = rotation === undefined ? undefined : `rotation/${id}/${rotation}`;
    const change = await this.#changeKey(
      id,
      (key, now) => [rotateKey(key, { secret: known, overlapMs, actor: this.#actor }, now)],
      { claim },
    );
    return { id, secret, ...change };
  }

  /** Replaces a leaked secret: every older secret becomes invalid at once. */
  async replaceLeaked(pepper: Buffer, id: string): Promise<KeyWithSecret> {
    const secret = createSecret(id);
    const known = describeSecret(pepper, secret);
    return {
      id,
      secret,
      ...(await this.#changeKey(id, (key, now) => [
        replaceLeaked(key, { secret: known, actor: this.#actor }, now),
      ])),
    };
  }

  /** Also if a newer version has changed the key: a leaked key must be revocable at any time. */
  revokeKey(id: string): Promise<Change> {
    return this.#changeKey(id, (key) => [revokeKey(key, this.#actor)], { evenUnapplied: true });
  }

  /** Restricts a key. */
  restrictKey(id: string, restriction: Restriction): Promise<Change> {
    return this.changeKey(id, { restriction });
  }

  /** Renames a key, restricts it, or both in one append. */
  changeKey(
    id: string,
    { name, restriction }: { name?: string; restriction?: Restriction },
  ): Promise<Change> {
    return this.#changeKey(id, (key, now) => [
      name === undefined ? null : renameKey(key, name, this.#actor),
      restriction === undefined ? null : restrictKey(key, { ...restriction, actor: this.#actor }, now),
    ]);
  }

  /** Creates a plan, or replaces its terms. */
  definePlan(name: string, terms: PlanTerms, windows: WindowsChoice): Promise<Change> {
    return this.#changePlan(name, (plan) => definePlan(plan, { name, terms, windows, actor: this.#actor }));
  }

  /** Retires a plan permanently. */
  retirePlan(name: string): Promise<Change> {
    return this.#changePlan(name, (plan) => retirePlan(requirePlan(plan, name), this.#actor));
  }

  /** Assigns a plan to an account; null removes its plan. */
  setPlan(account: AccountRef, plan: string | null, windows: WindowsChoice): Promise<Change> {
    return this.#changeAccount(account, async (each) => {
      const chosen = plan === null ? null : requirePlan(await this.loadPlan(plan), plan);
      return setPlan(each, { plan: chosen, windows, actor: this.#actor });
    });
  }

  /** Overrides the terms of an account's plan; {} removes the override. */
  overrideTerms(account: AccountRef, terms: PlanTerms, windows: WindowsChoice): Promise<Change> {
    return this.#changeAccount(account, (each) =>
      overrideTerms(each, { terms, windows, actor: this.#actor }),
    );
  }

  /** Puts an account below another one, to whose limits its calls are charged too; null: below none. */
  setParent(ref: AccountRef, parentName: string | null): Promise<Change> {
    return this.decide(async () => {
      const model = await this.load();
      const accounts = new Map([...model.accounts].map((account) => [account.id, account]));
      const { id } = await this.loadAccount(ref);
      const account = requireAccount(accounts.get(id), id);
      const parent = parentName === null ? null : requireAccount(model.accountNamed(parentName), parentName);
      const event = setParent(account, { parent, accounts, actor: this.#actor });
      return { events: present([event]), version: account.version + 1 };
    });
  }

  /**
   * Adds money to the prepaid balance of an account, once for each reference.
   * @param command.amount in nano-dollars.
   */
  async topUp(ref: AccountRef, command: { amount: number; reference: string }): Promise<Change> {
    const { id } = await this.loadAccount(ref);
    const claim = `top-up/${id}/${command.reference.trim()}`;
    return this.decide(async () => {
      const account = await this.loadAccount({ id });
      return {
        events: [topUp(account, { ...command, actor: this.#actor })],
        version: account.version + 1,
      };
    }, claim);
  }

  /**
   * Adjusts the usage of an account's quotas in their current windows, and of a key's if one is named. The
   * change of the limits and its events are one transaction.
   * @param command.adjustment the client's idempotency key: the same adjustment is never made twice.
   */
  async adjustQuotas(
    ref: AccountRef,
    command: QuotaAdjustment & { adjustment: string | null },
  ): Promise<Change> {
    const { adjustment, ...rest } = command;
    const { id: account } = await this.loadAccount(ref);
    const claim = adjustment === null ? undefined : `adjustment/${account}/${adjustment}`;
    return this.decide(async () => {
      const { subjects, nowMs } = await this.loadLimits(account, rest.key, rest.attribution);
      const minute = minuteOf(nowMs);
      const decided = adjustQuotas({ ...rest, account, subjects, minute, actor: this.#actor });
      return { ...decided, version: (await this.loadVersion(`quota/${account}`)) + 1 };
    }, claim);
  }

  /**
   * Corrects the figures of an ended request, once for each reference, and its windows that are not over.
   * @param ref the account that it must be of; null: any.
   * @throws {DecisionError} `already_done` when it was corrected with the reference.
   */
  async correctUsage(ref: AccountRef | null, request: string, correction: Correction): Promise<Change> {
    const owner = ref === null ? null : await this.loadAccount(ref);
    for (let attempt = 1; ; attempt++) {
      const { seen, ...ended } = await this.loadEndedRequest(request, owner);
      const event = correctUsage(ended, { ...correction, actor: this.#actor });
      try {
        return { event: { type: event.type, position: await this.appendCorrections(seen, [event]) } };
      } catch (error) {
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }

  /**
   * Sets the price of a model.
   * @param plan whose accounts are charged this; null: it is what the provider charges.
   */
  setPrice(pattern: string, terms: PriceTerms, plan: string | null = null): Promise<Change> {
    return this.decide(async () => {
      if (plan !== null && (await this.loadPlan(plan))?.state !== 'active')
        throw new DecisionError('not_found', `There is no plan "${plan}".`);
      const price = await this.loadPrice(pattern, plan);
      const event = setPrice(price, { pattern, plan, terms, source: MANUAL, actor: this.#actor });
      return { events: event === null ? [] : [event], version: (price?.version ?? 0) + 1 };
    });
  }

  /**
   * Sets the offered prices that differ from the current ones, in one transaction.
   * @param command.dryRun only report the changes.
   */
  importPrices(
    offers: readonly Offer[],
    command: { replaceManual: boolean; dryRun: boolean },
  ): Promise<ImportPlan & Change> {
    return retryConflict(async () => {
      const prices = await this.loadPrices(offers.map(({ pattern }) => pattern));
      const plan = planImport((pattern) => prices.get(pattern), offers, { ...command, actor: this.#actor });
      const last = plan.changes.at(-1);
      if (command.dryRun || last === undefined) return { ...plan, ...UNCHANGED };
      if (plan.changes.length > PRICES_IMPORT_MAX)
        throw new DecisionError(
          'invalid',
          `An import changes at most ${PRICES_IMPORT_MAX} prices, and this one ${plan.changes.length}. ` +
            'Import fewer providers at once.',
        );
      const position = await this.append(plan.changes);
      return { ...plan, event: { type: last.event.type, position } };
    });
  }

  #changeAccount(
    ref: AccountRef,
    decide: (account: Account) => ControlEvent | null | Promise<ControlEvent | null>,
    options: { evenUnapplied?: boolean } = {},
  ): Promise<Change> {
    return this.decide(async () => {
      const account = await this.loadAccount(ref, options);
      return { events: present([await decide(account)]), version: account.version + 1 };
    });
  }

  #changeKey(
    id: string,
    decide: (key: Key, now: Date) => (ControlEvent | null)[],
    { claim, ...options }: { claim?: string | undefined; evenUnapplied?: boolean } = {},
  ): Promise<Change> {
    return this.decide(async () => {
      const { model, key } = await this.loadKey(id, options);
      return { events: present(decide(key, new Date(model.nowMs()))), version: key.version + 1 };
    }, claim);
  }

  #changePlan(name: string, decide: (plan: Plan | undefined) => ControlEvent | null): Promise<Change> {
    return this.decide(async () => {
      const plan = await this.loadPlan(name);
      return { events: present([decide(plan)]), version: (plan?.version ?? 0) + 1 };
    });
  }
}

const present = (events: readonly (ControlEvent | null)[]): ControlEvent[] =>
  events.filter((event) => event !== null);

const nameTaken = (name: string): DecisionError =>
  new DecisionError('already_exists', `There is an account named "${name}" already.`);

function describeSecret(pepper: Buffer, secret: string): Secret {
  return { digest: digestSecret(pepper, secret), last4: secret.slice(-4) };
}

/** Runs commands as an instance of their own, which is retired when they end. */
export async function withControl<T>(
  store: Store,
  actor: string,
  use: (control: Control, client: Client) => Promise<T>,
): Promise<T> {
  const client = await connectRelay(store);
  try {
    return await withInstance(client, actor, (session) => use(new Control(client, session, actor), client));
  } finally {
    await closeClient(client);
  }
}
