import { isUpstreamEvent, type ModelEvent, type UpstreamEvent } from '#db/events/subjects.ts';
import { evolveModel, type Model } from '#db/fold/model.ts';
import type { Stored } from '#db/fold/stored.ts';
import { evolveUpstream, type Upstream } from '#db/fold/upstream.ts';

/** Upstreams and defined models, folded from the log. Removed and retired ones stay in it. */
export class UpstreamDirectory {
  readonly #upstreams = new Map<string, Upstream>();
  readonly #models = new Map<string, Model>();
  /** Upstreams whose newest terms are unknown, which get no calls. */
  readonly #paused = new Set<string>();
  readonly #listeners: (() => void)[] = [];

  /** Applies the next event of an upstream or a model. */
  apply({ event, at, position, version }: Stored<UpstreamEvent | ModelEvent>): void {
    if (isUpstreamEvent(event)) {
      const upstream = evolveUpstream(this.#upstreams.get(event.upstream), { event, at, position, version });
      if (upstream) this.#upstreams.set(upstream.name, upstream);
    } else {
      const model = evolveModel(this.#models.get(event.model), { event, at, position, version });
      if (model) this.#models.set(model.name, model);
    }
    for (const listener of this.#listeners) listener();
  }

  /** Pauses an upstream with an event that this version can't apply. */
  pause(name: string): void {
    this.#paused.add(name);
    for (const listener of this.#listeners) listener();
  }

  /** Calls `listener` at each change. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  upstream(name: string): Upstream | undefined {
    return this.#upstreams.get(name);
  }

  model(name: string): Model | undefined {
    return this.#models.get(name);
  }

  /** In the order in which they were first added. */
  get upstreams(): Iterable<Upstream> {
    return this.#upstreams
      .values()
      .map((upstream) =>
        this.#paused.has(upstream.name)
          ? { ...upstream, terms: { ...upstream.terms, paused: true } }
          : upstream,
      );
  }

  get models(): Iterable<Model> {
    return this.#models.values();
  }
}
