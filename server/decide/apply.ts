import type { ControlEvent, PlanTerms } from '#db/events/events.ts';
import type { ModelEvent, UpstreamEvent } from '#db/events/subjects.ts';
import { evolveModel, type Model } from '#db/fold/model.ts';
import type { Plan } from '#db/fold/plan.ts';
import type { Price } from '#db/fold/price.ts';
import { allCredentials, evolveUpstream, type Upstream } from '#db/fold/upstream.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import type { ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { defineModel, type Reachable, retireModel } from '#server/decide/model.ts';
import { checkPlanName, definePlan } from '#server/decide/plan.ts';
import { MANUAL, sameTerms, setPrice } from '#server/decide/price.ts';
import {
  addCredential,
  addUpstream,
  changeUpstream,
  removeCredential,
  removeUpstream,
} from '#server/decide/upstream.ts';

/** The desired state that a file declares. An absent section leaves its objects unchanged. */
export type DesiredState = {
  upstreams?: ReadonlyMap<string, DesiredUpstream>;
  models?: ReadonlyMap<string, ModelTerms>;
  plans?: ReadonlyMap<string, PlanTerms>;
  prices?: ReadonlyMap<string, PriceTerms>;
};
export type DesiredUpstream = {
  terms: UpstreamTerms;
  /** Whether the file has the field `paused`; if not, a manually paused upstream stays paused. */
  saysPaused: boolean;
  /** By label; null if the file does not declare credentials. */
  credentials: ReadonlyMap<string, { secret: string }> | null;
};
export type Section = keyof DesiredState;

/** The state before the file is applied. */
export type CurrentState = {
  upstreams: Iterable<Upstream>;
  models: Iterable<Model>;
  plan: (name: string) => Plan | undefined;
  price: (pattern: string) => Price | undefined;
  /** The names of upstreams configured by the environment. */
  configured: ReadonlySet<string>;
  /** Whether one of these upstreams, or one configured by the environment, lists this model. */
  isListed: (model: string, upstreams: readonly Upstream[]) => boolean;
  /** Whether a credential has this secret; null if it can't be decrypted. */
  isSecret: (credential: string, secret: string) => boolean | null;
  newId: () => string;
};

/** A value before and after the change; absent: not set. */
export type FieldChange = { field: string; before?: unknown; after?: unknown };
export type Difference = {
  section: Section;
  name: string;
  change: 'added' | 'changed' | 'removed';
  fields: FieldChange[];
};

export type ApplyPlan = {
  differences: Difference[];
  appends: { event: ControlEvent; version: number }[];
  seal: { id: string; upstream: string; secret: string }[];
  remove: string[];
};

/**
 * Plans the changes from the current state to the desired one, ordered so that each step is valid after the
 * steps before it. The plan is empty if the states are equal.
 * @param command.prune whether to remove upstreams and models that their sections don't name, and credentials
 *   that the upstreams' lists don't name. Plans and prices are never removed: retiring a plan is permanent,
 *   and a price can't be unset.
 * @param command.placeOf the place in the file that declares an object, as the prefix of a message.
 * @throws {DecisionError} when a step is rejected.
 */
export function planApply(
  current: CurrentState,
  wanted: DesiredState,
  command: { prune: boolean; actor: string; placeOf: (section: Section, name: string) => string },
): ApplyPlan {
  return new Planner(current, wanted, command).plan();
}

class Planner {
  readonly #before: CurrentState;
  readonly #wanted: DesiredState;
  readonly #command: Parameters<typeof planApply>[2];
  /** The state after the steps planned so far. */
  readonly #upstreams: Map<string, Upstream>;
  readonly #models: Map<string, Model>;
  readonly #plan: ApplyPlan = { differences: [], appends: [], seal: [], remove: [] };

  constructor(current: CurrentState, wanted: DesiredState, command: Parameters<typeof planApply>[2]) {
    this.#before = current;
    this.#wanted = wanted;
    this.#command = command;
    this.#upstreams = new Map([...current.upstreams].map((each) => [each.name, each]));
    this.#models = new Map([...current.models].map((each) => [each.name, each]));
  }

