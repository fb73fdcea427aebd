import type { Client } from 'pg';
import { HEARTBEAT_MS } from '#db/bounds.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { heartbeat, readPeers } from '#db/instances/instance.ts';
import { PeerWatch } from '#db/instances/peer-watch.ts';

/**
 * An instance's place among the others: once a second it says that it lives, sets the clock by
 * Postgres, and looks at its peers.
 */
export type MembershipOptions = {
  connect: () => Promise<Client>;
  instance: number;
  /** Where in the log this instance's open requests begin; null for one that never has any. */
  openFrom: () => number | null;
  onClock: (postgresNow: Date) => void;
  /**
   * A heartbeat that was sent at this moment, by the monotonic clock, was answered: nobody had declared us
   * dead.
   */
  onAlive: (sentMs: number) => void;
  /** This instance was declared dead by another. */
  onFenced: () => void;
  /** Who is dead and has something open, once a second. */
  onDead: (peers: readonly number[], nowMs: number) => void;
  onError: (error: unknown) => void;
};

export type Membership = { close(): Promise<void> };

/** Starts to beat; the first beat is done, or has failed, when the promise resolves. */
export async function joinMembership(options: MembershipOptions): Promise<Membership> {
  const { instance } = options;
  const watch = new PeerWatch();
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  async function beat(): Promise<void> {
    client ??= await options.connect();
    const sentMs = performance.now();
    const now = await heartbeat(client, instance, options.openFrom());
    if (now === null) return options.onFenced();
    options.onAlive(sentMs);
    options.onClock(now);
    const peers = await readPeers(client, instance);
    const nowMs = performance.now();
    options.onDead(watch.look(peers, nowMs), nowMs);
  }

  async function tick(): Promise<void> {
    try {
      await beat();
    } catch (error) {
      watch.lookAway();
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
      if (client) await closeClient(client);
    },
  };
}
