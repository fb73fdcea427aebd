import type { ControlEvent, Placed, PlanTerms } from '#db/events/events.ts';
import type { Account } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import type { CallPrice } from '#db/pricing/charge.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { setPrice } from '#server/decide/price.ts';
import type { ErrorCode } from '#server/errors/api-error.ts';
import { pairOf } from '#server/limits/call-history.ts';
import { hasHardLimit } from '#server/limits/call-need.ts';
import { type Access, accessOfAccount } from '#server/read-model/access.ts';
import { callPriceOf, pricingOf } from '#server/read-model/call-price.ts';
import { ChargedLimits } from '#server/read-model/charged-limits.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import { ReadModel } from '#server/read-model/read-model.ts';

/** What a back-test changes; everything absent stays as recorded. */
export type Changes = {
  /** Terms in place of those of the plans in its scope. */
  plan: { terms: PlanTerms; scope: PlanScope } | null;
  /** Prices in place of those of the same patterns: the providers' or, with `plan`, those of its accounts. */
  prices: readonly { pattern: string; plan?: string | undefined; terms: PriceTerms; source: string }[];
  /** Models by the models that they replace. */
  models: ReadonlyMap<string, string>;
};

/** The accounts that other terms are for: those on a plan, those named by their ids, or all. */
export type PlanScope = { plan: string } | { accounts: ReadonlySet<string> } | 'all';

/** What the terms say of the calls of a key to a model; the same object until they may have changed. */
export type CallTerms = {
  readonly account: string;
  /** The model that is called, and whether it is another than the recorded one. */
  readonly model: string;
  readonly isOther: boolean;
  /** The name of the key and the model that is called. */
  readonly pair: string;
  /** Null: none is set. */
  readonly price: CallPrice | null;
  /** Whether they would be charged by other prices than the recorded ones. */
  readonly isRepriced: boolean;
  /** Whether they need a price under an enforced limit of cost, and have none. */
  readonly lacksPrice: boolean;
  /** Whether any recorded limit is hard: the recorded estimate of the prompt may be an upper bound. */
  readonly hadHardLimit: boolean;
  /** Errors of the routes that were called, by the terms; null: they permit it. */
  readonly errors: Map<RelayedRoute, ErrorCode | null>;
};

/** Pairs of key and model whose terms are kept. */
const CALL_TERMS_MAX = 100_000;

/**
 * The accounts, keys, limits and prices at a position of the log, as recorded and with the changes of a
 * back-test. Terms are compiled by the code that servers use. Pure.
 */
export class Candidate {
  /** As recorded. */
  readonly recorded = new ReadModel();
  /** The limits of calls under the changed terms. */
  readonly charged = new ChargedLimits(this);
  readonly prices: PriceTable;
  readonly #changes: Changes;
  readonly #patterns: ReadonlySet<string>;
  readonly #access = new Map<string, Access>();
  /** By key and recorded model. */
  readonly #callTerms = new Map<string, Map<string, CallTerms>>();
  #callTermsCount = 0;

  constructor(changes: Changes) {
    this.#changes = changes;
    this.#patterns = new Set(changes.prices.map(({ plan, pattern }) => priceName(plan, pattern)));
    this.prices = changes.prices.length === 0 ? this.recorded.prices : new PriceTable();
    for (const price of changes.prices) {
      const event = setPrice(undefined, { ...price, plan: price.plan ?? null, actor: 'back-test' });
      if (event) this.prices.apply({ event, version: 0, position: 0, at: new Date(0) });
    }
    this.recorded.onChange((accounts) => {
      for (const account of accounts) this.#access.delete(account);
    });
  }