  plan(): ApplyPlan {
    const {
      upstreams = new Map<never, never>(),
      models = new Map<never, never>(),
      plans = new Map<never, never>(),
      prices = new Map<never, never>(),
    } = this.#wanted;
    for (const [name, wanted] of upstreams) this.#at('upstreams', name, () => this.#upstream(name, wanted));
    const isAlias = ({ terms }: { terms: ModelTerms }): boolean => 'alias_of' in terms;
    const unnamed =
      this.#command.prune && this.#wanted.models
        ? [...this.#models.values()].filter(({ name, state }) => state === 'active' && !models.has(name))
        : [];
    // Aliases are defined after the models that they name, and retired before them.
    for (const { name } of unnamed.filter(isAlias)) this.#at('models', name, () => this.#retire(name));
    const inOrder = [...models].toSorted(
      ([, one], [, other]) => Number(isAlias({ terms: one })) - Number(isAlias({ terms: other })),
    );
    for (const [name, terms] of inOrder) this.#at('models', name, () => this.#model(name, terms));
    for (const { name } of unnamed.filter((model) => !isAlias(model)))
      this.#at('models', name, () => this.#retire(name));
    if (this.#command.prune && this.#wanted.upstreams) {
      for (const upstream of this.#upstreams.values()) {
        if (upstream.state === 'active' && !upstreams.has(upstream.name))
          this.#at('upstreams', upstream.name, () => this.#remove(upstream));
      }
    }
    for (const [name, terms] of plans) this.#at('plans', name, () => this.#definePlan(name, terms));
    for (const [pattern, price] of prices) this.#at('prices', pattern, () => this.#setPrice(pattern, price));
    return this.#plan;
  }

  #upstream(name: string, { terms: said, saysPaused, credentials }: DesiredUpstream): void {
    const { actor } = this.#command;
    const before = this.#upstreams.get(name);
    const isThere = before?.state === 'active';
    const terms = isThere && !saysPaused ? { ...said, paused: before.terms.paused } : said;
    const event = isThere
      ? changeUpstream(before, terms, actor)
      : addUpstream(before, { name, terms, actor }, this.#before.configured);
    const fields = event ? changesOf(isThere ? before.terms : {}, terms) : [];
    if (event) this.#appendUpstream(event, name);
    if (credentials) fields.push(...this.#credentials(name, credentials));
    if (event || fields.length > 0)
      this.#plan.differences.push({
        section: 'upstreams',
        name,
        change: isThere ? 'changed' : 'added',
        fields,
      });
  }

  /** Adds credentials before it removes others, so that the upstream always has one. */
  #credentials(upstream: string, wanted: ReadonlyMap<string, { secret: string }>): FieldChange[] {
    const changes: FieldChange[] = [];
    const there = this.#current(upstream).credentials;
    const gone: string[] = [];
    for (const [label, { secret }] of wanted) {
      const same = there.filter((each) => each.label === label);
      if (same.some(({ id }) => this.#before.isSecret(id, secret) === true)) continue;
      const [before] = same;
      const id = this.#before.newId();
      const event = addCredential(this.#current(upstream), {
        id,
        label,
        secret,
        actor: this.#command.actor,
        ...(before ? { replaces: before.id } : {}),
      });
      this.#appendUpstream(event, upstream);
      this.#plan.seal.push({ id, upstream, secret });
      gone.push(...same.map((each) => each.id));
      changes.push({
        field: `credential "${label}"`,
        ...(before ? { before: ending(before.last4) } : {}),
        after: ending(event.last4),
      });
    }
    for (const { id, label, last4 } of this.#command.prune ? there : []) {
      if (wanted.has(label)) continue;
      gone.push(id);
      changes.push({ field: `credential "${label}"`, before: ending(last4) });
    }
    for (const id of gone) {
      this.#appendUpstream(removeCredential(this.#current(upstream), id, this.#command.actor), upstream);
      this.#plan.remove.push(id);
    }
    return changes;
  }

