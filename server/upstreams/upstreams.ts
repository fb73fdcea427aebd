import type { CircuitChange } from '#server/upstreams/circuit-breaker.ts';
import type { UpstreamDirectory } from '#server/upstreams/directory.ts';
import { REMOVED_UPSTREAM_KEPT_MS } from '#server/upstreams/bounds.ts';
import { ModelTable } from '#server/upstreams/model-table.ts';
import {
  type ConnectTo,
  openUpstream,
  type Upstream,
  type UpstreamDefinition,
} from '#server/upstreams/upstream.ts';

/** A circuit breaker opened or closed: of the whole upstream, or of one of its credentials. */
type OnCircuit = (subject: { upstream: string; credential: string | null }, change: CircuitChange) => void;

type Open = { upstream: Upstream; signature: string };

/**
 * The upstreams of this process with their connections, and the models that they serve. Either may change
 * while calls run: an unchanged upstream keeps its connections and its circuits, and a removed one drains.
 */
export class Upstreams {
  readonly #directory: Pick<UpstreamDirectory, 'models'>;
  readonly #connect: ConnectTo;
  readonly #onCircuit: OnCircuit;
  #open = new Map<string, Open>();
  /**
   * Changed or removed upstreams that calls admitted before may still use, with the timer that closes them.
   */
  readonly #draining = new Map<Upstream, NodeJS.Timeout>();
  #table: ModelTable;

  /** @param onCircuit reports that a circuit breaker opened or closed. */
  constructor(
    directory: Pick<UpstreamDirectory, 'models'>,
    connect: ConnectTo,
    onCircuit: OnCircuit = () => {},
  ) {
    this.#onCircuit = onCircuit;
    this.#directory = directory;
    this.#connect = connect;
    this.#table = new ModelTable([], []);
  }

  /** Replaces all upstreams by these, in this order, and reads the models again. Names must be unique. */
  set(definitions: readonly UpstreamDefinition[]): void {
    const before = this.#open;
    this.#open = new Map();
    for (const definition of definitions) {
      const signature = JSON.stringify(definition);
      const open = before.get(definition.name);
      if (open?.signature === signature) before.delete(definition.name);
      this.#open.set(
        definition.name,
        open?.signature === signature ? open : { upstream: this.#openOne(definition), signature },
      );
    }
    for (const { upstream } of before.values()) this.#drain(upstream);
    this.#table = new ModelTable(this.#directory.models, this.all);
  }

  #openOne(definition: UpstreamDefinition): Upstream {
    const upstream = openUpstream(definition, this.#connect);
    const { name } = upstream;
    upstream.circuit.onChange = (change) => this.#onCircuit({ upstream: name, credential: null }, change);
    for (const { circuit, credential } of upstream.pools)
      circuit.onChange = (change) =>
        this.#onCircuit({ upstream: name, credential: credential ?? 'environment' }, change);
    return upstream;
  }

  get table(): ModelTable {
    return this.#table;
  }

  get all(): Upstream[] {
    return [...this.#open.values()].map(({ upstream }) => upstream);
  }

  get(name: string): Upstream | undefined {
    return this.#open.get(name)?.upstream;
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    const all = [...this.all, ...this.#draining.keys()];
    for (const timer of this.#draining.values()) clearTimeout(timer);
    await Promise.all(all.flatMap(({ pools }) => pools.map((pool) => pool.destroy())));
  }

  #drain(upstream: Upstream): void {
    const timer = setTimeout(() => void this.#closeDrained(upstream), REMOVED_UPSTREAM_KEPT_MS);
    this.#draining.set(upstream, timer.unref());
  }

  async #closeDrained(upstream: Upstream): Promise<void> {
    // A pool that is destroyed meanwhile, as at the end of the process, is closed as well.
    await Promise.allSettled(upstream.pools.map((pool) => pool.close()));
    this.#draining.delete(upstream);
  }
}
