import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { batchOf, type EventFilter, lookThroughControl } from '#db/log/lookup.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';
import { EVENTS_CONTROL_LOOK_MAX, EVENTS_SKIP_ROWS_MAX } from '#server/dashboard/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';

/**
 * The newest position at or below `upTo` that can have an event of an account or a key; the positions between
 * needn't be scanned. Uses the request table if it has all requests of the subject and they are few.
 * @param asOf freshness of the table in this transaction.
 * @returns null if unknown.
 */
export async function skipTo(
  client: ClientBase,
  filter: EventFilter,
  upTo: number,
  asOf: Freshness,
): Promise<number | null> {
  const { account, key } = filter;
  if ((account === undefined && key === undefined) || asOf.parked > 0 || asOf.position < upTo) return null;
  const last = String(upTo);
  const atLast = batchOf(upTo).select('at');
  let requests = db
    .selectFrom('projection.request')
    .select(['position', 'end_position'])
    .where('position', '<=', last)
    .where('accepted_at', '<=', atLast)
    .orderBy('accepted_at', 'desc')
    .orderBy('position', 'desc')
    .limit(EVENTS_SKIP_ROWS_MAX + 1);
  if (account !== undefined) requests = requests.where('account', '=', account);
  if (key !== undefined) requests = requests.where('key', '=', key);
  const found = await onlyRowOf(
    client,
    db
      .with('subject', () => requests)
      .selectFrom('subject')
      .select(({ fn, selectFrom }) => [
        fn.countAll<string>().as('seen'),
        fn.max('end_position').as('newest'),
        sql<boolean | null>`bool_or(end_position is null or end_position > ${last})`.as('is_open'),
        selectFrom('daybook.projection')
          .select(sql<boolean>`kept_from > '-infinity'`.as('is_cut'))
          .where('name', '=', 'requests')
          .as('is_cut'),
      ]),
  );
  // A call still running at that position may have events anywhere between. Of the requests that retention
  // deleted, none ended after one that is left.
  if (
    Number(found.seen) > EVENTS_SKIP_ROWS_MAX ||
    found.is_open === true ||
    (found.newest === null && found.is_cut === true)
  )
    return null;
  const control = await lookThroughControl(client, filter, { after: 0, upTo }, 'newest', {
    limit: 1,
    lookMax: EVENTS_CONTROL_LOOK_MAX,
  });
  return Math.max(Number(found.newest ?? 0), control.rows[0]?.position ?? control.lookedTo - 1);
}