  #remove(upstream: Upstream): void {
    this.#appendUpstream(removeUpstream(upstream, this.#models.values(), this.#command.actor), upstream.name);
    this.#plan.remove.push(...allCredentials(upstream).map(({ id }) => id));
    this.#plan.differences.push({ section: 'upstreams', name: upstream.name, change: 'removed', fields: [] });
  }

  #model(name: string, terms: ModelTerms): void {
    const before = this.#models.get(name);
    const event = defineModel(before, { name, terms, actor: this.#command.actor }, this.#reachable);
    if (!event) return;
    this.#appendModel(event, name);
    const isThere = before?.state === 'active';
    this.#plan.differences.push({
      section: 'models',
      name,
      change: isThere ? 'changed' : 'added',
      fields: changesOf(isThere ? before.terms : {}, terms),
    });
  }

  #retire(name: string): void {
    const event = retireModel(this.#models.get(name) as Model, this.#reachable, this.#command.actor);
    if (!event) return;
    this.#appendModel(event, name);
    this.#plan.differences.push({ section: 'models', name, change: 'removed', fields: [] });
  }

  #definePlan(name: string, terms: PlanTerms): void {
    const before = this.#before.plan(name);
    const event = definePlan(before, {
      name: checkPlanName(name),
      terms,
      windows: 'keep',
      actor: this.#command.actor,
    });
    if (!event) return;
    this.#plan.appends.push({ event, version: (before?.version ?? 0) + 1 });
    this.#plan.differences.push({
      section: 'plans',
      name,
      change: before ? 'changed' : 'added',
      fields: changesOf(before?.terms ?? {}, terms),
    });
  }

  #setPrice(pattern: string, terms: PriceTerms): void {
    const before = this.#before.price(pattern);
    // An equal price is unchanged, whatever its source.
    if (before && sameTerms(before.terms, terms)) return;
    const fields = changesOf(fieldsOf(before?.terms), fieldsOf(terms));
    const { actor } = this.#command;
    const event = setPrice(before, { pattern, plan: null, terms, source: MANUAL, actor });
    if (!event) return;
    this.#plan.appends.push({ event, version: (before?.version ?? 0) + 1 });
    this.#plan.differences.push({
      section: 'prices',
      name: pattern,
      change: before ? 'changed' : 'added',
      fields,
    });
  }

  get #reachable(): Reachable {
    const active = [...this.#upstreams.values()].filter(({ state }) => state === 'active');
    return {
      upstreams: new Set([...active.map(({ name }) => name), ...this.#before.configured]),
      models: this.#models.values(),
      isListed: (model) => this.#before.isListed(model, active),
    };
  }

  #current(name: string): Upstream {
    return this.#upstreams.get(name) as Upstream;
  }

  #appendUpstream(event: UpstreamEvent, name: string): void {
    const before = this.#upstreams.get(name);
    const version = (before?.version ?? 0) + 1;
    this.#plan.appends.push({ event, version });
    this.#upstreams.set(name, evolveUpstream(before, { event, version, ...NOT_STORED }) as Upstream);
  }

  #appendModel(event: ModelEvent, name: string): void {
    const before = this.#models.get(name);
    const version = (before?.version ?? 0) + 1;
    this.#plan.appends.push({ event, version });
    this.#models.set(name, evolveModel(before, { event, version, ...NOT_STORED }) as Model);
  }

  /** Prefixes an error with the place in the file. */
  #at(section: Section, name: string, work: () => void): void {
    try {
      work();
    } catch (error) {
      if (error instanceof DecisionError)
        throw new DecisionError(error.code, `${this.#command.placeOf(section, name)}${error.message}`);
      throw error;
    }
  }
}

/** Placeholders for the fields that an event gets when it is appended. */
const NOT_STORED = { at: new Date(0), position: 0 };

/** The parts of a base rate, and the rules. */
const fieldsOf = (terms: PriceTerms | undefined): object =>
  terms ? { ...terms.base, ...(terms.rules ? { rules: terms.rules } : {}) } : {};

const ending = (last4: string): string => (last4 === '' ? '(set)' : `…${last4}`);

/** The fields whose values differ. */
function changesOf(before: object, after: object): FieldChange[] {
  const [old, now] = [before as Record<string, unknown>, after as Record<string, unknown>];
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .filter((field) => JSON.stringify(old[field]) !== JSON.stringify(now[field]))
    .map((field) => ({
      field,
      ...(field in old ? { before: old[field] } : {}),
      ...(field in now ? { after: now[field] } : {}),
    }));
}
