import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { evolveSigning, originOf, type Signing, SIGNING_FIRST } from '#db/fold/signing.ts';
import { readHead, readStream } from '#db/log/read.ts';
import { LOG_STREAM } from '#db/events/streams.ts';
import { type Checkpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { hashesIn } from '#db/tlog/hashes.ts';
import { parseNote } from '#db/tlog/note.ts';
import { readSpans } from '#db/tlog/proof.ts';
import { readCheckpointFile } from '#db/tlog/published.ts';

/** Where a log stands: its name, who signs it, and how far it goes. */
export type Standing = { logId: string; origin: string; signing: Signing; head: number };

/** The log does not hold what was published of it: it was cut, changed, or restored from an older backup. */
export class StaleLogError extends StoreError {
  override name = 'StaleLogError';
  readonly published: Checkpoint;
  constructor(message: string, published: Checkpoint) {
    super(message);
    this.published = published;
  }
}

export async function readStanding(client: ClientBase): Promise<Standing> {
  const { rows } = await client.query<{ log_id: string }>('select log_id from daybook.install');
  const logId = rows[0]?.log_id as string;
  const events = await readStream(client, LOG_STREAM);
  const signing = events.reduce<Signing>(evolveSigning, SIGNING_FIRST);
  return { logId, origin: originOf(logId, signing.epoch), signing, head: await readHead(client) };
}

/**
 * The root of the tree over the first events. @throws {MissingHashesError} when the database can't tell it.
 */
export async function readRoot(client: ClientBase, size: number): Promise<Buffer> {
  const [root] = await readSpans([{ start: 0, end: size }], hashesIn(client));
  return root as Buffer;
}

/** What was published last in a directory; null where nothing was. */
export async function readPublished(directory: string): Promise<Checkpoint | null> {
  const note = await readCheckpointFile(directory);
  return note === null ? null : parseCheckpoint(parseNote(note).text);
}

/**
 * That the log still holds what was published of it.
 * @returns what was published of this very history; null where nothing was.
 * @throws {StaleLogError} where it doesn't; the message is for the operator.
 */
export async function requireStanding(
  client: ClientBase,
  directory: string,
  standing: Standing,
): Promise<Checkpoint | null> {
  const published = await readPublished(directory);
  if (published === null) return null;
  const { logId, signing, origin } = standing;
  // The log goes on, and what was published a moment ago may be more than was there before that.
  const head = published.size > standing.head ? await readHead(client) : standing.head;
  if (published.origin !== origin) {
    const isGivenUp = signing.lost.some(({ epoch }) => published.origin === originOf(logId, epoch));
    if (isGivenUp) return null;
    throw new StaleLogError(
      published.origin.startsWith(originOf(logId, 1))
        ? `this log is of an older epoch than what was published in ${directory}: it was restored from a backup that was made before`
        : `what was published in ${directory} is of another log: set PUBLISH_DIR to this one's directory, or to a new one`,
      published,
    );
  }
  if (published.size > head) {
    throw new StaleLogError(
      `the log ends at position ${head}, and up to position ${published.size} it was published in ${directory}: its end was cut, or it was restored from an older backup. Restore a newer one, or give up what is missing by "daybook log new-epoch"`,
      published,
    );
  }
  if (!(await readRoot(client, published.size)).equals(published.root)) {
    throw new StaleLogError(
      `the log is not the one that was published in ${directory} up to position ${published.size}: something in it was changed, or it was restored from an older backup and has gone on. "daybook audit verify" names the place; to go on all the same: "daybook log new-epoch"`,
      published,
    );
  }
  return published;
}
