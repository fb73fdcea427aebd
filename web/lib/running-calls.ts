import type { FrameOf } from '#server/contract/frames.ts';
import type { RequestRow } from '#server/contract/requests.ts';
import type { Ending } from './tally.ts';

/** A call that runs. */
export type RunningCall = {
  request: string;
  account: string;
  key: string;
  model: string;
  atMs: number;
  /** Relayed so far, by our count; null: nothing was told yet. */ outputTokens: number | null;
};

/** More than a page could show; the oldest are let go of first. */
const RUNNING_KEPT_MAX = 2_000;

/** Which calls run now, by what the feed tells. Pure. */
export class RunningCalls {
  readonly #calls = new Map<string, RunningCall>();

  get count(): number {
    return this.#calls.size;
  }

  /** Those that began last, the newest first. */
  newest(count: number): RunningCall[] {
    return [...this.#calls.values()].toSorted((one, other) => other.atMs - one.atMs).slice(0, count);
  }

  started({ request, account, key, model, at }: FrameOf<'started'>): void {
    this.#keep({ request, account, key, model, atMs: Date.parse(at), outputTokens: null });
  }

  /** One that comes before the start or after the end of its call means nothing. */
  progress({ request, output_tokens }: FrameOf<'progress'>): void {
    const call = this.#calls.get(request);
    if (call) this.#calls.set(request, { ...call, outputTokens: output_tokens });
  }

  ended(request: string): void {
    this.#calls.delete(request);
  }

  clear(): void {
    this.#calls.clear();
  }

  /** Takes up calls that a list tells of as running. @param endings what has ended since that list. */
  join(rows: readonly RequestRow[], endings: readonly Ending[]): void {
    const over = new Set(endings.map(({ request }) => request));
    for (const { request, account, key, model, accepted_at } of rows.toReversed()) {
      if (this.#calls.has(request) || over.has(request)) continue;
      this.#keep({
        request,
        account,
        key,
        model: model ?? '',
        atMs: Date.parse(accepted_at),
        outputTokens: null,
      });
    }
  }

  #keep(call: RunningCall): void {
    this.#calls.set(call.request, call);
    if (this.#calls.size <= RUNNING_KEPT_MAX) return;
    const [oldest] = this.#calls.keys();
    if (oldest !== undefined) this.#calls.delete(oldest);
  }
}
