import type { Request } from 'express';
import type { ClientBase } from 'pg';
import { ArchivedError } from '#db/log/read.ts';
import { matchesCall } from '#db/fold/call-filter.ts';
import { readSpendPage } from '#db/spend/read-page.ts';
import { filteredCallOf, type SpendEvent, withoutOperatorCost } from '#db/spend/spend-event.ts';
import { type SpendEventPage, SpendEventsQuery } from '#server/contract/spend-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { seesUpstreamCost } from '#server/read/operator-fields.ts';
import { readQuery } from '#server/read/query.ts';
import type { Scope } from '#server/read/scope.ts';
import type { ReadStore, Source } from '#server/read/store.ts';

/** They are read from the log itself, whose order is the order of pages; no projection delays them. */
const LOG: Source = { projection: 'directory', tables: [] };

/** A page of the spend events that a reader may see. */
export async function answerSpendEvents(
  { reads }: { reads: ReadStore },
  { scope, request }: { scope: Scope; request: Request },
): Promise<SpendEventPage | ApiError> {
  const query = readQuery(SpendEventsQuery, request.url);
  if (query instanceof ApiError) return query;
  const { after, limit, ...filter } = query;
  const matches = (event: SpendEvent): boolean =>
    (scope.account === null || scope.account === event.account) &&
    (scope.key === null || scope.key === event.key) &&
    // Payments belong to no call: a filter by anything but the account leaves them out.
    matchesCall(filter, filteredCallOf(event)) &&
    (event.end_reason !== undefined || (filter.outcome === undefined && filter.status === undefined));
  const read = await reads.read(LOG, (client) => readPage(client, { after, limit, matches }));
  if (read instanceof ApiError) return read;
  if (read.found instanceof ApiError) return read.found;
  const { events, upTo, head } = read.found;
  return {
    object: 'list',
    data: seesUpstreamCost(scope) ? events : events.map(withoutOperatorCost),
    next_after: upTo,
    has_more: upTo < head,
  };
}

function readPage(client: ClientBase, wanted: Parameters<typeof readSpendPage>[1]) {
  return readSpendPage(client, wanted).catch((error: unknown) => {
    if (!(error instanceof ArchivedError)) throw error;
    return new ApiError('events_archived', {
      message:
        `The events before position ${error.firstPosition} have been archived. ` +
        `Continue with after=${error.firstPosition - 1}, or restore the archive first.`,
    });
  });
}
