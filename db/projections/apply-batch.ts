import { type ClientBase, DatabaseError } from 'pg';
import { EVENT_CODES } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { GapError } from '#db/log/follow.ts';
import { ArchivedError, requireWhole, UnreadableEventError } from '#db/log/read.ts';
import type { Projection, Range } from '#db/projections/projection.ts';

/**
 * Taking a range of the log into a projection, whatever is in it. An event that can't be taken is
 * found by halving the range, put aside, and the rest goes on. A fault that is the projection's own
 * (a table is gone, it refuses everything) is told apart from one of an event, and from one of the
 * store, which is none of ours and will pass.
 */

/** An event that a projection could not take, and why, without anything of its contents. */
export type Parked = { position: number; reason: string };

/** The fault is the projection's own: no event would fare better. */
export class BrokenProjectionError extends Error {
  override name = 'BrokenProjectionError';
}

/** More unreadable events in one page than damage or a newer version bring: it is the projection. */
const PARKED_MAX = 100;

/** What of a range is worth knowing before it is taken in. */
export type Survey = {
  /** The time of its last event, as Postgres writes it: to the microsecond. */
  at: string;
  /** Events of no known type: a set-based statement would not notice them. */
  unknown: Parked[];
};

const SURVEY = `select count(*) as count, max(at)::text as at,
    array_agg(position order by position) filter (where type <> all($4)) as positions,
    array_agg(type order by position) filter (where type <> all($4)) as types
  from daybook.log where shard = $1 and position > $2 and position <= $3`;
const FIRST_GAP = `select min(n) as position from (
    select $2::bigint + row_number() over (order by position) as n, position
      from daybook.log where shard = $1 and position > $2 and position <= $3) seen
  where n <> position`;
const KNOWN_TYPES = Object.values(EVENT_CODES);

type SurveyRow = { count: string; at: string; positions: string[] | null; types: number[] | null };

/**
 * Looks a range of the log over.
 * @throws {ArchivedError} when a part of it has left the log for the archive.
 * @throws {GapError} when a position is missing otherwise: the log was cut or damaged.
 */
export async function survey(client: ClientBase, { after, upTo }: Range): Promise<Survey> {
  const { rows } = await client.query<SurveyRow>({
    name: 'survey',
    text: SURVEY,
    values: [SHARD, after, upTo, KNOWN_TYPES],
  });
  const { count, at, positions, types } = rows[0] as SurveyRow;
  if (Number(count) !== upTo - after) {
    await requireWhole(client, after);
    const gap = await client.query<{ position: string | null }>(FIRST_GAP, [SHARD, after, upTo]);
    throw new GapError(
      `the log has no event at position ${gap.rows[0]?.position ?? after + Number(count) + 1}`,
    );
  }
  const unknown = (positions ?? []).map((position, index) => ({
    position: Number(position),
    reason: `unknown event type ${types?.[index]}`,
  }));
  return { at, unknown };
}

/**
 * Takes a range in, event by event where it must be.
 * @returns the events that could not be taken.
 * @throws {BrokenProjectionError} when the projection itself is at fault. Any fault of the store passes as it
 * is.
 */
export async function applyBatch(
  client: ClientBase,
  projection: Projection,
  range: Range,
): Promise<Parked[]> {
  const parked: Parked[] = [];
  // The next part is the last of the list, so that parts are taken in their order.
  const parts = [range];
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const error = await attempt(client, projection, part);
    if (error === null) continue;
    const { after, upTo } = part;
    if (upTo - after > 1) {
      const middle = after + Math.floor((upTo - after) / 2);
      parts.push({ after: middle, upTo }, { after, upTo: middle });
      continue;
    }
    parked.push({ position: upTo, reason: reasonOf(error) });
    if (parked.length > PARKED_MAX)
      throw new BrokenProjectionError(`it took none of ${parked.length} events: ${reasonOf(error)}`);
  }
  return parked;
}

/** @returns the fault of an event of the range, with nothing of the range taken; null when all was taken. */
async function attempt(client: ClientBase, projection: Projection, range: Range): Promise<Error | null> {
  await client.query('savepoint part');
  try {
    await projection.apply(client, range);
    await client.query('release savepoint part');
    return null;
  } catch (error) {
    // Over a connection that is lost this fails too, and so nobody is blamed for the loss.
    await client.query('rollback to savepoint part; release savepoint part');
    if (blame(error) === 'projection')
      throw new BrokenProjectionError(reasonOf(error as Error), { cause: error });
    if (blame(error) === 'store') throw error;
    return error as Error;
  }
}

/** Classes of SQLSTATE: a value, a key, a size or a rule that an event breaks. */
const EVENT_CLASSES = ['21', '22', '23', '54', 'P0'];
/** A table or column that isn't there, a privilege that is missing. */
const PROJECTION_CLASSES = ['0A', '3F', '42'];

/**
 * Whose fault an error is. What is neither an event's nor the projection's passes with the store's trouble.
 */
export function blame(error: unknown): 'event' | 'projection' | 'store' {
  if (!(error instanceof DatabaseError)) return 'event';
  const errorClass = error.code?.slice(0, 2) ?? '';
  if (EVENT_CLASSES.includes(errorClass)) return 'event';
  return PROJECTION_CLASSES.includes(errorClass) ? 'projection' : 'store';
}

/** Whether the log itself is not whole, so that there is nothing to take in rightly. */
export function isLogFault(error: unknown): error is GapError | ArchivedError {
  return error instanceof GapError || error instanceof ArchivedError;
}

/** Names the fault without the message, which may quote values. */
function reasonOf(error: Error): string {
  if (error instanceof UnreadableEventError) return 'the event is not of the vocabulary';
  if (!(error instanceof DatabaseError)) return error.name;
  const subject = error.constraint ?? error.column ?? error.table;
  return `SQLSTATE ${error.code}${subject === undefined ? '' : ` (${subject})`}`;
}
