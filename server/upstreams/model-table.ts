import type { Model } from '#db/fold/model.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { matches } from '#db/limits/permissions.ts';
import { type Protocol, protocolOf } from '#server/protocols/protocol.ts';
import { Target } from '#server/upstreams/target.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

/**
 * The targets of a model's calls, or why it has no target: no upstream serves it, no upstream supports the
 * route, or all upstreams that do are paused or lack their credential.
 */
export type Found = readonly Target[] | 'unknown' | 'route' | 'paused';

/**
 * Routes models to upstreams. A defined model goes to the targets of its definition; any other name to the
 * upstream that lists it: an exact name before any pattern, then the order of the upstreams. Rebuilt at every
 * change.
 */
export class ModelTable {
  readonly #aliases = new Map<string, string>();
  readonly #defined = new Map<string, readonly Target[]>();
  readonly #exact = new Map<string, readonly Target[]>();
  readonly #patterns: { pattern: string; parts: string[]; targets: readonly Target[] }[] = [];

  /** @param upstreams in their order. */
  constructor(models: Iterable<Model>, upstreams: readonly Upstream[]) {
    const byName = new Map(upstreams.map((upstream) => [upstream.name, upstream]));
    for (const { name, terms, state } of models) {
      if (state === 'retired') continue;
      if ('alias_of' in terms) this.#aliases.set(name, terms.alias_of);
      else {
        // A target whose upstream was removed is skipped.
        const known = terms.targets.flatMap(({ upstream, ...target }) => {
          const open = byName.get(upstream);
          return open ? [new Target(open, target.model ?? name, target.weight, target.order)] : [];
        });
        this.#defined.set(name, known);
      }
    }
    for (const upstream of upstreams) {
      const targets = [new Target(upstream, null)];
      for (const model of upstream.terms.models) {
        if (model.includes('*')) this.#patterns.push({ pattern: model, parts: model.split('*'), targets });
        else if (!this.#exact.has(model)) this.#exact.set(model, targets);
      }
    }
  }

  /** The model that a name is an alias of, or the name itself. */
  resolve(name: string): string {
    return this.#aliases.get(name) ?? name;
  }

  /**
   * The targets of a model by a route. The name must have been resolved. Where no upstream supports the
   * route, those with any protocol that its calls can be translated into are the targets.
   * @param protocol the client's, where it isn't that of the route: upstreams with it are preferred.
   */
  find(model: string, route: RelayedRoute, protocol: Protocol | null = null): Found {
    const targets = this.#targetsOf(model);
    if (!targets || targets.length === 0) return 'unknown';
    const native =
      protocol === null ? [] : targets.filter(({ upstream }) => upstream.protocols.has(protocol));
    if (native.length > 0) return runningOf(native);
    // Most models have one target, and this runs for every call.
    if (targets.every(({ upstream }) => isRunning(upstream) && upstream.routes.has(route))) return targets;
    const supporting = targets.filter(({ upstream }) => upstream.routes.has(route));
    if (supporting.length > 0) return runningOf(supporting);
    const translating =
      protocolOf(route) === null ? [] : targets.filter(({ upstream }) => upstream.protocols.size > 0);
    return translating.length === 0 ? 'route' : runningOf(translating);
  }

  /** The first upstream of a model, whatever the route. */
  servedBy(model: string): Upstream | undefined {
    return this.#targetsOf(this.resolve(model))?.[0]?.upstream;
  }

  /** The models that are configured by name, and their aliases. */
  get names(): string[] {
    return [...new Set([...this.#aliases.keys(), ...this.#defined.keys(), ...this.#exact.keys()])];
  }

  /** The name or pattern that a model is configured by; null: it is not configured. */
  configuredName(model: string): string | null {
    if (this.#defined.has(model) || this.#exact.has(model)) return model;
    return this.#patterns.find(({ parts }) => matches(parts, model))?.pattern ?? null;
  }

  #targetsOf(model: string): readonly Target[] | undefined {
    return (
      this.#defined.get(model) ??
      this.#exact.get(model) ??
      this.#patterns.find(({ parts }) => matches(parts, model))?.targets
    );
  }
}

function runningOf(targets: readonly Target[]): Found {
  const running = targets.filter(({ upstream }) => isRunning(upstream));
  return running.length === 0 ? 'paused' : running;
}

const isRunning = ({ terms, pools }: Upstream): boolean => !terms.paused && pools.length > 0;
