import { PROGRESS_CALLS_MAX, PROGRESS_EVERY_MS } from '#server/feed/bounds.ts';
import type { FrameOf } from '#server/contract/frames.ts';
import { packed } from '#server/feed/notify-payloads.ts';
import type { Watch } from '#server/feed/watch.ts';
import type { RunningCall } from '#server/relay/relay.ts';

/** How far a running reply is. */
export type Progress = FrameOf<'progress'>;

export type ProgressOptions = {
  running: ReadonlySet<RunningCall>;
  watch: Watch;
  /** Gets what is told to viewers of this process. */
  onLocal: (calls: readonly Progress[]) => void;
  /** Gets what is to be told to other processes. */
  onRemote: (payloads: readonly string[]) => void;
};

/**
 * Tells how far running replies are, four times a second, while somebody watches their accounts,
 * here or at another instance. It is never an event: it is of no worth a second later. While nobody
 * watches there is no timer, and the relay pays nothing.
 */
export class ProgressReporter {
  readonly #options: ProgressOptions;
  /** The figure that was told last of each call. */
  readonly #told = new WeakMap<RunningCall, number>();
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
      this.#tell();
      this.#wake();
    }, PROGRESS_EVERY_MS);
    this.#timer.unref();
  }

  #tell(): void {
    const { watch, running, onLocal: onHere, onRemote: onElsewhere } = this.#options;
    const moved: RunningCall[] = [];
    for (const call of running) {
      if (call.relayedTokens === (this.#told.get(call) ?? 0)) continue;
      if (watch.isWatchedHere(call.key.account) || watch.isWatchedElsewhere(call.key.account))
        moved.push(call);
    }
    const here: Progress[] = [];
    const elsewhere: Progress[] = [];
    for (const call of this.#turn(moved)) {
      const { key, request, model, relayedTokens } = call;
      this.#told.set(call, relayedTokens);
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

  /** As many as may be told at once; where there are more, each has its turn. */
  #turn(moved: readonly RunningCall[]): readonly RunningCall[] {
    if (moved.length <= PROGRESS_CALLS_MAX) return moved;
    const from = this.#next % moved.length;
    this.#next = from + PROGRESS_CALLS_MAX;
    return [...moved.slice(from), ...moved.slice(0, from)].slice(0, PROGRESS_CALLS_MAX);
  }
}

type Line = [request: string, account: string, key: string, model: string, outputTokens: number];

/** The payloads of notifications: from whom, and a line for each call. */
export function progressPayloads(by: string, calls: readonly Progress[]): string[] {
  const lines = calls.map(({ request, account, key, model, output_tokens }) =>
    JSON.stringify([request, account, key, model, output_tokens] satisfies Line),
  );
  return packed(lines).map((part) => `{"by":"${by}","calls":[${part}]}`);
}

/** What a payload says; nothing when it is the reader's own, or not of this kind. */
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
