import type { ClientBase } from 'pg';
import { namesByCode } from '#db/events/codes.ts';
import { type ControlEvent, EVENT_CODES, type Placed, REQUEST_TYPES } from '#db/events/events.ts';
import { AT } from '#db/log/columns.ts';
import { type Cells, cellsOf } from '#db/log/line.ts';
import {
  allControl,
  dateOf,
  GapError,
  inRange,
  type LogRange,
  readBatches,
  readLine,
  requireWhole,
} from '#db/log/read.ts';

/** An event that a projection could not apply, and why, without any of its contents. */
export type Parked = {
  position: number;
  reason: string;
  /** The code of an unknown type, whose event a later version reads again. */
  type?: number;
};

/** An event as projections take it. */
export type PageEvent = {
  position: number;
  /** In microseconds since 1970, and as PostgreSQL reads it. */
  atUs: number;
  at: string;
  instance: number;
  /** Its code; NaN where the line is damaged. */
  type: number;
  /** The fields of its line, see {@link AT}; none where the line is damaged. */
  cells: Cells;
  line: string;
};

/**
 * The events of a range, read and parsed once for all projections: statements over the log would have
 * PostgreSQL parse them for each projection, which costs more than all that the statements do with them.
 */
export class EventPage {
  readonly range: LogRange;
  readonly events: readonly PageEvent[];
  #control: Placed<ControlEvent>[] | null = null;

  /** @param events all of the range, in order. */
  constructor(range: LogRange, events: readonly PageEvent[]) {
    this.range = range;
    this.events = events;
  }

  /** The time of the last event, as PostgreSQL reads it. */
  get at(): string {
    return (this.events.at(-1) as PageEvent).at;
  }

  /** The events of unknown types and the damaged lines. No projection may take them. */
  get unknown(): Parked[] {
    return this.events.flatMap(({ position, type }) => {
      if (TYPE_OF.has(type)) return [];
      if (Number.isNaN(type)) return [{ position, reason: UNREADABLE }];
      return [{ position, reason: `unknown event type ${type}`, type }];
    });
  }

  /**
   * The control events.
   * @throws {UnreadableEventError} at one that is not of the vocabulary.
   */
  get control(): readonly Placed<ControlEvent>[] {
    this.#control ??= allControl(
      this.events
        .filter(({ type }) => TYPE_OF.has(type) && !REQUEST_CODES.has(type))
        .map(({ position, atUs, instance, line }) => readLine(position, dateOf(atUs), instance, line)),
    );
    return this.#control;
  }

  /** A part of this page. */
  part(range: LogRange): EventPage {
    const { after } = this.range;
    return new EventPage(range, this.events.slice(range.after - after, range.upTo - after));
  }
}

/** Why an event was parked whose line or body can't be parsed. */
export const UNREADABLE = 'the event does not match its schema';

const TYPE_OF = namesByCode(EVENT_CODES);
const REQUEST_CODES: ReadonlySet<number> = new Set(REQUEST_TYPES.map((type) => EVENT_CODES[type]));

/**
 * Reads a range of the log.
 * @throws {ArchivedError} when a part of the range was archived.
 * @throws {GapError} when a position is missing otherwise: the log was cut or damaged.
 */
export async function readEventPage(client: ClientBase, range: LogRange): Promise<EventPage> {
  const events: PageEvent[] = [];
  for (const batch of await readBatches(client, range)) {
    const atUs = Number(batch.row.at);
    const at = timestampOf(atUs);
    const instance = Number(batch.row.instance);
    for (const line of inRange(batch.events.split('\n'), batch, range)) {
      const cells = readCells(line);
      const type = Number(cells[AT.type] ?? NaN);
      events.push({ position: range.after + events.length + 1, atUs, at, instance, type, cells, line });
    }
  }
  if (events.length < range.upTo - range.after) {
    await requireWhole(client, range.after);
    throw new GapError(range.after + events.length + 1);
  }
  return new EventPage(range, events);
}

function readCells(line: string): Cells {
  try {
    return cellsOf(line);
  } catch {
    return [];
  }
}

/** A time in microseconds since 1970 as PostgreSQL reads it, which has them too. */
export function timestampOf(atUs: number): string {
  const micros = String(((atUs % 1_000) + 1_000) % 1_000).padStart(3, '0');
  return `${dateOf(atUs).toISOString().slice(0, -1)}${micros}Z`;
}
