import type { Random } from '../chaos/random.ts';
import { RESERVED_NAME } from './reserved-names.ts';
import { type Attack, oneOf, type Table } from './trial.ts';
import type { World } from './world.ts';

/** The deleted rows of a table, and the position that a report must name. */
type Deletion = { table: Table; what: string; where: string; expected: string };

const ALL = 'true';
const FIRST_SIGNER = '(select min(position) from daybook.control_event where type = 80)';
/** Where each stream ends, and where each name was reserved. */
const STREAM_ENDS = `select stream, max(position) as position from daybook.control_event group by stream
  union all select ${RESERVED_NAME} as name, max(position)
    from daybook.control_event where ${RESERVED_NAME} is not null group by 1`;
const FIRST_EVENT = '(select min(last_position - event_count + 1) from daybook.log)';
/** The third of the batches whose events are in the database. */
const THIRD =
  'last_position = (select last_position from daybook.log order by last_position offset 2 limit 1)';

const DELETIONS: readonly Deletion[] = [
  { table: 'checkpoint', what: 'all rows', where: ALL, expected: FIRST_SIGNER },
  {
    table: 'checkpoint',
    what: 'the newest row',
    where: 'size = (select max(size) from daybook.checkpoint)',
    expected: '(select max(size) from daybook.checkpoint)',
  },
  { table: 'log_node', what: 'all rows', where: ALL, expected: '1' },
  {
    table: 'log_node',
    what: 'the rows from the third one on',
    where: 'level = 1 and number >= 2',
    expected: '513',
  },
  { table: 'log', what: 'all rows', where: ALL, expected: FIRST_EVENT },
  {
    table: 'log',
    what: 'the third row',
    where: THIRD,
    expected: `(select last_position - event_count + 1 from daybook.log where ${THIRD})`,
  },
  { table: 'log_batch', what: 'all rows', where: ALL, expected: '1' },
  {
    table: 'log_batch',
    what: 'the row of the third batch',
    where: THIRD,
    expected: `(select last_position - event_count + 1 from daybook.log where ${THIRD})`,
  },
  {
    table: 'stream_head',
    what: 'all rows',
    where: ALL,
    expected: `(select min(s.position) from (${STREAM_ENDS}) s join daybook.stream_head h using (stream))`,
  },
  {
    table: 'log_partition',
    what: 'the rows of attached partitions',
    where: 'archived_at is null',
    expected: '(select min(first_position) from daybook.log_partition where archived_at is null)',
  },
  {
    table: 'log_partition',
    what: 'the newest row',
    where: 'number = (select max(number) from daybook.log_partition)',
    expected: '(select max(first_position) from daybook.log_partition)',
  },
  {
    table: 'control_event',
    what: 'all rows',
    where: ALL,
    expected: '(select min(position) from daybook.control_event)',
  },
  {
    table: 'control_event',
    what: 'the newest row',
    where: 'position = (select max(position) from daybook.control_event)',
    expected: '(select max(position) from daybook.control_event)',
  },
  {
    table: 'correction',
    what: 'all rows',
    where: ALL,
    expected: '(select min(position) from daybook.correction)',
  },
  {
    table: 'correction',
    what: 'the newest row',
    where: 'position = (select max(position) from daybook.correction)',
    expected: '(select max(position) from daybook.correction)',
  },
];

/** Rows of one table are deleted, and nothing else. */
export async function deleteRows({ superuser }: World, random: Random): Promise<Attack> {
  const { table, what, where, expected } = oneOf(random, DELETIONS);
  const { rows } = await superuser.query<{ position: number }>(`select ${expected}::float8 as position`);
  await superuser.query(`delete from daybook.${table} where ${where}`);
  return {
    kind: `deleted rows of ${table}`,
    what: `${what} of ${table}`,
    expected: rows[0]?.position as number,
    table,
  };
}
