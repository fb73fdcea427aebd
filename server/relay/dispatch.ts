import { matches } from '#db/permissions.ts';
import type { Upstream } from '#server/relay/upstream.ts';

/** Chooses the upstream for a model. An exact name goes before any pattern, then order decides. */
export class ModelTable {
  readonly #exact = new Map<string, Upstream>();
  readonly #patterns: { parts: string[]; upstream: Upstream }[] = [];

  constructor(upstreams: readonly Upstream[]) {
    for (const upstream of upstreams) {
      for (const model of upstream.models) {
        if (model.includes('*')) this.#patterns.push({ parts: model.split('*'), upstream });
        else if (!this.#exact.has(model)) this.#exact.set(model, upstream);
      }
    }
  }

  /** The upstream that serves this model, or undefined when none does. */
  find(model: string): Upstream | undefined {
    return this.#exact.get(model) ?? this.#patterns.find(({ parts }) => matches(parts, model))?.upstream;
  }

  /** The models that are configured by name. */
  get names(): string[] {
    return [...this.#exact.keys()];
  }
}
