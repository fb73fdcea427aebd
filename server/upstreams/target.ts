import type { Upstream } from '#server/upstreams/upstream.ts';

const LATENCY_SHARE = 0.2;

/** An upstream's model that serves a public model. */
export class Target {
  readonly upstream: Upstream;
  /** The upstream's name for the model; null: the client's name for it. */
  readonly model: string | null;
  /** Its share among the targets of its order. */
  readonly weight: number;
  /** Targets of a higher order are used when those of a lower one have failed. */
  readonly order: number;
  #latencyMs: number | null = null;

  constructor(upstream: Upstream, model: string | null, weight = 1, order = 0) {
    this.upstream = upstream;
    this.model = model;
    this.weight = weight;
    this.order = order;
  }

  /** The moving average of its time to first byte; null before its first reply. */
  get latencyMs(): number | null {
    return this.#latencyMs;
  }

  answered(afterMs: number): void {
    this.#latencyMs =
      this.#latencyMs === null ? afterMs : this.#latencyMs + LATENCY_SHARE * (afterMs - this.#latencyMs);
  }
}