  /** Applies the next control event of the log. */
  apply(placed: Placed<ControlEvent>): void {
    this.recorded.apply([placed]);
    const { event, at, position, version } = placed;
    if (event.type !== 'quota.adjusted') this.#forgetCallTerms();
    if (event.type !== 'model.priced' || this.prices === this.recorded.prices) return;
    if (!this.#patterns.has(priceName(event.plan, event.model)))
      this.prices.apply({ event, at, position, version });
  }

  /** Whether calls may have other limits than the recorded ones. */
  get hasOtherTerms(): boolean {
    return this.#changes.plan !== null;
  }

  /** What the terms say of the calls of a key to a model. */
  callTerms(account: string, key: string, model: string): CallTerms {
    let ofKey = this.#callTerms.get(key);
    const known = ofKey?.get(model);
    if (known?.account === account) return known;
    const terms = this.#callTermsOf(account, key, model);
    if (this.#callTermsCount >= CALL_TERMS_MAX) {
      this.#forgetCallTerms();
      ofKey = undefined;
    }
    if (ofKey === undefined) this.#callTerms.set(key, (ofKey = new Map()));
    ofKey.set(model, terms);
    this.#callTermsCount++;
    return terms;
  }

  #forgetCallTerms(): void {
    this.#callTerms.clear();
    this.#callTermsCount = 0;
  }

  #callTermsOf(account: string, key: string, recordedModel: string): CallTerms {
    const model = this.#changes.models.get(recordedModel) ?? recordedModel;
    const pricing = this.pricingOf(account);
    const price = callPriceOf(this, pricing, model);
    return {
      account,
      model,
      isOther: model !== recordedModel,
      pair: pairOf(key, model),
      price,
      isRepriced: this.#changesPrice(account, recordedModel, model),
      lacksPrice: price === null && !pricing.allowsUnpriced,
      hadHardLimit: this.#hadHardLimit(account, key),
      errors: new Map(),
    };
  }

  pricingOf(account: string): Access['pricing'] {
    const found = this.recorded.account(account);
    return (found && this.accountAccess(found)?.pricing) ?? pricingOf(this.recorded, account);
  }

  #changesPrice(account: string, recordedModel: string, model: string): boolean {
    if (model !== recordedModel) return true;
    if (this.#patterns.size > 0) {
      const { plan: of } = this.pricingOf(account);
      const ofPlan = of === null ? undefined : this.prices.findOfPlan(of, model);
      const found = [this.prices.find(model), ofPlan];
      if (found.some((price) => price && this.#patterns.has(priceName(price.plan, price.pattern))))
        return true;
    }
    if (this.#changes.plan === null) return false;
    const recorded = pricingOf(this.recorded, account);
    const { plan, markup } = this.pricingOf(account);
    return plan !== recorded.plan || markup !== recorded.markup;
  }

  /** Whether any recorded limit is hard, of whatever end user, session or tag. */
  #hadHardLimit(account: string, keyId: string): boolean {
    const key = this.recorded.key(keyId);
    const accesses = [account, ...this.recorded.charged.parentsOf(account)].map((id) => {
      const found = this.recorded.account(id);
      return found === undefined ? null : this.recorded.accountAccess(found);
    });
    return [...accesses, key === undefined ? null : this.recorded.keyAccess(key)].some(
      (access) => access !== null && [...access.limitList, ...access.limitsPer].some(hasHardLimit),
    );
  }

  // What limits are compiled from.

  account(id: string): Account | undefined {
    return this.recorded.account(id);
  }

  plan(name: string): Plan | undefined {
    return this.recorded.plan(name);
  }

  keyAccess(key: Key): Access | null {
    return this.recorded.keyAccess(key);
  }

  get unapplied(): ReadModel['unapplied'] {
    return this.recorded.unapplied;
  }

  accountAccess(account: Account): Access | null {
    const { plan } = this.#changes;
    if (plan === null || !isInScope(account, plan.scope)) return this.recorded.accountAccess(account);
    let access = this.#access.get(account.id);
    if (access === undefined) {
      access = accessOfAccount(account, {
        name: account.plan ?? '',
        state: 'active',
        terms: plan.terms,
        version: 0,
        position: 0,
      });
      this.#access.set(account.id, access);
    }
    return access;
  }
}

const priceName = (plan: string | null | undefined, pattern: string): string => `${plan ?? ''} ${pattern}`;

function isInScope({ id, plan }: Account, scope: PlanScope): boolean {
  if (scope === 'all') return true;
  return 'plan' in scope ? plan === scope.plan : scope.accounts.has(id);
}
