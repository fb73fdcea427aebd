import type { LiveMessage } from '#server/contract/frames.ts';
import type { Base, LiveStore, LiveView } from './live-store.ts';

/** Four updates per second look live and need little CPU time at any event rate. */
const PAINT_EVERY_MS = 250;
const TICK_MS = 1_000;

/** A view of a store that changes at most four times per second, as one value for React. */
export class PacedView {
  readonly #store: LiveStore;
  readonly #listeners = new Set<() => void>();
  #view: LiveView;
  #paintedMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer is due. */
  #dueMs = Infinity;
  #isPaused = false;

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

  apply(message: LiveMessage): void {
    this.#store.apply(message, Date.now());
    this.#paintSoon();
  }

  rebase(base: Base): void {
    if (this.#store.rebase(base)) this.#paintSoon();
  }

  /** While paused the view does not change, but frames are still counted. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
    if (!isPaused) this.#paintSoon();
  }

  #paintSoon(afterMs: number = 0): void {
    if (this.#isPaused || this.#listeners.size === 0) return;
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
    if (this.#isPaused) return;
    const nowMs = Date.now();
    this.#paintedMs = nowMs;
    this.#view = this.#store.view(nowMs);
    for (const listener of this.#listeners) listener();
    // The per-second figures move on without new frames.
    if (this.#store.isMoving(nowMs)) this.#paintSoon(TICK_MS);
  }
}
