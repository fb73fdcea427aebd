import { type Client, type ClientBase, DatabaseError } from 'pg';
import { HEARTBEAT_MS } from '#db/bounds.ts';
import { closeClient } from '#db/postgres/connect.ts';
import type { OutputStatus } from '#db/diagnostics/droppable-output.ts';
import { type CallProgress, heartbeat, heartbeatWithPeers, reportOutput } from '#db/instances/instance.ts';
import { PeerWatch } from '#db/instances/peer-watch.ts';

/**
 * The heartbeats of one instance, a second apart.
 *
 * With a connection of their own they are sent for as long as the instance lives: a connection that failed is
 * replaced by the next heartbeat, and each heartbeat also reads Postgres' clock and the peers. Over a
 * borrowed connection they are no more than heartbeats, and end with it.
 */
export type HeartbeatOptions = {
  instance: number;
  /** The position in the log of this instance's oldest open request; null for one that never has any. */
  openFrom: () => number | null;
  /** Of its running calls; see {@link heartbeat}. With a connection of their own only. */
  progress?: () => readonly CallProgress[];
  /** A heartbeat was answered: this instance had not been declared dead when it was sent. */
  onConfirmed: (confirmed: { sentMs: number; postgresNow: Date }) => void;
  /** This instance was declared dead by another, or its borrowed connection failed. */
  onFenced: () => void;
  /** The peers that are dead and not recovered yet, once a second; with a connection of their own only. */
  onDeadPeers: (peers: readonly number[], nowMs: number) => void;
  onError: (error: unknown) => void;
  /** The diagnostic output of this process, reported with a heartbeat when it has changed. */
  output: () => OutputStatus;
};

export type Heartbeats = {
  /** Resolves when no heartbeat is in flight on a connection of their own, and that connection is closed. */
  close(): Promise<void>;
};

/**
 * Starts heartbeats with a connection of their own. Resolves when the first one was answered or has failed.
 */
export async function startHeartbeats(
  connect: () => Promise<Client>,
  options: HeartbeatOptions,
): Promise<Heartbeats> {
  const { instance } = options;
  const peers = new PeerWatch();
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  let reported: OutputStatus = { dropped: 0, failure: null };

  async function beat(): Promise<void> {
    client ??= await connect();
    const sentMs = performance.now();
    const beaten = await heartbeatWithPeers(client, instance, options.openFrom(), options.progress?.());
    if (beaten === null) return options.onFenced();
    options.onConfirmed({ sentMs, postgresNow: beaten.now });
    const nowMs = performance.now();
    options.onDeadPeers(peers.observe(beaten.peers, nowMs), nowMs);
    const output = options.output();
    if (output.dropped === reported.dropped && output.failure === reported.failure) return;
    await reportOutput(client, instance, output);
    reported = output;
  }

  async function tick(): Promise<void> {
    try {
      await beat();
    } catch (error) {
      peers.reset();
      const failed = client;
      client = undefined;
      if (failed) void closeClient(failed);
      options.onError(error);
    }
    if (isClosed) return;
    timer = setTimeout(() => {
      inFlight = tick();
    }, HEARTBEAT_MS);
  }

  let inFlight: Promise<void> = tick();
  await inFlight;
  return {
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await inFlight;
      if (client) await closeClient(client);
    },
  };
}

/**
 * Starts heartbeats over a connection that the caller uses, and closes, itself. The first is a second away.
 */
export function startHeartbeatsOn(
  client: ClientBase,
  { instance, openFrom, onFenced }: Pick<HeartbeatOptions, 'instance' | 'openFrom' | 'onFenced'>,
): Heartbeats {
  const timer = setInterval(() => {
    heartbeat(client, instance, openFrom()).then(
      (postgresNow) => {
        if (postgresNow === null) onFenced();
      },
      (error: unknown) => {
        // A statement that failed, such as one within a failed transaction, says nothing about the
        // connection.
        if (!(error instanceof DatabaseError)) onFenced();
      },
    );
  }, HEARTBEAT_MS);
  return {
    close() {
      clearInterval(timer);
      return Promise.resolve();
    },
  };
}
