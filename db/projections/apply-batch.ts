import { sql } from 'kysely';
import { type ClientBase, DatabaseError } from 'pg';
import { EVENT_CODES } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { GapError } from '#db/log/follow.ts';
import { ArchivedError, requireWhole, UnreadableEventError } from '#db/log/read.ts';
import { type Cell, db, onlyRowOf } from '#db/schema/query.ts';
import type { Projection, Range } from '#db/projections/projection.ts';

/**
 * Applies a range of the log to a projection, and isolates poison events: an event that can't be
 * applied is found by bisecting the range and parked, and the rest is applied. Faults of an event
 * are distinguished from those of the projection (a missing table, or too many failing events),
 * which is detached, and from those of the database, which are retried.
 */

/** An event that a projection could not apply, and why, without any of its contents. */
export type Parked = {
  position: number;
  reason: string;
  /** The code of an unknown type, whose event a later version reads again. */
  type?: number;
};

/** The fault is the projection's own, so that no event can be applied. */
export class BrokenProjectionError extends Error {
  override name = 'BrokenProjectionError';
}

/** More parked events in one page than damage or a newer version cause: the fault is the projection's. */
const PARKED_MAX = 100;

/** The facts of a range that are needed before it is applied. */
export type Survey = {
  /** The time of its last event, as Postgres writes it: to the microsecond. */
  at: string;
  /** Events of unknown types: a set-based statement would not notice them. */
  unknown: Parked[];
};

const SURVEY = `select count(*) as count, max(at)::text as at,
    array_agg(position order by position) filter (where type <> all($4)) as positions,
    array_agg(type order by position) filter (where type <> all($4)) as types
  from daybook.log where shard = $1 and position > $2 and position <= $3`;
export const KNOWN_TYPES: readonly number[] = Object.values(EVENT_CODES);

/** `at` is text, since a `Date` has no microseconds. */
type SurveyRow = {
  count: string;
  at: string;
  positions: Cell<'daybook.log', 'position'>[] | null;
  types: Cell<'daybook.log', 'type'>[] | null;
};

/** The first position of a range before an event that is behind its place; null without one. */
function firstGap({ after, upTo }: Range) {
  const seen = db
    .selectFrom('daybook.log')
    .select(['position', sql<string>`${after}::bigint + row_number() over (order by position)`.as('n')])
    .where('shard', '=', SHARD)
    .where('position', '>', String(after))
    .where('position', '<=', String(upTo));
  return db
    .selectFrom(seen.as('seen'))
    .select(({ fn }) => fn.min('n').as('position'))
    .whereRef('n', '<>', 'position');
}

/**
 * Checks a range of the log for gaps and unknown types.
 * @throws {ArchivedError} when a part of the range was archived.
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
    const gap = (await onlyRowOf(client, firstGap({ after, upTo }))).position;
    throw new GapError(`the log has no event at position ${gap ?? after + Number(count) + 1}`);
  }
  const unknown = (positions ?? []).map((position, index) => ({
    position: Number(position),
    reason: `unknown event type ${types?.[index]}`,
    type: types?.[index] as number,
  }));
  return { at, unknown };
}

/**
 * Applies a range, in smaller and smaller parts where it fails.
 * @returns the events that could not be applied.
 * @throws {BrokenProjectionError} when the projection itself is at fault. Errors of the database are thrown
 * as they are.
 */
export async function applyBatch(
  client: ClientBase,
  projection: Projection,
  range: Range,
): Promise<Parked[]> {
  const parked: Parked[] = [];
  // The next part is the last of the list, so that parts are applied in their order.
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
      throw new BrokenProjectionError(`${parked.length} events could not be applied: ${reasonOf(error)}`);
  }
  return parked;
}

/**
 * @returns the fault of an event of the range, with nothing applied; null when all of the range was applied.
 */
async function attempt(client: ClientBase, projection: Projection, range: Range): Promise<Error | null> {
  await client.query('savepoint part');
  try {
    await projection.apply(client, range);
    await client.query('release savepoint part');
    return null;
  } catch (error) {
    // On a lost connection this throws too, so that the loss is not classified as a fault of the event.
    await client.query('rollback to savepoint part; release savepoint part');
    switch (classify(error)) {
      case 'event':
        return error as Error;
      case 'projection':
        throw new BrokenProjectionError(reasonOf(error as Error), { cause: error });
      case 'database':
        throw error;
    }
  }
}

/** Classes of SQLSTATE: a value, a key, a size or a rule that an event breaks. */
const EVENT_CLASSES = ['21', '22', '23', '54', 'P0'];
/** A table or column that isn't there, a privilege that is missing. */
const PROJECTION_CLASSES = ['0A', '3F', '42'];

/** The origin of an error. Errors that are neither an event's nor the projection's are the database's. */
export function classify(error: unknown): 'event' | 'projection' | 'database' {
  if (!(error instanceof DatabaseError)) return 'event';
  const errorClass = error.code?.slice(0, 2) ?? '';
  if (EVENT_CLASSES.includes(errorClass)) return 'event';
  return PROJECTION_CLASSES.includes(errorClass) ? 'projection' : 'database';
}

/** Whether the log has a gap, so that nothing can be applied correctly. */
export function isLogFault(error: unknown): error is GapError | ArchivedError {
  return error instanceof GapError || error instanceof ArchivedError;
}

/** Names the fault without the message, which may quote values. */
function reasonOf(error: Error): string {
  if (error instanceof UnreadableEventError) return 'the event does not match its schema';
  if (!(error instanceof DatabaseError)) return error.name;
  const subject = error.constraint ?? error.column ?? error.table;
  return `SQLSTATE ${error.code}${subject === undefined ? '' : ` (${subject})`}`;
}
