import type { ClientBase } from 'pg';
import { EVENT_CODES } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { RequestOrderError } from '#db/fold/request.ts';
import { queryRange } from '#db/projections/page.ts';
import type { Cell } from '#db/schema/query.ts';
import type { Projection, Range } from '#db/projections/projection.ts';
import { partitionCopy } from '#db/projections/request-partitions.ts';

const ACCEPTED = EVENT_CODES['request.accepted'];
const SETTLED = EVENT_CODES['request.settled'];
const ABANDONED = EVENT_CODES['request.abandoned'];
const EXTENDED = EVENT_CODES['request.extended'];
const REJECTED = EVENT_CODES['request.rejected'];
const ENDED = `${SETTLED}, ${ABANDONED}`;

/**
 * Inserts one row per call. Most calls begin and end within a range that is not very short, and are
 * inserted in their final state. Events of calls of earlier ranges are returned, to be applied by
 * {@link CARRY_ON}.
 *
 * A call that is accepted twice, or ends twice, violates the key.
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
        input_tokens, cached_tokens, output_tokens, reasoning_tokens,
        first_byte_ms, duration_ms, price_version, rejected_count,
        status, end_reason, usage_source, attempt_count, retry_count, sse, account, key, model, upstream,
        error_code)
      select a.request, a.position, e.position, a.at, e.at,
          coalesce(h.hold_tokens, a.hold_tokens),
          case when h.request is null then a.hold_cost_microusd else h.hold_cost_microusd end,
          case when e.type = ${ABANDONED} then e.hold_cost_microusd else e.cost_microusd end,
          a.terms_position, a.instance, a.admitted_minute, a.body_bytes,
          e.input_tokens, e.cached_tokens, e.output_tokens, e.reasoning_tokens,
          e.first_byte_ms, e.duration_ms, e.price_version, null,
          e.status, e.end_reason, e.usage_source, e.attempt_count, a.retry_count, a.sse,
          a.account, a.key, a.model, e.upstream, null
        from event a
        left join ending e on e.request = a.request and e.position > a.position
        left join hold h on h.request = a.request and h.position > a.position
        where a.type = ${ACCEPTED}
      union all
      select request, position, position, at, at,
          null, null, null, null, instance, null, null,
          null, null, null, null, null, null, null, rejected_count,
          status, null, null, null, null, null, account, key, model, null, error_code
        from event where type = ${REJECTED}
      returning request, position, account, ended_at
  ),
  running as (
    insert into running_request (request, position, account)
      select request, position, account from begun where ended_at is null
  )
  select array_agg(position) from (
    select position from event l
      where type in (${ENDED}, ${EXTENDED})
        and not exists (select from event a
          where a.type = ${ACCEPTED} and a.request = l.request and a.position < l.position)
    union all
    select x.position from event x join ending e on e.request = x.request and e.position < x.position
      where x.type = ${EXTENDED}
  ) carried`;

/**
 * Applies ends and extensions to the rows of running calls. An upsert, because that uses the key
 * whatever the planner estimates; the rows that it would insert are calls that never began. Returns
 * the number of calls of the events, and the number of those that were running and end at most once,
 * after all other events.
 */
const CARRY_ON = `with carried as materialized (
    select * from daybook.log where shard = ${SHARD} and position = any($1::bigint[])
  ),
  call as (
    select request, min(position) as first_position,
        max(position) filter (where type in (${ENDED})) as end_position,
        max(position) filter (where type = ${EXTENDED}) as hold_position
      from carried group by request
      having count(*) filter (where type in (${ENDED})) <= 1
        and (max(position) filter (where type = ${EXTENDED})
          > max(position) filter (where type in (${ENDED}))) is not true
  ),
  updated as (
    insert into request as r (request, position, end_position, accepted_at, ended_at, instance, account, key,
        hold_tokens, hold_cost_microusd, cost_microusd,
        input_tokens, cached_tokens, output_tokens, reasoning_tokens,
        first_byte_ms, duration_ms, price_version,
        status, end_reason, usage_source, attempt_count, upstream)
      select c.request, c.first_position, c.end_position, f.at, e.at, f.instance, f.account, f.key,
          h.hold_tokens, h.hold_cost_microusd,
          case when e.type = ${ABANDONED} then e.hold_cost_microusd else e.cost_microusd end,
          e.input_tokens, e.cached_tokens, e.output_tokens, e.reasoning_tokens,
          e.first_byte_ms, e.duration_ms, e.price_version,
          e.status, e.end_reason, e.usage_source, e.attempt_count, e.upstream
        from call c
        join carried f on f.position = c.first_position
        left join carried e on e.position = c.end_position
        left join carried h on h.position = c.hold_position
    on conflict (request) do update set
        end_position = excluded.end_position, ended_at = excluded.ended_at,
        hold_tokens = coalesce(excluded.hold_tokens, r.hold_tokens),
        hold_cost_microusd = case when excluded.hold_tokens is null
          then r.hold_cost_microusd else excluded.hold_cost_microusd end,
        cost_microusd = excluded.cost_microusd,
        input_tokens = excluded.input_tokens, cached_tokens = excluded.cached_tokens,
        output_tokens = excluded.output_tokens, reasoning_tokens = excluded.reasoning_tokens,
        first_byte_ms = excluded.first_byte_ms, duration_ms = excluded.duration_ms,
        price_version = excluded.price_version,
        status = excluded.status, end_reason = excluded.end_reason, usage_source = excluded.usage_source,
        attempt_count = excluded.attempt_count, upstream = excluded.upstream
      where r.ended_at is null and r.position < excluded.position
      returning old.request, new.ended_at
  ),
  stopped as (
    delete from running_request
      where request = any (array(select request from updated where ended_at is not null))
  )
  select (select count(distinct request) from carried)::integer,
    (select count(request) from updated)::integer`;

/** The current state of each call: accepted, extended, ended or rejected. */
export const requests: Projection = {
  name: 'requests',
  tables: ['request', 'running_request'],
  kept: [{ table: 'request', time: 'ended_at' }],
  prepareCopy: partitionCopy,
  async apply(client: ClientBase, range: Range): Promise<void> {
    const begun = await queryRange<[Cell<'daybook.log', 'position'>[] | null]>(
      client,
      range,
      'requests',
      BEGIN,
    );
    const carried = begun.rows[0]?.[0] ?? null;
    if (carried === null) return;
    const { rows } = await client.query<[number, number]>({
      name: 'project_requests_carried',
      text: CARRY_ON,
      values: [carried],
      rowMode: 'array',
    });
    const [calls, updated] = rows[0] as [number, number];
    // An end without a beginning: the log is damaged, and an invented row would hide that. Running
    // calls always have a row, for retention deletes only ended ones.
    if (updated !== calls)
      throw new RequestOrderError(`${calls - updated} calls have events that can't follow earlier ones`);
  },
};
