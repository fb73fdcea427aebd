import type { Response } from 'express';
import { firstPosition, type Read, readHead, UnreadableEventError } from '#db/log/read.ts';
import { EVENTS_EXPORT_MAX, EVENTS_EXPORT_STEPS_MAX } from '#server/dashboard/bounds.ts';
import { EXPORT_STEP_ROWS } from '#server/read/bounds.ts';
import type { EventsQuery } from '#server/contract/events.ts';
import {
  eventRow,
  EVENTS,
  eventsWanted,
  type EventsWanted,
  stepThrough,
} from '#server/dashboard/events/list.ts';
import { ExportCutError, replyWithLines } from '#server/read/export-reply.ts';
import type { ReadStore } from '#server/read/store.ts';
import type { Scope } from '#server/read/scope.ts';
import { ApiError } from '#server/errors/api-error.ts';

/**
 * The last line: that this is the end and, where not all fitted into one export, from where on to ask for the
 * rest.
 */
type LastLine = {
  end: true;
  events: number;
  is_cut: boolean;
  /** `cursor` of the part after this one; null: this was all. */ next: string | null;
  head: number;
};

/**
 * Events as lines of JSON, the oldest first, up to the head of the log at the beginning. Each step is
 * read only when the one before it was taken, and holds no connection meanwhile. An event that this
 * version can't read is a line with its position alone.
 * @param after where the part before this one ended.
 * @param note puts down which positions are read, before any is.
 * @returns why there is none; once it has begun, a failure cuts the connection.
 */
export async function exportEvents(
  reads: ReadStore,
  scope: Scope,
  query: EventsQuery,
  after: number,
  response: Response,
  note: (from: number, to: number) => Promise<ApiError | null>,
): Promise<ApiError | null> {
  const begun = await reads.read(EVENTS, async (client) => {
    const head = await readHead(client);
    return {
      head,
      first: await firstPosition(client),
      wanted: await eventsWanted(client, scope, query, head),
    };
  });
  if (begun instanceof ApiError) return begun;
  const { head, first, wanted } = begun.found;
  const begins = Math.max(after, wanted?.stretch.after ?? head);
  const upTo = wanted?.stretch.upTo ?? head;
  const refusal = await note(Math.min(begins + 1, upTo), upTo);
  if (refusal) return refusal;

  async function* lines(): AsyncGenerator<string> {
    let events = 0;
    let position = begins;
    for (
      let step = 0;
      step < EVENTS_EXPORT_STEPS_MAX && events < EVENTS_EXPORT_MAX && position < upTo;
      step++
    ) {
      const part: EventsWanted = { filter: wanted?.filter ?? {}, stretch: { after: position, upTo } };
      const limit = Math.min(EXPORT_STEP_ROWS, EVENTS_EXPORT_MAX - events);
      const read = await reads.read(EVENTS, (client) => stepThrough(client, part, first, 'oldest', limit));
      if (read instanceof ApiError) throw new ExportCutError(read);
      const { rows, lookedTo } = read.found;
      events += rows.length;
      position = lookedTo;
      if (rows.length > 0) yield rows.map(lineOf).join('');
    }
    const isCut = position < upTo;
    yield `${JSON.stringify({ end: true, events, is_cut: isCut, next: isCut ? String(position) : null, head } satisfies LastLine)}\n`;
  }

  const headers = [
    'content-type',
    'application/x-ndjson; charset=utf-8',
    'content-disposition',
    'attachment; filename="events.ndjson"',
  ];
  return replyWithLines(response, headers, lines());
}

function lineOf(row: Read): string {
  return `${JSON.stringify(row instanceof UnreadableEventError ? { position: row.position, unreadable: true } : eventRow(row))}\n`;
}
