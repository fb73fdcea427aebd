import type { AccountEvent, KeyEvent, MemberEvent, PlanEvent } from '#db/events/subjects.ts';
import { type ControlEvent, type EventOf, isControl, type Placed } from '#db/events/events.ts';
import { type Account, applyPlanEvent, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { evolveMember, type Member } from '#db/fold/member.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { evolveRegistration, type Registration, REGISTRATION_FIRST } from '#db/fold/registration.ts';
import type { Stored } from '#db/fold/stored.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { type Access, accessOfAccount, accessOfKey } from '#server/read-model/access.ts';
import { READ_MODEL_STALE_MS } from '#server/read-model/bounds.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import { CATCH_UP_WAIT_MS } from '#server/read-model/bounds.ts';
import { ConditionVariable } from '#server/read-model/condition-variable.ts';
import { UpstreamDirectory } from '#server/upstreams/directory.ts';

/** Told once for each page of the log, with the accounts whose calls it may concern. */
export type ChangeListener = (accounts: ReadonlySet<string>) => void;

const UNLIMITED: readonly SubjectLimits[] = [];

/** Told of each event that may end a session: it was closed, or its member changed. */
export type SessionListener = (event: MemberEvent | EventOf<'session.closed'>) => void;

/**
 * Accounts, keys, plans, prices and upstreams in memory, folded from the log by following it. The hot path
 * reads only this; it never asks the database. It is only as good as it is {@link ReadModel.isCurrent
 * current}.
 */
export class ReadModel {
  readonly prices = new PriceTable();
  readonly directory = new UpstreamDirectory();
  readonly #accounts = new Map<string, Account>();
  readonly #keys = new Map<string, Key>();
  /** The ids of each account's keys, the oldest first. */
  readonly #keysOf = new Map<string, string[]>();
  readonly #plans = new Map<string, Plan>();
  readonly #members = new Map<string, Member>();
  readonly #administrators = new Set<string>();
  #registration: Registration = REGISTRATION_FIRST;
  /**
   * What terms amount to, compiled when first asked for and until they change. Subjects without terms have no
   * entry.
   */
  readonly #accountAccess = new Map<string, Access>();
  readonly #keyAccess = new Map<string, Access>();
  readonly #listeners: ChangeListener[] = [];
  readonly #sessionListeners: SessionListener[] = [];
  readonly #waiters = new ConditionVariable();
  #currentAtMs = Number.NEGATIVE_INFINITY;
  #position = 0;
  #head = 0;
  /** Postgres' clock minus this process's monotonic clock. */
  #clockOffsetMs = Date.now() - performance.now();

  /** Takes in the next events of the log, in order. */
  apply(events: readonly Placed[]): void {
    const changed = new Set<string>();
    for (const placed of events) {
      this.#position = placed.position;
      if (isControl(placed)) this.#applyControl(placed, changed);
    }
    if (changed.size > 0) for (const listener of this.#listeners) listener(changed);
    this.#waiters.notifyAll();
  }

  /** Resolves when something of this is so, or after a while: what follows asks again. */
  async until(isSo: () => boolean): Promise<void> {
    await this.#waiters.until(isSo, CATCH_UP_WAIT_MS);
  }

  /** Resolves when the log was heard of up to a position, or after a while. */
  untilPosition(position: number): Promise<void> {
    return this.until(() => this.#position >= position);
  }

  /** @param changed takes the accounts whose calls may be judged otherwise from here on. */
  #applyControl({ event, at, position, version }: Placed<ControlEvent>, changed: Set<string>): void {
    switch (event.type) {
      case 'account.registered':
      case 'account.suspended':
      case 'account.reinstated':
      case 'account.plan_changed':
      case 'account.terms_overridden':
        return this.#applyAccount({ event, at, position, version }, changed);
      case 'key.created':
      case 'key.rotated':
      case 'key.revoked':
      case 'key.restricted':
      case 'key.expired':
      case 'key.renamed':
        return this.#applyKey({ event, at, position, version }, changed);
      case 'plan.defined':
      case 'plan.changed':
      case 'plan.retired':
        return this.#applyPlan({ event, at, position, version }, changed);
      case 'model.priced':
        return this.prices.apply({ event, at, position, version });
      case 'member.added':
      case 'member.role_changed':
      case 'member.removed':
      case 'member.password_changed':
      case 'member.totp_changed':
      case 'member.reset_link_created':
        return this.#applyMember({ event, at, position, version });
      case 'session.closed':
        return this.#tellSessions(event);
      case 'registration.changed':
        this.#registration = evolveRegistration({ event, at, position, version });
        return;
      case 'model.defined':
      case 'model.retired':
      case 'upstream.added':
      case 'upstream.changed':
      case 'upstream.removed':
      case 'upstream.credential_added':
      case 'upstream.credential_removed':
        return this.directory.apply({ event, at, position, version });
      // Neither a call nor a session depends on these.
      case 'session.opened':
      case 'invitation.created':
      case 'invitation.revoked':
      case 'log.signer_changed':
      case 'log.epoch_started':
      case 'log.read':
        return;
      default:
        // The compiler names a type that has no case here.
        event satisfies never;
    }
  }

  #applyKey(stored: Stored<KeyEvent>, changed: Set<string>): void {
    const { event } = stored;
    const key = evolveKey(this.#keys.get(event.key), stored);
    if (!key) return;
    this.#keys.set(key.id, key);
    if (event.type === 'key.created') this.#noteOwner(key);
    // The clock decides when a key ends. What happens to its running calls must not depend on whether a
    // worker is there to put it down.
    if (event.type === 'key.created' || event.type === 'key.expired' || event.type === 'key.renamed') return;
    if (event.type === 'key.restricted') this.#keyAccess.delete(key.id);
    changed.add(key.account);
  }

  #noteOwner({ id, account }: Key): void {
    const ids = this.#keysOf.get(account);
    if (ids) ids.push(id);
    else this.#keysOf.set(account, [id]);
  }

  #applyAccount(stored: Stored<AccountEvent>, changed: Set<string>): void {
    const { event } = stored;
    const account = evolveAccount(this.#accounts.get(event.account), stored);
    if (!account) return;
    this.#accounts.set(account.id, account);
    if (event.type === 'account.registered') return;
    if (event.type === 'account.plan_changed' || event.type === 'account.terms_overridden')
      this.#accountAccess.delete(account.id);
    changed.add(account.id);
  }

  #applyMember(stored: Stored<MemberEvent>): void {
    const { event } = stored;
    const member = evolveMember(this.#members.get(event.member), stored);
    if (!member) return;
    this.#members.set(member.id, member);
    if (member.role === 'administrator' && member.state === 'active') this.#administrators.add(member.id);
    else this.#administrators.delete(member.id);
    this.#tellSessions(event);
  }

  #tellSessions(event: Parameters<SessionListener>[0]): void {
    for (const listener of this.#sessionListeners) listener(event);
  }

  /** A walk over the accounts, which is rare: plans change by the hand of people. */
  #applyPlan(stored: Stored<PlanEvent>, changed: Set<string>): void {
    const plan = evolvePlan(this.#plans.get(stored.event.plan), stored);
    if (!plan) return;
    this.#plans.set(plan.name, plan);
    for (const account of this.#accounts.values()) {
      if (account.plan !== plan.name) continue;
      this.#accounts.set(account.id, applyPlanEvent(account, stored));
      this.#accountAccess.delete(account.id);
      changed.add(account.id);
    }
  }

  /** Has `listener` told of each change to accounts, plans and keys that calls may depend on. */
  onChange(listener: ChangeListener): void {
    this.#listeners.push(listener);
  }

  /** Has `listener` told of each event that may end sessions or change what they may see. */
  onSession(listener: SessionListener): void {
    this.#sessionListeners.push(listener);
  }

  /** Notes that the log was just read to its head, which was at least there. */
  markCurrent(head: number): void {
    this.#currentAtMs = performance.now();
    this.#head = Math.max(this.#head, head);
  }

  /** The newest position of the whole log that was seen; events above it may be there by now. */
  get head(): number {
    return this.#head;
  }

  /** Whether revocations and suspensions of more than a few seconds ago are known here. */
  isCurrent(): boolean {
    return performance.now() - this.#currentAtMs < READ_MODEL_STALE_MS;
  }

  /** Sets the clock by Postgres', which decides expiry whatever this machine's clock says. */
  setClock(postgresNow: Date): void {
    this.#clockOffsetMs = postgresNow.getTime() - performance.now();
  }

  /** Now, by Postgres' clock, in milliseconds since 1970. */
  nowMs(): number {
    return performance.now() + this.#clockOffsetMs;
  }

  account(id: string): Account | undefined {
    return this.#accounts.get(id);
  }

  /** Names are unique. A walk: only commands of people name accounts. */
  accountNamed(name: string): Account | undefined {
    return this.#accounts.values().find((account) => account.name === name);
  }

  plan(name: string): Plan | undefined {
    return this.#plans.get(name);
  }

  member(id: string): Member | undefined {
    return this.#members.get(id);
  }

  get members(): Iterable<Member> {
    return this.#members.values();
  }

  get hasAdministrator(): boolean {
    return this.#administrators.size > 0;
  }

  /** Who may register, and on which plan new accounts land. */
  get registration(): Registration {
    return this.#registration;
  }

  get plans(): Iterable<Plan> {
    return this.#plans.values();
  }

  get accounts(): Iterable<Account> {
    return this.#accounts.values();
  }

  /** What an account may use; null: it has neither plan nor override, and so everything. */
  accountAccess(account: Account): Access | null {
    if (account.plan === null && account.override === null) return null;
    let access = this.#accountAccess.get(account.id);
    if (!access) {
      access = accessOfAccount(account, account.plan === null ? undefined : this.#plans.get(account.plan));
      this.#accountAccess.set(account.id, access);
    }
    return access;
  }

  /** What a key may use of what its account may; null: all of that. */
  keyAccess(key: Key): Access | null {
    if (key.terms === null) return null;
    const known = this.#keyAccess.get(key.id);
    if (known) return known;
    const access = accessOfKey(key);
    if (access) this.#keyAccess.set(key.id, access);
    return access;
  }

  /**
   * The limits that a key's calls are charged to: its account's and its own. Each is the same object until
   * its terms change.
   */
  limitsOf(key: Key): readonly SubjectLimits[] {
    const account = this.#accounts.get(key.account);
    const ofAccount = (account && this.accountAccess(account)?.limits) ?? null;
    const ofKey = this.keyAccess(key)?.limits ?? null;
    if (ofAccount === null) return ofKey === null ? UNLIMITED : [ofKey];
    return ofKey === null ? [ofAccount] : [ofAccount, ofKey];
  }

  /**
   * The position of the newest control event that a key's terms come from, its account's and its
   * plan's included; 0 when there is none. Also where nothing is limited any more: the log must tell
   * that a call was admitted after a limit was taken away.
   */
  termsPosition(key: Key): number {
    const account = this.#accounts.get(key.account);
    const plan = account?.plan == null ? undefined : this.#plans.get(account.plan);
    return Math.max(key.termsPosition, account?.termsPosition ?? 0, plan?.position ?? 0);
  }

  key(id: string): Key | undefined {
    return this.#keys.get(id);
  }

  /** The keys of an account, those that have ended too; the oldest first. */
  keysOf(account: string): Key[] {
    return (this.#keysOf.get(account) ?? []).map((id) => this.#keys.get(id) as Key);
  }

  /** In the order in which they were created. */
  get keys(): Iterable<Key> {
    return this.#keys.values();
  }

  /** The position of the last event taken in. */
  get position(): number {
    return this.#position;
  }

  get size(): { accounts: number; keys: number } {
    return { accounts: this.#accounts.size, keys: this.#keys.size };
  }
}
