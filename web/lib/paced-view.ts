import type { LiveMessage } from '#server/contract/frames.ts';
import type { Base, LiveStore, LiveView } from './live-store.ts';

/** Four paints a second look live, and cost a few hundredths of the page's time, however much comes. */
const PAINT_EVERY_MS = 250;
const TICK_MS = 1_000;

/** What is shown of a store, drawn anew at most four times a second: React sees one value that changes. */
export class PacedView {
  readonly #store: LiveStore;
  readonly #listeners = new Set<() => void>();
  #view: LiveView;
  #paintedMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer is due. */
  #dueMs = Infinity;
  #isHeld = false;

  constructor(store: LiveStore) {
    this.#store = store;
    this.#view = store.view(Date.now());
  }

  get = (): LiveView => this.#view;

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#stop();
    };
  };

  take(message: LiveMessage): void {
    this.#store.take(message, Date.now());
    this.#paintSoon();
  }

  rebase(base: Base): void {
    if (this.#store.rebase(base)) this.#paintSoon();
  }

  /** What is held stays as it is; what comes is counted all the same. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    if (!isHeld) this.#paintSoon();
  }

  #paintSoon(afterMs: number = 0): void {
    if (this.#isHeld || this.#listeners.size === 0) return;
    const nowMs = Date.now();
    const dueMs = Math.max(nowMs + afterMs, this.#paintedMs + PAINT_EVERY_MS);
    if (dueMs >= this.#dueMs) return;
    this.#stop();
    this.#dueMs = dueMs;
    this.#timer = setTimeout(() => this.#paint(), dueMs - nowMs);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#dueMs = Infinity;
  }

  #paint(): void {
    this.#dueMs = Infinity;
    if (this.#isHeld) return;
    const nowMs = Date.now();
    this.#paintedMs = nowMs;
    this.#view = this.#store.view(nowMs);
    for (const listener of this.#listeners) listener();
    // The last seconds go by where nothing comes any more, too.
    if (this.#store.isMoving(nowMs)) this.#paintSoon(TICK_MS);
  }
}
