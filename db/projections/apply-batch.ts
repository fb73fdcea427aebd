import { type ClientBase, DatabaseError } from 'pg';
import { ArchivedError, GapError, UnreadableEventError } from '#db/log/read.ts';
import { type EventPage, type Parked, UNREADABLE } from '#db/projections/page/page.ts';
import type { Projection } from '#db/projections/projection.ts';

/**
 * Applies a page of the log to a projection, and isolates poison events: an event that can't be
 * applied is found by bisecting the page and parked, and the rest is applied. Faults of an event
 * are distinguished from those of the projection (a missing table, or too many failing events),
 * which is detached, and from those of the database, which are retried.
 */

/** The fault is the projection's own, so that no event can be applied. */
export class BrokenProjectionError extends Error {
  override name = 'BrokenProjectionError';
}

/** More parked events in one page than damage or a newer version cause: the fault is the projection's. */
const PARKED_MAX = 100;

/**
 * Applies a page, in smaller and smaller parts where it fails.
 * @returns the events that could not be applied.
 * @throws {BrokenProjectionError} when the projection itself is at fault. Errors of the database are thrown
 * as they are.
 */
export async function applyBatch(
  client: ClientBase,
  projection: Projection,
  page: EventPage,
): Promise<Parked[]> {
  const parked: Parked[] = [];
  // The next part is the last of the list, so that parts are applied in their order.
  const parts = [page];
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const error = await attempt(client, projection, part);
    if (error === null) continue;
    const { after, upTo } = part.range;
    if (upTo - after > 1) {
      const middle = after + Math.floor((upTo - after) / 2);
      parts.push(part.part({ after: middle, upTo }), part.part({ after, upTo: middle }));
      continue;
    }
    parked.push({ position: upTo, reason: reasonOf(error) });
    if (parked.length > PARKED_MAX)
      throw new BrokenProjectionError(`${parked.length} events could not be applied: ${reasonOf(error)}`);
  }
  return parked;
}

/**
 * @returns the fault of an event of the page, with nothing applied; null when all of the page was applied.
 */
async function attempt(client: ClientBase, projection: Projection, page: EventPage): Promise<Error | null> {
  await client.query('savepoint part');
  try {
    await projection.apply(client, page);
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
  if (error instanceof UnreadableEventError) return UNREADABLE;
  if (!(error instanceof DatabaseError)) return error.name;
  const subject = error.constraint ?? error.column ?? error.table;
  return `SQLSTATE ${error.code}${subject === undefined ? '' : ` (${subject})`}`;
}
