import { DEAD_AFTER_MS, WATCH_GAP_MAX_MS } from '#db/bounds.ts';
import type { Peer } from '#db/instances/instance.ts';

type Watched = Map<number, { heartbeat: string; stillMs: number }>;

/**
 * Which of the other instances are dead: those that somebody has declared so, and those whose
 * heartbeat has not moved for five seconds *while we looked*. Time in which we could not look, or
 * did not run ourselves, does not count, so neither an outage of the store nor a pause of the
 * whole machine kills anybody. Pure.
 */
export class PeerWatch {
  #watched: Watched = new Map();
  #lookedMs: number | null = null;

  /**
   * Takes in what is to be seen now.
   * @param nowMs by the monotonic clock, so that nobody dies because a clock was set.
   * @returns the dead ones.
   */
  look(peers: readonly Peer[], nowMs: number): number[] {
    const sinceMs = this.#lookedMs === null ? 0 : Math.min(nowMs - this.#lookedMs, WATCH_GAP_MAX_MS);
    this.#lookedMs = nowMs;
    const seen: Watched = new Map();
    const dead: number[] = [];
    for (const { id, heartbeat, isDead } of peers) {
      const before = this.#watched.get(id);
      const stillMs = before?.heartbeat === heartbeat ? before.stillMs + sinceMs : 0;
      seen.set(id, { heartbeat, stillMs });
      if (isDead || stillMs >= DEAD_AFTER_MS) dead.push(id);
    }
    this.#watched = seen;
    return dead;
  }

  /** We could not look: all watching begins anew. */
  reset(): void {
    this.#watched.clear();
    this.#lookedMs = null;
  }
}
