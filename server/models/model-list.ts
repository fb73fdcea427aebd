import { MODEL_LIST_MAX, MODEL_LIST_MS, MODEL_LIST_TIMEOUT_MS } from '#server/relay/bounds.ts';
import { fetchModelList } from '#server/upstreams/list-models.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import type { Upstreams } from '#server/upstreams/upstreams.ts';

/**
 * The models a caller can name: those configured by name, and, for patterns, what the upstreams
 * themselves list. Upstreams are asked at most once a minute, and a list that can't be had now
 * leaves the last one in place.
 */
export class ModelList {
  readonly #upstreams: Upstreams;
  #listed = new Map<Upstream, readonly string[]>();
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;

  constructor(upstreams: Upstreams) {
    this.#upstreams = upstreams;
  }

  /** The names with the upstream that serves each first, sorted by name. */
  async read(): Promise<{ model: string; upstream: string }[]> {
    if (performance.now() - this.#askedAtMs > MODEL_LIST_MS) {
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = null;
      });
      await this.#asking;
    }
    const { table } = this.#upstreams;
    // What another upstream serves under the same name is that one's to list.
    const listed = [...this.#listed].flatMap(([upstream, names]) =>
      names.filter((name) => table.servedBy(name) === upstream).slice(0, MODEL_LIST_MAX),
    );
    return [...new Set([...table.names, ...listed])]
      .map((model) => ({ model, upstream: table.servedBy(model)?.name ?? '' }))
      .filter(({ upstream }) => upstream !== '')
      .toSorted((left, right) => (left.model < right.model ? -1 : 1));
  }

  async #ask(): Promise<void> {
    const before = this.#listed;
    const asked = this.#upstreams.all.filter(
      ({ terms }) => !terms.paused && terms.models.some((model) => model.includes('*')),
    );
    const lists = await Promise.all(
      asked.map(async (upstream) => {
        const [line] = upstream.pools;
        const list = line && (await fetchModelList(line, MODEL_LIST_TIMEOUT_MS).catch(() => undefined));
        return list ?? before.get(upstream) ?? [];
      }),
    );
    this.#listed = new Map(asked.map((upstream, index) => [upstream, lists[index] as readonly string[]]));
    this.#askedAtMs = performance.now();
  }
}
