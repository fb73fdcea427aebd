import { sql } from 'kysely';
import type { Client, ClientBase } from 'pg';
import { closeClient } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';

/** Making one waits for locks that others hold for moments, or for a detach that is under way. */
export const PARTITIONS_TIMEOUT_MS = 30_000;
/** A small part of the time in which the partitions ahead could be filled. */
export const PARTITIONS_CHECK_MS = 10 * 60_000;

/**
 * Partitions exist for so many seconds ahead at the present rate, which is time to notice a failure to
 * create them.
 */
const AHEAD_S = 3_600;
/** One that is being filled next, and one for a log that suddenly grows faster. */
const AHEAD_MIN = 2;
/** Empty tables cost little, but each of them is planned for. */
const AHEAD_MAX = 64;
/** The rate is measured over the newest batches: seconds of a busy log, hours of an idle one. */
const RATE_BATCHES = 1_000;

/** Events per second over the newest batches; null for a log with fewer. */
const RATE = sql<number | null>`case when b.at < clock_timestamp() then
  (daybook.head(${SHARD}) - b.last_position) / extract(epoch from clock_timestamp() - b.at)::float8 end`;

/** How many partitions are to be ready above the head, for so many events a second. */
export function partitionsAhead(rate: number, size: number): number {
  return Math.max(AHEAD_MIN, Math.min(AHEAD_MAX, Math.ceil((rate * AHEAD_S) / size)));
}

/**
 * Makes the log's next partitions where they are missing. Any number of processes may do so at once.
 * @returns how many it made.
 */
export async function makePartitions(client: ClientBase): Promise<number> {
  const batch = db
    .selectFrom('daybook.log_batch')
    .select(['last_position', 'at'])
    .where('shard', '=', SHARD)
    .orderBy('last_position', 'desc')
    .offset(RATE_BATCHES)
    .limit(1);
  const { partition_size, rate } = await onlyRowOf(
    client,
    db
      .selectFrom('daybook.install as i')
      .leftJoin(batch.as('b'), (join) => join.onTrue())
      .select(['i.partition_size', RATE.as('rate')]),
  );
  const ahead = partitionsAhead(rate ?? 0, Number(partition_size));
  const { made } = await onlyRowOf(
    client,
    db.selectNoFrom(sql<number>`daybook.create_partitions(${ahead})`.as('made')),
  );
  return made;
}

/** Creates partitions periodically while a process runs; a failure is reported, and retried the next time. */
export function keepPartitions(
  connect: () => Promise<Client>,
  everyMs: number,
  onError: (error: unknown) => void,
): { close(): void } {
  const once = async (): Promise<void> => {
    const client = await connect();
    try {
      await makePartitions(client);
    } finally {
      await closeClient(client);
    }
  };
  const timer = setInterval(() => void once().catch(onError), everyMs);
  return { close: () => clearInterval(timer) };
}
