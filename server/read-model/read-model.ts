import type { AccountEvent, KeyEvent, MemberEvent, PlanEvent } from '#db/events/subjects.ts';
import { type ControlEvent, type EventOf, isControl, type Placed } from '#db/events/events.ts';
import { adjustedSubject } from '#db/events/quota-events.ts';
import { type Account, applyPlanEvent, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { evolveMember, type Member } from '#db/fold/member.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { evolveRegistration, type Registration, REGISTRATION_FIRST } from '#db/fold/registration.ts';
import type { Stored } from '#db/fold/stored.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import type { CallAttribution } from '#db/limits/subjects.ts';
import { type Read, UnreadableEventError } from '#db/log/read.ts';
import { type Access, accessOfAccount, accessOfKey } from '#server/read-model/access.ts';
import { CATCH_UP_WAIT_MS, READ_MODEL_STALE_MS } from '#server/read-model/bounds.ts';
import { ChargedLimits } from '#server/read-model/charged-limits.ts';
import type { AdjustmentListener, ChangeListener, SessionListener } from '#server/read-model/listeners.ts';
import { Identities } from '#server/read-model/identities.ts';
import { ManagementKeys } from '#server/read-model/management-keys.ts';
import { hasNoEffect } from '#server/read-model/no-effect.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import { ConditionVariable } from '#server/read-model/condition-variable.ts';
import { advance, type Unapplied, UnappliedEvents } from '#server/read-model/unapplied-events.ts';
import { Workloads } from '#server/read-model/workloads.ts';
import { UpstreamDirectory } from '#server/upstreams/directory.ts';

/**
 * Accounts, keys, plans, prices and upstreams in memory, folded from the log by following it. The hot path
 * reads only this, never the database. Check {@link ReadModel.isCurrent isCurrent} before relying on it.
 */
export class ReadModel {
  readonly prices = new PriceTable();
  readonly directory = new UpstreamDirectory();
  readonly managementKeys = new ManagementKeys();
  readonly identities = new Identities();
  readonly workloads = new Workloads();
  /** The limits that calls are charged to, of their accounts, parent accounts and keys. */
  readonly charged = new ChargedLimits(this);
  /** What this version could not apply; the subjects of these events are not served. */
  readonly unapplied = new UnappliedEvents();
  readonly #accounts = new Map<string, Account>();
  readonly #keys = new Map<string, Key>();
  /** The ids of each account's keys, the oldest first. */
  readonly #keysOf = new Map<string, string[]>();
  readonly #plans = new Map<string, Plan>();
  readonly #members = new Map<string, Member>();
  readonly #administrators = new Set<string>();
  #registration: Registration = REGISTRATION_FIRST;
  /** Compiled terms, cached at the first use until they change. Subjects without terms have no entry. */
  readonly #accountAccess = new Map<string, Access>();
  readonly #keyAccess = new Map<string, Access>();
  readonly #listeners: ChangeListener[] = [];
  readonly #sessionListeners: SessionListener[] = [];
  readonly #adjustmentListeners: AdjustmentListener[] = [];
  readonly #applied = new ConditionVariable();
  #currentAtMs = Number.NEGATIVE_INFINITY;
  #position = 0;
  #head = 0;
  /** Postgres' clock minus this process's monotonic clock. */
  #clockOffsetMs = Date.now() - performance.now();

  /**
   * Applies the next events of the log, in order. Those that can't be read are passed over and, unless they
   * may be skipped, noted in {@link unapplied}.
   */
  apply(rows: readonly Read[]): void {
    const changed = new Set<string>();
    for (const row of rows) {
      this.#position = row.position;
      if (row instanceof UnreadableEventError) this.#passOver(row);
      else if (isControl(row)) this.#applyControl(row, changed);
    }
    if (changed.size > 0) for (const listener of this.#listeners) listener(changed);
    this.#applied.notifyAll();
  }

  /** Resolves when the predicate holds, or after a timeout, so the caller must check it again. */
  async until(predicate: () => boolean): Promise<void> {
    await this.#applied.until(predicate, CATCH_UP_WAIT_MS);
  }

  /** Resolves when the events up to a position are applied, or after a timeout. */
  untilPosition(position: number): Promise<void> {
    return this.until(() => this.#position >= position);
  }

  /**
   * The next change of a subject names the version after this event, though the event was not applied. Calls
   * that run already are left to end: they were admitted before it.
   */
  #passOver(error: UnreadableEventError): void {
    const { row } = error;
    const [kind, id = ''] = row?.stream?.split(/\/(.*)/, 2) ?? [];
    const version = row?.version ?? 0;
    if (kind === 'key') advance(this.#keys, id, version);
    if (kind === 'account') advance(this.#accounts, id, version);
    if (kind === 'plan') advance(this.#plans, id, version);
    if (error.maySkip) return;
    this.unapplied.note(error);
    if (kind === 'upstream') this.directory.pause(id);
  }

  /** The event that keeps a key's calls from being served: its own, its account's or its plan's. */
  unappliedOf(key: Key): Unapplied | undefined {
    if (this.unapplied.isEmpty) return undefined;
    const ofKey = this.unapplied.of('key', key.id);
    if (ofKey) return ofKey;
    for (const account of [key.account, ...this.charged.parentsOf(key.account)]) {
      const plan = this.#accounts.get(account)?.plan;
      const found =
        this.unapplied.of('account', account) ?? (plan == null ? undefined : this.unapplied.of('plan', plan));
      if (found) return found;
    }
    return undefined;
  }

  /** @param changed collects the accounts whose running calls must be authorized again. */
  #applyControl({ event, at, position, version }: Placed<ControlEvent>, changed: Set<string>): void {
    switch (event.type) {
      case 'account.registered':
      case 'account.suspended':
      case 'account.reinstated':
      case 'account.plan_changed':
      case 'account.terms_overridden':
      case 'account.parent_changed':
      case 'account.topped_up':
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
        return this.#notifySessions(event);
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
      case 'quota.adjusted':
        return this.#notifyAdjusted(event);
      case 'management_key.created':
      case 'management_key.revoked':
        return this.managementKeys.apply({ event, at, position, version });
      case 'identity_provider.configured':
      case 'identity_provider.removed':
        return this.identities.apply({ event, at, position, version });
      case 'workload.configured':
      case 'workload.removed':
        return this.workloads.apply({ event, at, position, version });
      case 'sign_in.changed':
        return this.identities.applySignIn({ event, at, position, version });
      default:
        // The compiler names a type that has no case here.
        if (!hasNoEffect(event)) event satisfies never;
    }
  }

  #applyKey(stored: Stored<KeyEvent>, changed: Set<string>): void {
    const { event } = stored;
    const key = evolveKey(this.#keys.get(event.key), stored);
    if (!key) return;
    this.#keys.set(key.id, key);
    if (event.type === 'key.created') this.#noteOwner(key);
    // A key expires by the clock. Its running calls must not depend on whether a worker records the expiry.
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
    // Its calls are authorized as before, and charged to other limits from the next one on.
    if (event.type === 'account.parent_changed') return;
    if (event.type !== 'account.suspended' && event.type !== 'account.reinstated')
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
    this.#notifySessions(event);
  }

  #notifySessions(event: Parameters<SessionListener>[0]): void {
    for (const listener of this.#sessionListeners) listener(event);
  }

  /** The adjusted usage itself is in the allowances. */
  #notifyAdjusted(event: EventOf<'quota.adjusted'>): void {
    for (const listener of this.#adjustmentListeners) listener(adjustedSubject(event));
  }

  /** Iterates over all accounts, which is rare: only administrators change plans. */
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

  /** Calls `listener` on changes to accounts, plans and keys that may affect calls. */
  onChange(listener: ChangeListener): void {
    this.#listeners.push(listener);
  }

  /** Calls `listener` on each event that may end sessions or change their permissions. */
  onSession(listener: SessionListener): void {
    this.#sessionListeners.push(listener);
  }

  /** Calls `listener` on each adjustment of usage. */
  onAdjustment(listener: AdjustmentListener): void {
    this.#adjustmentListeners.push(listener);
  }

  /** Records that the log was just read up to this head. */
  markCurrent(head: number): void {
    this.#currentAtMs = performance.now();
    this.#head = Math.max(this.#head, head);
  }

  /** The newest known position of the full log; there may be newer events by now. */
  get head(): number {
    return this.#head;
  }

  /** Whether all revocations and suspensions older than a few seconds are applied. */
  isCurrent(): boolean {
    return performance.now() - this.#currentAtMs < READ_MODEL_STALE_MS;
  }

  /** Synchronizes with the clock of PostgreSQL, which decides expiry whatever the clock of this machine. */
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

  /** Names are unique. Iterates over all accounts: only commands look accounts up by name. */
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

  /** The registration policy, and the plan of new accounts. */
  get registration(): Registration {
    return this.#registration;
  }

  get plans(): Iterable<Plan> {
    return this.#plans.values();
  }

  get accounts(): Iterable<Account> {
    return this.#accounts.values();
  }

  /**
   * The compiled terms of an account; null: it has neither a plan nor an override, so nothing is restricted.
   */
  accountAccess(account: Account): Access | null {
    if (account.plan === null && account.override === null) return null;
    let access = this.#accountAccess.get(account.id);
    if (!access) {
      access = accessOfAccount(account, account.plan === null ? undefined : this.#plans.get(account.plan));
      this.#accountAccess.set(account.id, access);
    }
    return access;
  }

  /** The compiled restrictions of a key; null: none beyond its account's. */
  keyAccess(key: Key): Access | null {
    if (key.terms === null) return null;
    const known = this.#keyAccess.get(key.id);
    if (known) return known;
    const access = accessOfKey(key);
    if (access) this.#keyAccess.set(key.id, access);
    return access;
  }

  /** Whether the plan of a key's account keeps replies to requests with an idempotency key. */
  keepsReplies({ account: id }: Key): boolean {
    const account = this.account(id);
    return account !== undefined && this.accountAccess(account)?.keepsReplies === true;
  }

  /** The limits that a key's call is charged to; see {@link ChargedLimits.of}. */
  limitsOf(key: Key, call?: CallAttribution): readonly SubjectLimits[] {
    return this.charged.of(key, call);
  }

  /** The position of the newest control event that a key's terms depend on; see {@link ChargedLimits}. */
  termsPosition(key: Key): number {
    return this.charged.termsPosition(key);
  }

  key(id: string): Key | undefined {
    return this.#keys.get(id);
  }

  /** The keys of an account, including revoked and expired ones; the oldest first. */
  keysOf(account: string): Key[] {
    return (this.#keysOf.get(account) ?? []).map((id) => this.#keys.get(id) as Key);
  }

  /** In the order in which they were created. */
  get keys(): Iterable<Key> {
    return this.#keys.values();
  }

  /** The position of the last applied event. */
  get position(): number {
    return this.#position;
  }

  get size(): { accounts: number; keys: number } {
    return { accounts: this.#accounts.size, keys: this.#keys.size };
  }
}
