import type { ClientBase, QueryResult } from 'pg';
import { SHARD } from '#db/log/append.ts';
import type { Range } from '#db/projections/projection.ts';

/**
 * How the folds ask for their part of the log. A statement is written once, over a table `event`
 * that is the range, and run in one of two ways:
 *
 * - the few events of a live log, many times a second: read once, planned once per connection. A
 *   plan costs a few milliseconds, ten times what it takes to run it;
 * - the many of a backlog: read where they lie as often as needed, planned each time by how many
 *   they are.
 */

/** What a projector that keeps up reads at a time, and then some. Positions are dense, so no more events than these. */
const FEW_EVENTS = 512;

const RANGE = `select * from daybook.log where shard = ${SHARD} and position > $1 and position <= $2`;
// The limit never cuts. It tells the planner, who can't know a parameter's value, that they are few.
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
  // On a log without statistics, or with old ones, many look like few to the planner, and a loop
  // over them within another takes minutes.
  if (!isFew) await client.query('set local enable_nestloop = off');
  const result = await client.query<Row>({
    ...(isFew ? { name: `project_${name}` } : {}),
    text: `${isFew ? FEW : MANY}${statement}`,
    values: [after, upTo, ...values],
    rowMode: 'array',
  });
  if (!isFew) await client.query('set local enable_nestloop = on');
  return result;
}
