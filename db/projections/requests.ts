import type { ClientBase } from 'pg';
import { EVENT_CODES } from '#db/events.ts';
import { SHARD } from '#db/log/append.ts';
import { RequestOrderError } from '#db/fold/request.ts';
import { queryRange } from '#db/projections/page.ts';
import type { Projection, Range } from '#db/projections/projection.ts';

const ACCEPTED = EVENT_CODES['request.accepted'];
const SETTLED = EVENT_CODES['request.settled'];
const ABANDONED = EVENT_CODES['request.abandoned'];
const EXTENDED = EVENT_CODES['request.extended'];
const REFUSED = EVENT_CODES['request.refused'];
const ENDED = `${SETTLED}, ${ABANDONED}`;

/**
 * One row for each call. Most begin and end within a range that is not very short: those are
 * inserted as they are in the end. What belongs to calls of earlier ranges is returned, to be
 * brought to their rows by {@link CARRY_ON}.
 *
 * A call that is accepted twice, or ends twice, breaks the key.
 */
const BEGIN = `,
  ending as (select * from event where type in (${ENDED})),
  hold as (
    select distinct on (x.request) x.request, x.position, x.hold_tokens, x.hold_cost_microusd
      from event x left join ending e on e.request = x.request
      where x.type = ${EXTENDED} and (e.position is null or x.position < e.position)
      order by x.request, x.position desc
  ),
  begun as (
    insert into request (request, position, end_position, accepted_at, ended_at,
        hold_tokens, hold_cost_microusd, cost_microusd, terms_position, instance, admitted_minute, body_bytes,
        input_tokens, cached_tokens, output_tokens, reasoning_tokens, first_byte_ms, duration_ms, price_version, refused_count,
        status, end_reason, usage_source, attempts, retry_count, sse, account, key, model, upstream, refusal)
      select a.request, a.position, e.position, a.at, e.at,
          coalesce(h.hold_tokens, a.hold_tokens), case when h.request is null then a.hold_cost_microusd else h.hold_cost_microusd end,
          case when e.type = ${ABANDONED} then e.hold_cost_microusd else e.cost_microusd end,
          a.terms_position, a.instance, a.admitted_minute, a.body_bytes,
          e.input_tokens, e.cached_tokens, e.output_tokens, e.reasoning_tokens, e.first_byte_ms, e.duration_ms, e.price_version, null,
          e.status, e.end_reason, e.usage_source, e.attempts, a.retry_count, a.sse, a.account, a.key, a.model, e.upstream, null
        from event a
        left join ending e on e.request = a.request and e.position > a.position
        left join hold h on h.request = a.request and h.position > a.position
        where a.type = ${ACCEPTED}
      union all
      select request, position, position, at, at,
          null, null, null, null, instance, null, null,
          null, null, null, null, null, null, null, refused_count,
          status, null, null, null, null, null, account, key, model, null, refusal
        from event where type = ${REFUSED}
      returning request, position, account, ended_at
  ),
  running as (
    insert into running_request (request, position, account) select request, position, account from begun where ended_at is null
  )
  select array_agg(position) from (
    select position from event l
      where type in (${ENDED}, ${EXTENDED})
        and not exists (select from event a where a.type = ${ACCEPTED} and a.request = l.request and a.position < l.position)
    union all
    select x.position from event x join ending e on e.request = x.request and e.position < x.position where x.type = ${EXTENDED}
  ) carried`;

/**
 * Brings endings and holds to the rows of running calls. Tells how many calls the events are of, and
 * how many of those were running and end at most once, after all else.
 */
const CARRY_ON = `with carried as materialized (
    select * from daybook.log where shard = ${SHARD} and position = any($1::bigint[])
  ),
  call as (
    select request, min(position) as position,
        max(position) filter (where type in (${ENDED})) as end_position,
        max(position) filter (where type = ${EXTENDED}) as hold_position,
        count(*) filter (where type in (${ENDED})) as endings
      from carried group by request
  ),
  updated as (
    update request r set
        end_position = e.position, ended_at = e.at,
        hold_tokens = coalesce(h.hold_tokens, r.hold_tokens),
        hold_cost_microusd = case when h.request is null then r.hold_cost_microusd else h.hold_cost_microusd end,
        cost_microusd = case when e.type = ${ABANDONED} then e.hold_cost_microusd else e.cost_microusd end,
        input_tokens = e.input_tokens, cached_tokens = e.cached_tokens,
        output_tokens = e.output_tokens, reasoning_tokens = e.reasoning_tokens,
        first_byte_ms = e.first_byte_ms, duration_ms = e.duration_ms, price_version = e.price_version,
        status = e.status, end_reason = e.end_reason, usage_source = e.usage_source, attempts = e.attempts, upstream = e.upstream
      from call c
      left join carried e on e.position = c.end_position
      left join carried h on h.position = c.hold_position
      where r.request = c.request and r.position < c.position and r.end_position is null
        and c.endings <= 1 and (c.end_position is null or c.hold_position is null or c.hold_position < c.end_position)
      returning r.request, r.ended_at
  ),
  stopped as (
    delete from running_request g using updated u where u.ended_at is not null and g.request = u.request
  )
  select (select count(*) from call)::integer, (select count(*) from updated)::integer`;

/** The current state of each call: accepted, given more to spend, ended or refused. */
export const requests: Projection = {
  name: 'requests',
  tables: ['request', 'running_request'],
  kept: { table: 'request', time: 'ended_at' },
  async apply(client: ClientBase, range: Range): Promise<void> {
    const begun = await queryRange<[string[] | null]>(client, range, 'requests', BEGIN);
    const carried = begun.rows[0]?.[0] ?? null;
    if (carried === null) return;
    const { rows } = await client.query<[number, number]>({ name: 'project_requests_carried', text: CARRY_ON, values: [carried], rowMode: 'array' });
    const [calls, updated] = rows[0] as [number, number];
    // An ending without a beginning: the log is damaged, and a row made up for it would hide that.
    // Running calls are always there, for retention takes only those that have ended.
    if (updated !== calls) throw new RequestOrderError(`${calls - updated} calls have events that can't follow what came before`);
  },
};
