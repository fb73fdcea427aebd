import type { ClientBase, QueryResult } from 'pg';
import { SHARD } from '#db/log/append.ts';
import type { Range } from '#db/projections/projection.ts';

/**
 * Runs the statements of projections on a range of the log. A statement is written once, over a
 * table `event` that is the range, and run in one of two forms: the few events of a live log are
 * materialized once, many times a second; the many events of a backlog are scanned in place.
 *
 * No plan may depend on the planner's row estimates. A log or copy that has just grown has no
 * statistics, so a nested loop over many rows would be planned as one over few, and take minutes;
 * see {@link PLANNING}. A statement that must use a key says so by `on conflict`, or by an array of keys.
 */

/**
 * Settings of the transactions in which projections are applied. Each statement is planned once for
 * a connection: planning takes a few milliseconds, ten times as long as running it on a live page.
 * Sorts and hashes of a large page fit into `work_mem`. JIT compilation costs more than it saves.
 */
export const PLANNING = [
  'set local plan_cache_mode = force_generic_plan',
  'set local enable_nestloop = off',
  "set local work_mem = '32MB'",
  'set local jit = off',
].join('; ');

/** More than the range of a projector that keeps up. Positions are dense, so a range has no more events. */
const FEW_EVENTS = 512;

const RANGE = `select * from daybook.log where shard = ${SHARD} and position > $1 and position <= $2`;
// The limit never applies. It informs the planner, which doesn't know the parameters' values, that rows are
// few.
const FEW = `with event as materialized (${RANGE} order by position limit ${FEW_EVENTS})`;
const MANY = `with event as not materialized (${RANGE})`;

/**
 * Runs a statement on the events of a range.
 * @param name of the prepared statement.
 * @param statement follows `with event as (…)`; its own parameters begin at $3.
 */
export async function queryRange<Row extends unknown[]>(
  client: ClientBase,
  { after, upTo }: Range,
  name: string,
  statement: string,
  values: readonly unknown[] = [],
): Promise<QueryResult<Row>> {
  const isFew = upTo - after <= FEW_EVENTS;
  return client.query<Row>({
    name: `project_${name}_${isFew ? 'few' : 'many'}`,
    text: `${isFew ? FEW : MANY}${statement}`,
    values: [after, upTo, ...values],
    rowMode: 'array',
  });
}
