import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { evolveSigning, originOf, type Signing, SIGNING_FIRST } from '#db/fold/signing.ts';
import { readHead, readStream } from '#db/log/read.ts';
import { LOG_STREAM } from '#db/events/streams.ts';
import { type Checkpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { hashesIn } from '#db/tlog/hashes.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { findLostEvents, type Positions } from '#db/tlog/lost-events.ts';
import { parseNote } from '#db/tlog/note.ts';
import { readSpans } from '#db/tlog/proof.ts';
import { readCheckpointFile } from '#db/tlog/publish-directory.ts';

/** The state of a log: its ID and origin, its signing keys, and its last position. */
export type LogState = { logId: string; origin: string; signing: Signing; head: number };

/** The log does not contain the published events: it was truncated, changed, or restored from a backup. */
export class InconsistentLogError extends StoreError {
  override name = 'StaleLogError';
  readonly published: Checkpoint;
  /** The log contains all published events, and lacks these later ones, which servers had recorded. */
  readonly lost: Positions | null;
  constructor(message: string, published: Checkpoint, lost: Positions | null = null) {
    super(message);
    this.published = published;
    this.lost = lost;
  }
}

export async function readLogState(client: ClientBase): Promise<LogState> {
  const install = await rowOf(client, db.selectFrom('daybook.install').select('log_id'));
  const logId = install?.log_id as string;
  const events = await readStream(client, LOG_STREAM);
  const signing = events.reduce<Signing>(evolveSigning, SIGNING_FIRST);
  return { logId, origin: originOf(logId, signing.epoch), signing, head: await readHead(client) };
}

/** The root of the tree over the first `size` events. @throws {MissingHashesError} */
export async function readRoot(client: ClientBase, size: number): Promise<Buffer> {
  const [root] = await readSpans([{ start: 0, end: size }], hashesIn(client));
  return root as Buffer;
}

/** The newest published checkpoint; null before the first one. Its signature is not verified. */
export async function readPublished(directory: string): Promise<Checkpoint | null> {
  const note = await readCheckpointFile(directory);
  return note === null ? null : parseCheckpoint(parseNote(note).text);
}

/**
 * Checks that the log is consistent with its published checkpoint.
 * @returns the published checkpoint of this epoch; null before its first one.
 * @throws {InconsistentLogError} when it is not; the message is for the operator.
 */
export async function requireConsistent(
  client: ClientBase,
  directory: string,
  state: LogState,
): Promise<Checkpoint | null> {
  const published = await readPublished(directory);
  if (published === null) return null;
  const { logId, signing, origin } = state;
  // The log grows concurrently, so the published checkpoint may be newer than the state that was read.
  const head = published.size > state.head ? await readHead(client) : state.head;
  if (published.origin !== origin) {
    const isAbandoned = signing.lost.some(({ epoch }) => published.origin === originOf(logId, epoch));
    if (isAbandoned) return null;
    throw new InconsistentLogError(
      published.origin.startsWith(originOf(logId, 1))
        ? `${directory} publishes a newer epoch of this log: it was restored from a backup that is older ` +
            'than that epoch'
        : `${directory} publishes another log: set PUBLISH_DIR to this log's directory, or to a new one`,
      published,
    );
  }
  if (published.size > head) {
    throw new InconsistentLogError(
      `the log ends at position ${head}, and ${directory} publishes it up to position ` +
        `${published.size}: it was truncated, or restored from an older backup. Restore a newer backup, ` +
        'or abandon the missing events with "daybook log new-epoch"',
      published,
    );
  }
  if (!(await readRoot(client, published.size)).equals(published.root)) {
    throw new InconsistentLogError(
      `the log is not consistent with the checkpoint of size ${published.size} in ${directory}: an ` +
        'event was changed, or the log was restored from an older backup and has grown since. "daybook ' +
        'audit verify" locates the difference; to continue anyway, run "daybook log new-epoch"',
      published,
    );
  }
  const lost = await findLostEvents(client, directory, origin);
  if (lost !== null) {
    throw new InconsistentLogError(
      `the log lacks the events at positions ${lost.first} to ${lost.last}, which servers had recorded ` +
        `after the checkpoint of size ${published.size}: a standby without them was promoted, or an older ` +
        'copy restored. Give them up with "daybook log new-epoch"',
      published,
      lost,
    );
  }
  return published;
}
