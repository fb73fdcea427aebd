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

/** The last line: marks the end and, if the export was cut off, where the next part starts. */
type LastLine = {
  end: true;
  events: number;
  is_cut: boolean;
  /** `cursor` of the part after this one; null: this was all. */ next: string | null;
  head: number;
};

/**
 * Exports events as lines of JSON, oldest first, up to the head of the log at the start. Each step is read
 * only after the client took the previous one, and holds no connection in between. An event that this version
 * can't decode is a line with its position only.
 * @param after end of the previous part.
 * @param note records the read positions in the log, before they are read.
 * @returns an error if the export can't start; a later failure cuts the connection.
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
      if (rows.length > 0) yield rows.map((row) => lineOf(row, scope)).join('');
    }
    const isCut = position < upTo;
    const next = isCut ? String(position) : null;
    const last: LastLine = { end: true, events, is_cut: isCut, next, head };
    yield `${JSON.stringify(last)}\n`;
  }

  const headers = [
    'content-type',
    'application/x-ndjson; charset=utf-8',
    'content-disposition',
    'attachment; filename="events.ndjson"',
  ];
  return replyWithLines(response, headers, lines());
}

function lineOf(row: Read, scope: Scope): string {
  const line =
    row instanceof UnreadableEventError ? { position: row.position, unreadable: true } : eventRow(row, scope);
  return `${JSON.stringify(line)}\n`;
}
