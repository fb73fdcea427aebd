import type { ClientBase, QueryResult } from 'pg';
import { SHARD } from '#db/log/append.ts';
import type { Range } from '#db/projections/projection.ts';

/**
 * How the folds ask for their part of the log. A statement is written once, over a table `event`
 * that is the range, and run in one of two ways: the few events of a live log, many times a second,
 * are read once; the many of a backlog are read where they lie, as often as needed.
 *
 * No plan rests on what Postgres believes of sizes. A log or a copy that has just grown has no
 * statistics, so that many look like few, and a loop over them within another takes minutes; see
 * {@link PLANNING}. What must go by a key says so by `on conflict`, or by an array of keys.
 */

/**
 * Settings of the transactions in which projections are applied. Each statement is planned once for
 * a connection: a plan costs a few milliseconds, ten times what it takes to run it on a live page.
 * Sorts and hashes of a large page fit into the memory. No compiler pays for itself in them.
 */
export const PLANNING =
  "set local plan_cache_mode = force_generic_plan; set local enable_nestloop = off; set local work_mem = '32MB'; set local jit = off";

/**
 * What a projector that keeps up reads at a time, and then some. Positions are dense, so no more events than
 * these.
 */
const FEW_EVENTS = 512;

const RANGE = `select * from daybook.log where shard = ${SHARD} and position > $1 and position <= $2`;
// The limit never cuts. It tells the planner, who doesn't know a parameter's value, that they are few.
const FEW = `with event as materialized (${RANGE} order by position limit ${FEW_EVENTS})`;
const MANY = `with event as not materialized (${RANGE})`;

/**
 * Runs a statement on the events of a range.
 * @param name of the statement, for its plan.
 * @param statement what follows `with event as (…)`; values of its own begin at $3.
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
