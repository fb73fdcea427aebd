import type { Upstream } from '#server/upstreams/upstream.ts';

const LATENCY_SHARE = 0.2;

/** An upstream's model that calls of a public model may go to. */
export class Target {
  readonly upstream: Upstream;
  /** What the upstream calls it; null: as the client does. */
  readonly model: string | null;
  /** Its share among the targets of its order. */
  readonly weight: number;
  /** Targets of a higher order are tried when those before have failed. */
  readonly order: number;
  #latencyMs: number | null = null;

  constructor(upstream: Upstream, model: string | null, weight = 1, order = 0) {
    this.upstream = upstream;
    this.model = model;
    this.weight = weight;
    this.order = order;
  }

  /** How long the heads of its replies took of late; null while nothing is known. */
  get latencyMs(): number | null {
    return this.#latencyMs;
  }

  answered(afterMs: number): void {
    this.#latencyMs =
      this.#latencyMs === null ? afterMs : this.#latencyMs + LATENCY_SHARE * (afterMs - this.#latencyMs);
  }
}
