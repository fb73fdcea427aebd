import type { Client } from 'pg';
import { closeClient } from '#db/connect.ts';
import { heartbeat, readPeers } from '#db/instance.ts';
import { DEAD_AFTER_MS, HEARTBEAT_MS } from '#server/bounds.ts';

/**
 * This instance's place among the others: once a second it says that it lives, sets the clock by
 * Postgres, and watches its peers. A peer whose heartbeat has not moved for five seconds *while we
 * could look* is declared dead and its open requests are abandoned. Time in which we could not
 * look does not count, so an outage of the store kills nobody.
 */
export type MembershipOptions = {
  connect: () => Promise<Client>;
  instance: number;
  /** Where in the log this instance's open requests begin. */
  openFrom: () => number;
  onClock: (postgresNow: Date) => void;
  /** This instance was declared dead by another. */
  onFenced: () => void;
  /** Ends what a dead peer left open. */
  recover: (peer: number) => Promise<void>;
  onError: (error: unknown) => void;
};

export type Membership = { close(): Promise<void> };

/** Starts to beat; the first beat is done when the promise resolves. */
export async function joinMembership(options: MembershipOptions): Promise<Membership> {
  const { instance } = options;
  /** For each peer the heartbeat last seen, and for how long we have watched it stand still. */
  let watched = new Map<number, { heartbeat: string; sinceMs: number }>();
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  /** Beside the beat, which a long search of the log must not delay. */
  const recoveries = new Map<number, Promise<void>>();
  function recover(peer: number): void {
    if (recoveries.has(peer)) return;
    const recovery = options.recover(peer).catch(options.onError);
    recoveries.set(peer, recovery);
    void recovery.then(() => recoveries.delete(peer));
  }

  async function beat(): Promise<void> {
    client ??= await options.connect();
    const now = await heartbeat(client, instance, options.openFrom());
    if (now === null) {
      options.onFenced();
      return;
    }
    options.onClock(now);
    const nowMs = performance.now();
    const peers = await readPeers(client, instance);
    const seen: typeof watched = new Map();
    for (const { id, heartbeat: last, isDead } of peers) {
      const before = watched.get(id);
      const sinceMs = before?.heartbeat === last ? before.sinceMs : nowMs;
      seen.set(id, { heartbeat: last, sinceMs });
      if (isDead || nowMs - sinceMs >= DEAD_AFTER_MS) recover(id);
    }
    watched = seen;
  }

  async function tick(): Promise<void> {
    try {
      await beat();
    } catch (error) {
      watched = new Map();
      const broken = client;
      client = undefined;
      if (broken) void closeClient(broken);
      options.onError(error);
    }
    if (closed) return;
    timer = setTimeout(() => {
      running = tick();
    }, HEARTBEAT_MS);
  }

  let running: Promise<void> = tick();
  await running;
  return {
    async close() {
      closed = true;
      clearTimeout(timer);
      await running;
      await Promise.all(recoveries.values());
      if (client) await closeClient(client);
    },
  };
}
