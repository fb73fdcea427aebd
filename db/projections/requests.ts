import type { ClientBase } from 'pg';
import { copyIn } from '#db/backup/copy.ts';
import { RequestOrderError } from '#db/fold/request.ts';
import { AT } from '#db/log/columns.ts';
import { begunRows, carriedRow, matchCalls, REQUEST_COLUMNS } from '#db/projections/page/calls.ts';
import type { EventPage } from '#db/projections/page/page.ts';
import type { Projection } from '#db/projections/projection.ts';
import { partitionCopy } from '#db/projections/request-partitions.ts';
import { compositeLines, copyText } from '#db/projections/page/rows-as-text.ts';

/** A call that is accepted twice, or that ends twice, violates the key. */
const BEGIN = `copy request (${REQUEST_COLUMNS.join(', ')}) from stdin`;

const RUN = `insert into running_request (request, position, account)
  select * from unnest($1::uuid[], $2::bigint[], $3::text[])`;

/**
 * Applies ends and extensions to the rows of running calls. An upsert, because that uses the key whatever the
 * planner estimates; the rows that it would insert are calls that never began. Returns the number of those
 * that were running: only the event that accepts a call has its `body_bytes`.
 */
const CARRY_ON = `with updated as (
    insert into request as r (${REQUEST_COLUMNS.join(', ')})
      select ${REQUEST_COLUMNS.map((name) => `(c.carried).${name}`).join(', ')}
        from (select line::request as carried from string_to_table($1, e'\\n') as line offset 0) c
    on conflict (request) do update set
        end_position = excluded.end_position, ended_at = excluded.ended_at,
        hold_tokens = coalesce(excluded.hold_tokens, r.hold_tokens),
        hold_cost_nanousd = case when excluded.hold_tokens is null
          then r.hold_cost_nanousd else excluded.hold_cost_nanousd end,
        cost_nanousd = excluded.cost_nanousd, upstream_cost_nanousd = excluded.upstream_cost_nanousd,
        input_tokens = excluded.input_tokens, cache_read_tokens = excluded.cache_read_tokens,
        cache_write_tokens = excluded.cache_write_tokens,
        output_tokens = excluded.output_tokens, reasoning_tokens = excluded.reasoning_tokens,
        first_byte_ms = excluded.first_byte_ms, duration_ms = excluded.duration_ms,
        price_version = excluded.price_version,
        status = excluded.status, end_reason = excluded.end_reason, usage_source = excluded.usage_source,
        attempt_count = excluded.attempt_count, upstream = excluded.upstream
      where r.ended_at is null and r.position < excluded.position
      returning r.request, r.ended_at, r.body_bytes
  ),
  stopped as (
    delete from running_request
      where request = any (array(select request from updated where ended_at is not null))
  )
  select count(body_bytes)::integer from updated`;

/** The current state of each call: accepted, extended, ended or rejected. */
export const requests: Projection = {
  name: 'requests',
  tables: ['request', 'running_request'],
  kept: [{ table: 'request', time: 'ended_at' }],
  prepareCopy: partitionCopy,
  async apply(client: ClientBase, { events }: EventPage): Promise<void> {
    const calls = matchCalls(events);
    const { begun, carried, rejected } = calls;
    if (begun.length + rejected.length > 0) await copyIn(client, BEGIN, copyText(begunRows(calls)));
    const running = begun.flatMap(({ accepted, end }) => (end === null ? [accepted] : []));
    if (running.length > 0)
      await client.query({
        name: 'project_requests_running',
        text: RUN,
        values: [
          running.map(({ cells }) => cells[AT.request]),
          running.map(({ position }) => position),
          running.map(({ cells }) => cells[AT.account]),
        ],
      });
    if (carried.length === 0) return;
    const { rows } = await client.query<[number]>({
      name: 'project_requests_carried',
      text: CARRY_ON,
      values: [compositeLines(carried.map(carriedRow))],
      rowMode: 'array',
    });
    const updated = rows[0]?.[0] as number;
    // An end without a beginning: the log is damaged, and an invented row would hide that. Running
    // calls always have a row, for retention deletes only ended ones.
    if (updated !== carried.length)
      throw new RequestOrderError(
        `${carried.length - updated} calls have events that can't follow earlier ones`,
      );
  },
};
