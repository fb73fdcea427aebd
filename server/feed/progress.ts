import { PROGRESS_CALLS_MAX, PROGRESS_EVERY_MS } from '#server/feed/bounds.ts';
import type { FrameOf } from '#server/contract/frames.ts';
import { packed } from '#server/feed/notify-payloads.ts';
import type { Watch } from '#server/feed/watch.ts';
import type { Registry } from '#db/registry.ts';
import type { RunningCall } from '#server/relay/relay.ts';

/** The progress of a running reply. */
export type Progress = FrameOf<'progress'>;

export type ProgressOptions = {
  running: Registry<RunningCall>;
  watch: Watch;
  /** Receives progress for viewers of this process. */
  onLocal: (calls: readonly Progress[]) => void;
  /** Receives progress for other processes. */
  onRemote: (payloads: readonly string[]) => void;
};

/**
 * Reports the progress of running replies four times a second, while a viewer here or on another instance
 * watches their accounts. Progress is no event, since it is obsolete a second later. Without viewers there is
 * no timer, and the relay pays nothing.
 */
export class ProgressReporter {
  readonly #options: ProgressOptions;
  /** The last reported number of tokens per call. */
  readonly #reported = new WeakMap<RunningCall, number>();
  #timer: NodeJS.Timeout | undefined;
  #next = 0;
  #isClosed = false;

  constructor(options: ProgressOptions) {
    this.#options = options;
    options.watch.onWatched = () => this.#wake();
  }

  #wake(): void {
    if (!this.#isClosed && this.#timer === undefined && this.#options.watch.isWatched) this.#arm();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#report();
      this.#wake();
    }, PROGRESS_EVERY_MS);
    this.#timer.unref();
  }

  #report(): void {
    const { watch, running, onLocal: onHere, onRemote: onElsewhere } = this.#options;
    const moved: RunningCall[] = [];
    for (const call of running.members()) {
      if (call.relayedTokens === (this.#reported.get(call) ?? 0)) continue;
      if (watch.isWatchedHere(call.key.account) || watch.isWatchedElsewhere(call.key.account))
        moved.push(call);
    }
    const here: Progress[] = [];
    const elsewhere: Progress[] = [];
    for (const call of this.#turn(moved)) {
      const { key, request, model, relayedTokens } = call;
      if (model === null) continue;
      this.#reported.set(call, relayedTokens);
      const progress: Progress = {
        type: 'progress',
        request,
        account: key.account,
        key: key.id,
        model,
        output_tokens: relayedTokens,
      };
      if (watch.isWatchedHere(key.account)) here.push(progress);
      if (watch.isWatchedElsewhere(key.account)) elsewhere.push(progress);
    }
    if (here.length > 0) onHere(here);
    if (elsewhere.length > 0) onElsewhere(progressPayloads(watch.name, elsewhere));
  }

  /** At most the maximum per interval; if there are more, they alternate. */
  #turn(moved: readonly RunningCall[]): readonly RunningCall[] {
    if (moved.length <= PROGRESS_CALLS_MAX) return moved;
    const from = this.#next % moved.length;
    this.#next = from + PROGRESS_CALLS_MAX;
    return [...moved.slice(from), ...moved.slice(0, from)].slice(0, PROGRESS_CALLS_MAX);
  }
}

type Line = [request: string, account: string, key: string, model: string, outputTokens: number];

/** The payloads of notifications: the sender, and one line per call. */
export function progressPayloads(by: string, calls: readonly Progress[]): string[] {
  const lines = calls.map(({ request, account, key, model, output_tokens }) =>
    JSON.stringify([request, account, key, model, output_tokens] satisfies Line),
  );
  return packed(lines).map((part) => `{"by":"${by}","calls":[${part}]}`);
}

/** The calls of a payload; empty for the reader's own or an invalid payload. */
export function readProgress(payload: string, self: string): Progress[] {
  try {
    const { by, calls } = JSON.parse(payload) as { by: string; calls: Line[] };
    if (by === self) return [];
    return calls.map(([request, account, key, model, output_tokens]) => ({
      type: 'progress',
      request,
      account,
      key,
      model,
      output_tokens,
    }));
  } catch {
    return [];
  }
}
