import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';
import type { Placed } from '#db/events/events.ts';
import { WINDOW_KIND_OF, WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METER_OF } from '#db/limits/meters.ts';
import { holderName, parseSubject } from '#db/limits/subjects.ts';
import { type Read, readHead, UnreadableEventError } from '#db/log/read.ts';
import { readRequest } from '#db/log/read-subject.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';
import { REQUEST_DETAIL_EVENTS_MAX, REQUEST_DETAIL_LOOK_MAX } from '#server/read/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';
import type { RequestDetail, RequestEvent, RequestQuota } from '#server/contract/requests.ts';
import type { Source } from '#server/read/store.ts';
import { addCorrected, readCorrections } from '#server/read/request-corrections.ts';
import { seesUpstreamCost, withoutUpstreamCost } from '#server/read/operator-fields.ts';
import { numberOf, REQUEST_COLUMNS, requestRow } from '#server/read/request-row.ts';
import { subjectConditions } from '#server/read/request-filter.ts';
import type { Scope } from '#server/read/scope.ts';

export const REQUEST_DETAIL: Source = {
  projection: 'requests',
  tables: ['request', 'quota_window', 'quota_terms'],
};

/**
 * Details of one request: its row, its events from the log, and the quota windows that it was charged to.
 * @returns null if it is unknown or outside the scope.
 */
export async function readRequestDetail(
  client: ClientBase,
  scope: Scope,
  request: string,
): Promise<Omit<RequestDetail, keyof Freshness> | null> {
  let query = db
    .selectFrom('projection.request')
    .select(REQUEST_COLUMNS)
    .select(['body_bytes', 'instance', 'admitted_minute', 'terms_position', 'price_version'])
    .where('request', '=', request);
  for (const condition of subjectConditions(scope, {})) query = query.where(condition);
  const record = await rowOf(client, query);
  if (record === undefined) return null;
  const isOperator = seesUpstreamCost(scope);
  const shown = requestRow(record, isOperator);
  await addCorrected(client, [shown], isOperator);
  const { position: first_position, ...row } = shown;
  const { events, hasAll } = await eventsOf(client, request, first_position, row.end_position);
  return {
    object: 'request',
    ...row,
    start_position: first_position,
    body_bytes: record.body_bytes,
    instance: record.instance,
    admitted_minute: record.admitted_minute === null ? null : timeOf(record.admitted_minute),
    terms_position: numberOf(record.terms_position),
    price_version: record.price_version,
    corrections: row.corrected === null ? [] : await readCorrections(client, request, isOperator),
    events: events.map((placed) => requestEvent(placed, isOperator)),
    has_all_events: hasAll,
    quotas:
      record.admitted_minute === null
        ? []
        : await quotasOf(client, row, {
            minute: record.admitted_minute,
            terms: numberOf(record.terms_position) ?? 0,
          }),
  };
}

/**
 * Its events in order. Positions of the first and last one are known; events between them, which extend its
 * hold, are searched only if the distance is small.
 */
async function eventsOf(
  client: ClientBase,
  request: string,
  first: number,
  last: number | null,
): Promise<{ events: Placed[]; hasAll: boolean }> {
  const end = last ?? (await readHead(client));
  const read = (from: number, to: number): Promise<Read[]> =>
    readRequest(client, request, { from, to }, REQUEST_DETAIL_EVENTS_MAX);
  const isNear = end - first <= REQUEST_DETAIL_LOOK_MAX;
  const rows = isNear
    ? await read(first, end)
    : [...(await read(first, first)), ...(last === null ? [] : await read(last, last))];
  const placed = rows.flatMap((row) => (row instanceof UnreadableEventError ? [] : [row]));
  // Events of an old request may be in the archive.
  const isThere = placed[0]?.position === first && (last === null || placed.at(-1)?.position === last);
  return { events: placed, hasAll: isNear && isThere && placed.length === rows.length };
}

const OF_THE_ROW = new Set(['request', 'account', 'key', 'model', 'route', 'end_user', 'session', 'tags']);

/** Leaves out fields that the row has already, and costs that the reader may not see. */
function requestEvent({ position, at, event }: Placed, isOperator: boolean): RequestEvent {
  const { type, ...fields } = isOperator || 'actor' in event ? event : withoutUpstreamCost(event);
  const own = Object.entries(fields).filter(([name]) => !OF_THE_ROW.has(name));
  return { position, at: at.toISOString(), type, ...Object.fromEntries(own) };
}

/**
 * The windows that it was charged to, in their current state: those with the minute of its admission, of the
 * quotas in force at its terms position.
 */
async function quotasOf(
  client: ClientBase,
  { account, key }: { account: string; key: string },
  { minute, terms }: { minute: number; terms: number },
): Promise<RequestQuota[]> {
  const kinds = Object.keys(WINDOW_KINDS) as WindowKind[];
  const starts = kinds.map((kind) => windowStart(kind, minute));
  const codes = kinds.map((kind) => WINDOW_KINDS[kind]);
  const wanted = sql<{ kind: number; start: number }>`unnest(${codes}::smallint[], ${starts}::integer[])`;
  const rows = await rowsOf(
    client,
    db
      .selectFrom('projection.quota_window as q')
      .innerJoin('projection.quota_terms as t', (join) =>
        join
          .onRef('t.subject', '=', 'q.subject')
          .onRef('t.meter', '=', 'q.meter')
          .onRef('t.window_kind', '=', 'q.window_kind')
          .onRef('t.reset_position', '=', 'q.reset_position'),
      )
      .innerJoin(wanted.as<'wanted'>(sql`wanted(kind, start)`), (join) =>
        join.onRef('q.window_kind', '=', 'wanted.kind').onRef('q.window_start', '=', 'wanted.start'),
      )
      .select(['q.subject', 'q.meter', 'q.window_kind', 'q.window_start', 'q.cap', 'q.used', 'q.held'])
      .where('q.subject', 'in', [holderName('account', account), holderName('key', key)])
      .where('t.position', '<=', String(terms))
      .where((eb) => eb.or([eb('t.until_position', 'is', null), eb('t.until_position', '>', String(terms))]))
      .orderBy('q.subject')
      .orderBy('q.meter')
      .orderBy('q.window_kind'),
  );
  return rows.flatMap(({ subject, meter, window_kind, window_start, cap, used, held }) => {
    const window = WINDOW_KIND_OF.get(window_kind);
    const of = METER_OF.get(meter);
    if (window === undefined || of === undefined) return [];
    return [
      {
        scope: parseSubject(subject).kind,
        meter: of,
        window,
        from: timeOf(window_start),
        to: window === 'lifetime' ? null : timeOf(windowEnd(window, window_start)),
        limit: Number(cap),
        used: Number(used),
        reserved: Number(held),
      },
    ];
  });
}

const timeOf = (minute: number): string => new Date(minute * 60_000).toISOString();
