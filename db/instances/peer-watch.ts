import { DEAD_AFTER_MS, WATCH_GAP_MAX_MS } from '#db/bounds.ts';
import type { Peer } from '#db/instances/instance.ts';

type Observed = Map<number, { heartbeat: string; stillMs: number }>;

/**
 * Failure detector: a peer is dead if it was declared dead, or if its heartbeat has not changed during
 * DEAD_AFTER_MS *of observation*. Time in which this process could not read heartbeats, or did not run, does
 * not count, so neither an outage of the store nor a pause of the whole machine makes a peer look dead. Pure.
 */
export class PeerWatch {
  #observed: Observed = new Map();
  #lastMs: number | null = null;

  /**
   * Processes the current heartbeats of all peers.
   * @param nowMs by the monotonic clock, so that setting a clock kills no peer.
   * @returns the dead peers.
   */
  observe(peers: readonly Peer[], nowMs: number): number[] {
    const sinceMs = this.#lastMs === null ? 0 : Math.min(nowMs - this.#lastMs, WATCH_GAP_MAX_MS);
    this.#lastMs = nowMs;
    const seen: Observed = new Map();
    const dead: number[] = [];
    for (const { id, heartbeat, isDead } of peers) {
      const before = this.#observed.get(id);
      const stillMs = before?.heartbeat === heartbeat ? before.stillMs + sinceMs : 0;
      seen.set(id, { heartbeat, stillMs });
      if (isDead || stillMs >= DEAD_AFTER_MS) dead.push(id);
    }
    this.#observed = seen;
    return dead;
  }

  /** The heartbeats could not be read: observation restarts from zero. */
  reset(): void {
    this.#observed.clear();
    this.#lastMs = null;
  }
}
