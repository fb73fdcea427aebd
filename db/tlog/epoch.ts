import { stat } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'kysely';
import type { Client } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { originOf } from '#db/fold/signing.ts';
import { withLock } from '#db/postgres/locks.ts';
import { SHARD } from '#db/log/append.ts';
import { appendOnce } from '#db/log/append-once.ts';
import { batchOf } from '#db/log/lookup.ts';
import { firstPosition } from '#db/log/read.ts';
import { LOG_STREAM } from '#db/events/streams.ts';
import type { Checkpoint } from '#db/tlog/checkpoint.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { growNodes } from '#db/tlog/build-tree.ts';
import { splitHashes, MissingHashesError, NODE_CHILDREN, readLeaves } from '#db/tlog/hashes.ts';
import { CHECKPOINT, readLeafTile } from '#db/tlog/publish-directory.ts';
import { findLostEvents, forgetLostEvents, type Positions } from '#db/tlog/lost-events.ts';
import { readLogState, requireConsistent, type LogState, InconsistentLogError } from '#db/tlog/log-state.ts';

/**
 * Epochs. A log that no longer contains every published event, for instance after an older backup was
 * restored, continues under a new origin: an event records publicly which events were abandoned.
 */

/** The published events that a log no longer contains. */
export type PublicationGap = {
  /** Why the log can't be published as it is, for the operator. */
  problem: string;
  published: Checkpoint;
  publishedAt: Date | null;
  /** Up to here the log equals the published one; null if the hashes to compare are missing. */
  agreesUpTo: number | null;
  /** When the event at that position was recorded. */
  agreesUntil: Date | null;
  /** The last position of the log. */
  head: number;
  /** The published events and those that servers recorded which the log lacks; null if not known. */
  lost: Positions | null;
};

/**
 * Finds the published events that the log no longer contains.
 * @returns null if the log contains all of them.
 * @throws {StoreError} when the directory publishes another log.
 */
export async function findPublicationGap(client: Client, directory: string): Promise<PublicationGap | null> {
  const state = await readLogState(client);
  const inconsistency = await findInconsistency(client, directory, state);
  if (inconsistency === null) return null;
  const { published, message } = inconsistency;
  epochOf(published, state);
  const agreesUpTo =
    inconsistency.lost === null
      ? await lastCommonPosition(client, directory, { published: published.size, head: state.head })
      : published.size;
  const recorded = await findLostEvents(client, directory, published.origin);
  const lastCommon = agreesUpTo ? await rowOf(client, batchOf(agreesUpTo).select('at')) : undefined;
  return {
    problem: message,
    published,
    publishedAt: await stat(path.join(directory, CHECKPOINT)).then(
      ({ mtime }) => mtime,
      () => null,
    ),
    agreesUpTo,
    agreesUntil: lastCommon?.at ?? null,
    head: state.head,
    lost: lostPositions(agreesUpTo, published.size, recorded),
  };
}

function lostPositions(
  agreesUpTo: number | null,
  published: number,
  recorded: Positions | null,
): Positions | null {
  if (agreesUpTo === null || agreesUpTo >= published) return recorded;
  return {
    first: Math.min(agreesUpTo + 1, recorded?.first ?? Infinity),
    last: Math.max(published, recorded?.last ?? 0),
  };
}

/** The new epoch; or `'repaired'` if only the stored tree was wrong, and was rebuilt. */
export type EpochStart = { epoch: number; position: number; origin: string } | 'repaired';

/**
 * Abandons the missing events with an event that records so. The next checkpoint is the first of the new
 * epoch. The stored tree is rebuilt where it may still cover missing events; if that restores consistency,
 * nothing is abandoned.
 * @param client a connection as the worker with long timeouts.
 * @throws {StoreError} when a part of the tree can't be rebuilt, or another process appended to the log
 * stream in the meantime.
 */
export function startEpoch(
  client: Client,
  directory: string,
  gap: PublicationGap,
  actor: string,
): Promise<EpochStart> {
  return withLock(client, 'checkpoint', async () => {
    await rebuildTree(client, (gap.agreesUpTo ?? 0) + 1);
    const state = await readLogState(client);
    const inconsistency = await findInconsistency(client, directory, state);
    if (inconsistency === null) return 'repaired';
    await requireStream(client, state.signing.version);
    const { published } = inconsistency;
    const epoch = epochOf(published, state) + 1;
    const event = {
      type: 'log.epoch_started' as const,
      epoch,
      lost_size: published.size,
      lost_root: published.root.toString('hex'),
      actor,
    };
    const position = await appendOnce(client, 'new-epoch', { event, version: state.signing.version + 1 });
    await forgetLostEvents(directory);
    return { epoch, position, origin: originOf(state.logId, epoch) };
  });
}

async function findInconsistency(
  client: Client,
  directory: string,
  state: LogState,
): Promise<InconsistentLogError | null> {
  try {
    await requireConsistent(client, directory, state);
    return null;
  } catch (error) {
    if (error instanceof InconsistentLogError) return error;
    throw error;
  }
}

/** The epoch of a checkpoint of this log. @throws {StoreError} when it is of another log. */
function epochOf({ origin }: Checkpoint, { logId }: LogState): number {
  const first = originOf(logId, 1);
  const epoch = origin === first ? 1 : Number(origin.slice(first.length + 1));
  if (epoch >= 1 && originOf(logId, epoch) === origin) return epoch;
  throw new StoreError(
    `the directory publishes another log, ${origin}, and this one is ${first}: set PUBLISH_DIR to this ` +
      `log's directory, or to a new one. There is nothing to abandon`,
  );
}

/** Searches backward for the last position up to which the log and the published tiles are equal. */
async function lastCommonPosition(
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
    const tile = splitHashes((await readLeafTile(directory, first / NODE_CHILDREN)) ?? Buffer.alloc(0));
    const leaves = await readLeaves(client, first, Math.min(end, first + NODE_CHILDREN)).catch(nullIfMissing);
    if (leaves === null || tile.length < leaves.length) return null;
    const same = leaves.findIndex((leaf, at) => !leaf.equals(tile[at] as Buffer));
    // Equal to the end of the tile. If nothing further was published, the difference is farther back.
    if (same < 0) return first + leaves.length < published ? first + leaves.length : null;
    if (same > 0) return first + same;
  }
  return 0;
}

function nullIfMissing(error: unknown): null {
  if (error instanceof MissingHashesError) return null;
  throw error;
}

/** A restored backup has a consistent stream_head table; a log that was truncated by hand does not. */
async function requireStream(client: Client, version: number): Promise<void> {
  const query = db.selectFrom('daybook.stream_head').select('version').where('stream', '=', LOG_STREAM);
  const stored = (await rowOf(client, query))?.version ?? 0;
  if (stored === version) return;
  throw new StoreError(
    `the log has ${version} events of the stream "${LOG_STREAM}", and daybook.stream_head says ` +
      `${stored}: it was truncated by hand, not restored. Restore a backup first`,
  );
}

async function rebuildTree(client: Client, from: number): Promise<void> {
  const first = await firstPosition(client);
  const border = Math.floor((first - 1) / NODE_CHILDREN) * NODE_CHILDREN;
  if (from > 1 && from <= border + NODE_CHILDREN && border < first - 1) {
    throw new StoreError(
      `the tree can't be rebuilt from position ${from} on, since the log before position ${first} is ` +
        'archived: restore its last file first with "daybook archive restore"',
    );
  }
  await rowOf(client, sql`select daybook.forget_nodes(${SHARD}::smallint, ${from}::bigint)`);
  await growNodes(client, (await readLogState(client)).head);
}
