import { MODEL_LIST_MAX, MODEL_LIST_MS, MODEL_LIST_TIMEOUT_MS } from '#server/bounds.ts';
import { ModelName } from '#db/event-parts.ts';
import type { ModelTable } from '#server/relay/dispatch.ts';
import type { Upstream } from '#server/relay/upstream.ts';

const LIST_BYTES_MAX = 4 * 1024 * 1024;

/**
 * The models a caller can name: those configured by name, and, for patterns, what the upstreams
 * themselves list. Upstreams are asked at most once a minute, and a list that can't be had now
 * leaves the last one in place.
 */
export class ModelList {
  readonly #table: ModelTable;
  readonly #upstreams: readonly Upstream[];
  readonly #listed = new Map<Upstream, string[]>();
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;

  constructor(table: ModelTable, upstreams: readonly Upstream[]) {
    this.#table = table;
    this.#upstreams = upstreams.filter(({ models }) => models.some((model) => model.includes('*')));
  }

  /** The names with the upstream that serves each, sorted by name. */
  async read(): Promise<{ model: string; upstream: string }[]> {
    if (performance.now() - this.#askedAtMs > MODEL_LIST_MS) {
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = null;
      });
      await this.#asking;
    }
    const names = new Set([...this.#table.names, ...[...this.#listed.values()].flat()]);
    return [...names]
      .map((model) => ({ model, upstream: this.#table.find(model)?.name ?? '' }))
      .filter(({ upstream }) => upstream !== '')
      .toSorted((left, right) => (left.model < right.model ? -1 : 1));
  }

  async #ask(): Promise<void> {
    await Promise.all(
      this.#upstreams.map(async (upstream) => {
        try {
          const reply = (await upstream.getJson('/models', MODEL_LIST_TIMEOUT_MS, LIST_BYTES_MAX)) as { data?: unknown };
          if (!Array.isArray(reply.data)) return;
          const names = reply.data
            .map((entry: unknown) => (entry as { id?: unknown } | null)?.id)
            .filter((id): id is string => ModelName.safeParse(id).success);
          // What another upstream serves under the same name is that one's to list.
          this.#listed.set(upstream, names.filter((name) => this.#table.find(name) === upstream).slice(0, MODEL_LIST_MAX));
        } catch {
          // An upstream without a list, or out of reach: what is known stays.
        }
      }),
    );
    this.#askedAtMs = performance.now();
  }
}
