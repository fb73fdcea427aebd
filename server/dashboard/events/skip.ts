import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { type EventFilter, lookThroughControl } from '#db/log/lookup.ts';
import { EVENTS_CONTROL_LOOK_MAX, EVENTS_SKIP_ROWS_MAX } from '#server/dashboard/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';

type Found = { seen: string; newest: string | null; is_open: boolean | null; is_cut: boolean };

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
  const values: unknown[] = [SHARD, upTo, EVENTS_SKIP_ROWS_MAX + 1];
  const subject = [
    ...(account === undefined ? [] : [`account = $${values.push(account)}`]),
    ...(key === undefined ? [] : [`key = $${values.push(key)}`]),
  ].join(' and ');
  const { rows } = await client.query<Found>(
    `with subject as (
        select position, end_position from projection.request
          where ${subject} and position <= $2
            and accepted_at <= (select at from daybook.log where shard = $1 and position = $2)
          order by accepted_at desc, position desc limit $3)
      select count(*) as seen, max(end_position) as newest,
          bool_or(end_position is null or end_position > $2) as is_open,
          (select kept_from > '-infinity' from daybook.projection where name = 'requests') as is_cut
        from subject`,
    values,
  );
  const [found] = rows;
  // A call still running at that position may have events anywhere between. Of the requests that retention
  // deleted, none ended after one that is left.
  if (
    !found ||
    Number(found.seen) > EVENTS_SKIP_ROWS_MAX ||
    found.is_open === true ||
    (found.newest === null && found.is_cut)
  )
    return null;
  const control = await lookThroughControl(client, filter, { after: 0, upTo }, 'newest', {
    limit: 1,
    lookMax: EVENTS_CONTROL_LOOK_MAX,
  });
  return Math.max(Number(found.newest ?? 0), control.rows[0]?.position ?? control.lookedTo - 1);
}
