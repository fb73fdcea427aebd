import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { Client } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { originOf } from '#db/fold/signing.ts';
import { LOCKS } from '#db/postgres/locks.ts';
import { SHARD } from '#db/log/append.ts';
import { appendOnce } from '#db/log/append-once.ts';
import { firstPosition } from '#db/log/read.ts';
import { LOG_STREAM } from '#db/events/streams.ts';
import type { Checkpoint } from '#db/tlog/checkpoint.ts';
import { growNodes } from '#db/tlog/grow.ts';
import { cut, MissingHashesError, NODE_CHILDREN, readLeaves } from '#db/tlog/hashes.ts';
import { CHECKPOINT, readLeafTile } from '#db/tlog/published.ts';
import { readStanding, requireStanding, type Standing, StaleLogError } from '#db/tlog/standing.ts';

/**
 * Going on with a log that is not what was published of it. What was published and is not there any
 * more is given up, on purpose and for everybody to see: the log says so, and takes another name.
 */

/** What a log has lost of what was published of it. */
export type Loss = {
  /** Why it can't go on as it is, for the operator. */
  problem: string;
  published: Checkpoint;
  publishedAt: Date | null;
  /** Up to here the log is what was published of it; null where that can't be told. */
  agreesUpTo: number | null;
  /** When the event there was recorded. */
  agreesUntil: Date | null;
  /** Where the log ends. */
  head: number;
};

/**
 * What is missing of what was published.
 * @returns null where nothing is.
 * @throws {StoreError} where what was published is of another log altogether.
 */
export async function findLoss(client: Client, directory: string): Promise<Loss | null> {
  const standing = await readStanding(client);
  const stale = await staleness(client, directory, standing);
  if (stale === null) return null;
  const { published, message } = stale;
  epochOf(published, standing);
  const agreesUpTo = await agreedUpTo(client, directory, { published: published.size, head: standing.head });
  const { rows } = await client.query<{ at: Date }>(
    'select at from daybook.log_batch where shard = $1 and last_position >= $2 order by last_position limit 1',
    [SHARD, agreesUpTo],
  );
  return {
    problem: message,
    published,
    publishedAt: await stat(path.join(directory, CHECKPOINT)).then(
      ({ mtime }) => mtime,
      () => null,
    ),
    agreesUpTo,
    agreesUntil: agreesUpTo === null || agreesUpTo === 0 ? null : (rows[0]?.at ?? null),
    head: standing.head,
  };
}

/** What was done: the log goes on under another name, or only its tree was wrong and was made anew. */
export type Begun = { epoch: number; position: number; origin: string } | 'mended';

/**
 * Gives up what is missing, by an event that says so. The next checkpoint is the first of another
 * epoch. The tree is made anew where it may still be that of lost events; should that have been all
 * that was wrong, nothing is given up.
 * @param client a connection as the worker with long time-outs.
 * @throws {StoreError} when a part of the tree can't be made anew, or the log was taken up by somebody else
 * meanwhile.
 */
export async function beginEpoch(
  client: Client,
  directory: string,
  loss: Loss,
  actor: string,
): Promise<Begun> {
  await client.query(`select pg_advisory_lock(${LOCKS.checkpoint})`);
  try {
    await makeTreeAnew(client, (loss.agreesUpTo ?? 0) + 1);
    const standing = await readStanding(client);
    const stale = await staleness(client, directory, standing);
    if (stale === null) return 'mended';
    await requireStream(client, standing.signing.version);
    const { published } = stale;
    const epoch = epochOf(published, standing) + 1;
    const event = {
      type: 'log.epoch_started' as const,
      epoch,
      lost_size: published.size,
      lost_root: published.root.toString('hex'),
      actor,
    };
    const position = await appendOnce(client, 'new-epoch', { event, version: standing.signing.version + 1 });
    return { epoch, position, origin: originOf(standing.logId, epoch) };
  } finally {
    await client.query(`select pg_advisory_unlock(${LOCKS.checkpoint})`).catch(() => undefined);
  }
}

async function staleness(
  client: Client,
  directory: string,
  standing: Standing,
): Promise<StaleLogError | null> {
  try {
    await requireStanding(client, directory, standing);
    return null;
  } catch (error) {
    if (error instanceof StaleLogError) return error;
    throw error;
  }
}

/** Of which epoch of this log it is. @throws {StoreError} where it is of another log. */
function epochOf({ origin }: Checkpoint, { logId }: Standing): number {
  const first = originOf(logId, 1);
  const epoch = origin === first ? 1 : Number(origin.slice(first.length + 1));
  if (epoch >= 1 && originOf(logId, epoch) === origin) return epoch;
  throw new StoreError(
    `what was published is of another log, ${origin}, and this one is ${first}: set PUBLISH_DIR to this one's directory, or to a new one. There is nothing to give up`,
  );
}

/**
 * Looks for where the log and what was published part, from the end of both back to the last event in
 * which they agree.
 */
async function agreedUpTo(
  client: Client,
  directory: string,
  { published, head }: { published: number; head: number },
): Promise<number | null> {
  const end = Math.min(published, head);
  for (
    let first = Math.floor(Math.max(0, end - 1) / NODE_CHILDREN) * NODE_CHILDREN;
    first >= 0;
    first -= NODE_CHILDREN
  ) {
    const tile = cut((await readLeafTile(directory, first / NODE_CHILDREN)) ?? Buffer.alloc(0));
    const leaves = await readLeaves(client, first, Math.min(end, first + NODE_CHILDREN)).catch(
      noneWhereMissing,
    );
    if (leaves === null || tile.length < leaves.length) return null;
    const same = leaves.findIndex((leaf, at) => !leaf.equals(tile[at] as Buffer));
    // All that is there agrees, and more was published. Where no more was, the place is farther down.
    if (same < 0) return first + leaves.length < published ? first + leaves.length : null;
    if (same > 0) return first + same;
  }
  return 0;
}

function noneWhereMissing(error: unknown): null {
  if (error instanceof MissingHashesError) return null;
  throw error;
}

/** A backup has this table as it has the log; whoever cuts a log by hand leaves it as it was. */
async function requireStream(client: Client, version: number): Promise<void> {
  const { rows } = await client.query<{ version: number }>(
    'select version from daybook.stream_head where stream = $1',
    [LOG_STREAM],
  );
  const stored = rows[0]?.version ?? 0;
  if (stored === version) return;
  throw new StoreError(
    `the log has ${version} events of the stream "${LOG_STREAM}", and daybook.stream_head says ${stored}: it was not restored, but cut by hand. Restore a backup; only then can it go on`,
  );
}

async function makeTreeAnew(client: Client, from: number): Promise<void> {
  const first = await firstPosition(client);
  const border = Math.floor((first - 1) / NODE_CHILDREN) * NODE_CHILDREN;
  if (from > 1 && from <= border + NODE_CHILDREN && border < first - 1) {
    throw new StoreError(
      `the tree can't be made anew from position ${from} on, since the log before position ${first} is in its archive: restore its last file first, by "daybook archive restore"`,
    );
  }
  await client.query('select daybook.forget_nodes($1, $2)', [SHARD, from]);
  await growNodes(client, (await readStanding(client)).head);
}
