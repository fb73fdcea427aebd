import { isModelEvent, isUpstreamEvent } from '#db/events/subjects.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { evolveModel, type Model } from '#db/fold/model.ts';
import { evolveUpstream, type Upstream } from '#db/fold/upstream.ts';

/** Upstreams and the models that go to them, folded from the log. What was removed or retired stays known. */
export class UpstreamDirectory {
  readonly #upstreams = new Map<string, Upstream>();
  readonly #models = new Map<string, Model>();
  readonly #listeners: (() => void)[] = [];

  /** Takes in the next control event of the log; those of other subjects change nothing. */
  apply(event: ControlEvent, at: Date, position: number): void {
    if (isUpstreamEvent(event)) {
      const upstream = evolveUpstream(this.#upstreams.get(event.upstream), event, at, position);
      if (upstream) this.#upstreams.set(upstream.name, upstream);
    } else if (isModelEvent(event)) {
      const model = evolveModel(this.#models.get(event.model), event, position);
      if (model) this.#models.set(model.name, model);
    } else return;
    for (const listener of this.#listeners) listener();
  }

  /** Has `listener` told of each change. */
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
    return this.#upstreams.values();
  }

  get models(): Iterable<Model> {
    return this.#models.values();
  }
}
