import type { ClientBase } from 'pg';
import type { Placed } from '#db/events/events.ts';
import { WINDOW_KIND_OF, WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METER_OF } from '#db/limits/meters.ts';
import { type Read, readHead, readRequest, UnreadableEventError } from '#db/log/read.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';
import { STORY_EVENTS_MAX, STORY_LOOK_MAX } from '#server/read/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';
import type { RequestDetail, RequestEvent, RequestQuota } from '#server/contract/requests.ts';
import type { Source } from '#server/read/store.ts';
import { numberOf, REQUEST_COLUMNS, type RequestRecord, requestRow } from '#server/read/request-row.ts';
import type { Scope } from '#server/read/scope.ts';

export const REQUEST_DETAIL: Source = {
  projection: 'requests',
  tables: ['request', 'quota_window', 'quota_terms'],
};

type Record = RequestRecord & {
  body_bytes: number | null;
  instance: number;
  admitted_minute: number | null;
  terms_position: string | null;
  price_version: number | null;
};

/**
 * All that is known of one request: its row, its events from the log, and how the quotas stand that
 * it was charged to.
 * @returns null where it is unknown, or not for this reader to see.
 */
export async function readRequestDetail(
  client: ClientBase,
  scope: Scope,
  request: string,
): Promise<Omit<RequestDetail, keyof Freshness> | null> {
  const { rows } = await client.query<Record>(
    `select ${REQUEST_COLUMNS}, body_bytes, instance, admitted_minute, terms_position, price_version
      from projection.request
      where request = $1 and account = coalesce($2, account) and key = coalesce($3, key)`,
    [request, scope.account, scope.key],
  );
  const record = rows[0];
  if (record === undefined) return null;
  const { position: first_position, ...row } = requestRow(record);
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
    events,
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
 * Its events in their order. Where they begin and end is known; what lies between, which are growing
 * holds, is looked for only where that is not far.
 */
async function eventsOf(
  client: ClientBase,
  request: string,
  first: number,
  last: number | null,
): Promise<{ events: RequestEvent[]; hasAll: boolean }> {
  const end = last ?? (await readHead(client));
  const read = (from: number, to: number): Promise<Read[]> =>
    readRequest(client, request, { from, to }, STORY_EVENTS_MAX);
  const isNear = end - first <= STORY_LOOK_MAX;
  const rows = isNear
    ? await read(first, end)
    : [...(await read(first, first)), ...(last === null ? [] : await read(last, last))];
  const placed = rows.flatMap((row) => (row instanceof UnreadableEventError ? [] : [row]));
  // An old one's may be in the archive.
  const isThere = placed[0]?.position === first && (last === null || placed.at(-1)?.position === last);
  return { events: placed.map(requestEvent), hasAll: isNear && isThere && placed.length === rows.length };
}

/** What the row says already, and how the log says whose it is, is not told again with each event. */
function requestEvent({ position, at, event }: Placed): RequestEvent {
  const { type, ...fields } = event;
  const told = Object.entries(fields).filter(
    ([name]) => !['request', 'account', 'key', 'model'].includes(name),
  );
  return { position, at: at.toISOString(), type, ...Object.fromEntries(told) };
}

type QuotaRecord = {
  subject: string;
  meter: number;
  window_kind: number;
  window_start: number;
  cap: string;
  used: string;
  held: string;
};

/**
 * The windows that it was charged to, as they stand now: those with the minute of its admission, of
 * the account's and the key's quotas that were in force at the position of its terms.
 */
async function quotasOf(
  client: ClientBase,
  { account, key }: { account: string; key: string },
  { minute, terms }: { minute: number; terms: number },
): Promise<RequestQuota[]> {
  const kinds = Object.keys(WINDOW_KINDS) as WindowKind[];
  const { rows } = await client.query<QuotaRecord>(
    `select subject, meter, window_kind, q.window_start, q.cap, q.used, q.held
      from projection.quota_window q
      join projection.quota_terms t using (subject, meter, window_kind, reset_position)
      join unnest($2::smallint[], $3::integer[]) as wanted(kind, start) on window_kind = wanted.kind and q.window_start = wanted.start
      where subject = any($1) and t.position <= $4 and (t.until_position is null or t.until_position > $4)
      order by subject, meter, window_kind`,
    [
      [`account/${account}`, `key/${key}`],
      kinds.map((kind) => WINDOW_KINDS[kind]),
      kinds.map((kind) => windowStart(kind, minute)),
      terms,
    ],
  );
  return rows.flatMap(({ subject, meter, window_kind, window_start, cap, used, held }) => {
    const window = WINDOW_KIND_OF.get(window_kind);
    const of = METER_OF.get(meter);
    if (window === undefined || of === undefined) return [];
    return [
      {
        scope: subject.startsWith('key/') ? ('key' as const) : ('account' as const),
        meter: of,
        window,
        from: timeOf(window_start),
        to: timeOf(windowEnd(window, window_start)),
        limit: Number(cap),
        used: Number(used),
        reserved: Number(held),
      },
    ];
  });
}

const timeOf = (minute: number): string => new Date(minute * 60_000).toISOString();
