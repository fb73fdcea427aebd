import type { AuditReader } from '#server/dashboard/audit/reader.ts';
import { EventPage, EventRow, EventsQuery } from '#server/contract/events.ts';
import { exportEvents } from '#server/dashboard/events/export.ts';
import { EVENTS, listEvents, typesOf } from '#server/dashboard/events/list.ts';
import {
  type ApiCall,
  type ApiRoute,
  ANY_ROLE,
  type Contract,
  route,
  scopeOfMember,
} from '#server/dashboard/gate.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { readQuery, invalidParameter } from '#server/read/query.ts';
import type { ReadStore } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** Lines of events, the last of which says where the export ended. */
const EXPORT: Contract = { query: EventsQuery, reply: EventRow, type: 'application/x-ndjson' };

type Asked = {
  query: EventsQuery;
  /** The position of the next page or part. */ cursor: number | null;
};

/**
 * Routes for the event log: members read events of their account; administrators and auditors read all, and
 * their reads are recorded in the log.
 */
export function eventRoutes({ reads, audit }: { reads: ReadStore; audit: AuditReader }): ApiRoute[] {
  const get = (
    path: string,
    contract: Contract,
    answer: (asked: Asked, call: ApiCall<undefined>, who: Caller) => Promise<object | ApiError | null>,
  ): ApiRoute =>
    route('get', path, 'audit:read', ANY_ROLE, contract, (call, who) => {
      const asked = readAsked(call.request.url);
      return asked instanceof ApiError
        ? Promise.resolve(asked)
        : withReadSlot(reads, holderOf(who), () => answer(asked, call, who));
    });
  return [
    get('/api/v1/events', { query: EventsQuery, reply: EventPage }, async ({ query, cursor }, _call, who) => {
      // Recorded first, so that the list includes it.
      const refusal = await audit.noteListing(who);
      if (refusal) return refusal;
      const read = await reads.read(EVENTS, (client, asOf) =>
        listEvents(client, scopeOfMember(who), query, cursor, asOf),
      );
      return read instanceof ApiError ? read : read.found;
    }),
    get('/api/v1/events.ndjson', EXPORT, ({ query, cursor }, { response }, who) =>
      exportEvents(reads, scopeOfMember(who), query, cursor ?? 0, response, (from, to) =>
        audit.note(who, { what: 'export', from, to }),
      ),
    ),
  ];
}

function readAsked(url: string): Asked | ApiError {
  const query = readQuery(EventsQuery, url);
  if (query instanceof ApiError) return query;
  const { cursor, type } = query;
  if (type !== undefined && typesOf(type).length === 0)
    return invalidParameter('type', 'is no type of event');
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor))
    return invalidParameter('cursor', 'is not one that a page gave as "next"');
  return { query, cursor: cursor === undefined ? null : Number(cursor) };
}
