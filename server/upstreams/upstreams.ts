import type { UpstreamDirectory } from '#server/upstreams/directory.ts';
import { LEFT_AFTER_MS } from '#server/upstreams/bounds.ts';
import { ModelTable } from '#server/upstreams/model-table.ts';
import {
  type ConnectTo,
  openUpstream,
  type Upstream,
  type UpstreamDefinition,
} from '#server/upstreams/upstream.ts';

type Open = { upstream: Upstream; signature: string };

/**
 * The upstreams of this process with their connections, and the models that go to them. Either may
 * change while calls run: what stays as it was keeps its connections and its health, and what goes
 * lets its calls end.
 */
export class Upstreams {
  readonly #directory: Pick<UpstreamDirectory, 'models'>;
  readonly #connect: ConnectTo;
  #open = new Map<string, Open>();
  /** Those that calls may still go to which were admitted before, with what ends that. */
  readonly #leaving = new Map<Upstream, NodeJS.Timeout>();
  #table: ModelTable;

  constructor(directory: Pick<UpstreamDirectory, 'models'>, connect: ConnectTo) {
    this.#directory = directory;
    this.#connect = connect;
    this.#table = new ModelTable([], []);
  }

  /**
   * Has just these from here on, in this order, and the models as they are directed now. The names differ.
   */
  set(definitions: readonly UpstreamDefinition[]): void {
    const before = this.#open;
    this.#open = new Map();
    for (const definition of definitions) {
      const signature = JSON.stringify(definition);
      const open = before.get(definition.name);
      if (open?.signature === signature) before.delete(definition.name);
      this.#open.set(
        definition.name,
        open?.signature === signature
          ? open
          : { upstream: openUpstream(definition, this.#connect), signature },
      );
    }
    for (const { upstream } of before.values()) this.#leave(upstream);
    this.#table = new ModelTable(this.#directory.models, this.all);
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

  /** Ends all connections. */
  async close(): Promise<void> {
    const all = [...this.all, ...this.#leaving.keys()];
    for (const timer of this.#leaving.values()) clearTimeout(timer);
    await Promise.all(all.flatMap(({ lines }) => lines.map((line) => line.destroy())));
  }

  #leave(upstream: Upstream): void {
    const timer = setTimeout(() => void this.#left(upstream), LEFT_AFTER_MS);
    this.#leaving.set(upstream, timer.unref());
  }

  async #left(upstream: Upstream): Promise<void> {
    // One that is destroyed meanwhile, as at the process' end, has left as well.
    await Promise.allSettled(upstream.lines.map((line) => line.close()));
    this.#leaving.delete(upstream);
  }
}
