import type { FrameOf } from '#server/contract/frames.ts';
import type { RequestRow } from '#server/contract/requests.ts';
import type { Ending } from './tally.ts';

/** A running request. */
export type RunningRequest = {
  request: string;
  account: string;
  key: string;
  model: string;
  atMs: number;
  /** Counted by the relay so far; null if unknown. */ outputTokens: number | null;
};

/** The maximum number kept; the oldest are dropped first. */
const RUNNING_KEPT_MAX = 2_000;

/** Tracks running requests from the live feed. */
export class RunningRequests {
  readonly #calls = new Map<string, RunningRequest>();

  get count(): number {
    return this.#calls.size;
  }

  /** The most recent requests, newest first. */
  newest(count: number): RunningRequest[] {
    return [...this.#calls.values()].toSorted((one, other) => other.atMs - one.atMs).slice(0, count);
  }

  started({ request, account, key, model, at }: FrameOf<'started'>): void {
    this.#keep({ request, account, key, model, atMs: Date.parse(at), outputTokens: null });
  }

  /** Ignored for requests that have not started or have ended. */
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

  /** Adds running requests of a list. @param endings requests that ended since the list was read. */
  join(rows: readonly RequestRow[], endings: readonly Ending[]): void {
    const ended = new Set(endings.map(({ request }) => request));
    for (const { request, account, key, model, accepted_at } of rows.toReversed()) {
      if (this.#calls.has(request) || ended.has(request)) continue;
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

  #keep(call: RunningRequest): void {
    this.#calls.set(call.request, call);
    if (this.#calls.size <= RUNNING_KEPT_MAX) return;
    const [oldest] = this.#calls.keys();
    if (oldest !== undefined) this.#calls.delete(oldest);
  }
}
