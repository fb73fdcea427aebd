import type { QuotaWindows } from '#db/audit/replay/quota-windows.ts';
import {
  isAccountEvent,
  isKeyEvent,
  isMemberEvent,
  isModelEvent,
  isPlanEvent,
  isUpstreamEvent,
} from '#db/events/subjects.ts';
import type { ControlEvent, Placed } from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import { type Account, chargedTerms, applyPlanEvent, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { evolveMember, type Member } from '#db/fold/member.ts';
import { evolveModel, type Model } from '#db/fold/model.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { evolvePrice, type Price } from '#db/fold/price.ts';
import { evolveRegistration, REGISTRATION_FIRST } from '#db/fold/registration.ts';
import { evolveUpstream, type Upstream } from '#db/fold/upstream.ts';
import { termsLimits } from '#db/limits/limits.ts';
import { holderName } from '#db/limits/subjects.ts';
import { minuteOf } from '#db/limits/windows.ts';

/**
 * Accounts, keys, plans, prices, upstreams, models and members, computed by the same folds that enforcement
 * uses, and the quotas that follow from them. Pure.
 */
export class Subjects {
  readonly accounts = new Map<string, Account>();
  readonly keys = new Map<string, Key>();
  readonly plans = new Map<string, Plan>();
  readonly prices = new Map<string, Price>();
  readonly upstreams = new Map<string, Upstream>();
  readonly models = new Map<string, Model>();
  readonly members = new Map<string, Member>();
  registration = REGISTRATION_FIRST;
  /** The accounts on each plan, which a change of the plan applies to. */
  readonly #onPlan = new Map<string, Set<string>>();
  /** The version of each stream. A session's stream is removed when the session closes. */
  readonly #versions = new Map<string, number>();
  readonly #windows: QuotaWindows;
  readonly #isFullLog: boolean;

  /** @param isFullLog whether every stream is read from its first event on. */
  constructor(windows: QuotaWindows, isFullLog: boolean) {
    this.#windows = windows;
    this.#isFullLog = isFullLog;
  }

  /** Applies a control event. @param onFault called when its version is out of order in its stream. */
  apply(placed: Placed<ControlEvent>, onFault: (problem: string) => void): void {
    const { event, at, position, version } = placed;
    this.#followStream(placed, onFault);
    if (isAccountEvent(event)) {
      const before = this.accounts.get(event.account);
      const account = evolveAccount(before, { event, at, position, version });
      if (account === undefined) return;
      if (before?.plan !== account.plan) this.#move(account, before?.plan ?? null);
      this.#setAccount(account, position, at);
    } else if (isKeyEvent(event)) {
      const key = evolveKey(this.keys.get(event.key), { event, at, position, version });
      if (key === undefined) return;
      this.keys.set(key.id, key);
      this.#windows.setLimits(
        holderName('key', key.id),
        termsLimits(key.terms ?? {}, key.resetPosition),
        position,
        minuteOf(at.getTime()),
      );
    } else if (isPlanEvent(event)) {
      const plan = evolvePlan(this.plans.get(event.plan), { event, at, position, version });
      if (plan === undefined) return;
      this.plans.set(plan.name, plan);
      for (const id of this.#onPlan.get(plan.name) ?? []) {
        const account = this.accounts.get(id);
        if (account)
          this.#setAccount(applyPlanEvent(account, { event, at, position, version }), position, at);
      }
    } else if (event.type === 'model.priced') {
      this.prices.set(streamOf(event), evolvePrice({ event, at, position, version }));
    } else if (isUpstreamEvent(event)) {
      const upstream = evolveUpstream(this.upstreams.get(event.upstream), { event, at, position, version });
      if (upstream) this.upstreams.set(upstream.name, upstream);
    } else if (isModelEvent(event)) {
      const model = evolveModel(this.models.get(event.model), { event, at, position, version });
      if (model) this.models.set(model.name, model);
    } else if (event.type === 'quota.adjusted') {
      // A part of the log lacks the charges, and perhaps the quota, from before it.
      this.#windows.adjust(event, minuteOf(at.getTime()), this.#isFullLog ? onFault : ignore);
    } else if (event.type === 'registration.changed') {
      this.registration = evolveRegistration({ event, at, position, version });
    } else if (isMemberEvent(event)) {
      const member = evolveMember(this.members.get(event.member), { event, at, position, version });
      if (member) this.members.set(member.id, member);
    }
  }

  #followStream({ stream, version, event }: Placed<ControlEvent>, onFault: (problem: string) => void): void {
    const before = this.#versions.get(stream);
    if (version !== (before ?? 0) + 1 && (before !== undefined || this.#isFullLog)) {
      onFault(`stream ${stream} continues with version ${version} after ${before ?? 0}`);
    }
    if (event.type === 'session.closed') this.#versions.delete(stream);
    else this.#versions.set(stream, version);
  }

  #move({ id, plan }: Account, from: string | null): void {
    if (from !== null) this.#onPlan.get(from)?.delete(id);
    if (plan === null) return;
    const on = this.#onPlan.get(plan);
    if (on) on.add(id);
    else this.#onPlan.set(plan, new Set([id]));
  }

  #setAccount(account: Account, position: number, at: Date): void {
    this.accounts.set(account.id, account);
    const plan = account.plan === null ? undefined : this.plans.get(account.plan);
    this.#windows.setLimits(
      holderName('account', account.id),
      termsLimits(chargedTerms(account, plan), account.resetPosition),
      position,
      minuteOf(at.getTime()),
    );
  }
}

const ignore = (): void => undefined;
