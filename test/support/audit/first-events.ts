import type { ClientBase } from 'pg';

/** Fixed events for the beginning of a log, appended by calls that pass only the first arguments. */

/** Appends a request that settled and one that was abandoned: three events. */
export async function appendFirstRequests(
  client: ClientBase,
  instance: number,
  batchNo: number,
): Promise<void> {
  await client.query(
    `select daybook.append(0::smallint, $1, $2, array[100, 101, 102]::smallint[],
      array['01900000-0000-7000-8000-000000000001',
        '01900000-0000-7000-8000-000000000001', '01900000-0000-7000-8000-000000000002']::uuid[],
      array['Account1', 'Account1', 'Account2'], array['Key00001', 'Key00001',
        'Key00002'], array['a "b", \\c', 'a "b", \\c', ''],
      array[null, 'one', null], array[true, null, null], array[40, null, null], array[500,
        null, 9007199254740991],
      array[3, null, null]::smallint[], array[null, 200, null]::smallint[], array[null, 1, 9]::smallint[],
      array[null, 1, 3]::smallint[], array[null, 10, null]::integer[], array[null, 4, null]::integer[],
      array[null, 20, null]::integer[], array[null, 0, null]::integer[], array[null, 1, null]::smallint[],
      array[null, 5, null]::integer[], array[null, 50, null]::integer[])`,
    [instance, batchNo],
  );
}

/** Appends three events of an account, the first of which takes `version` in its stream. */
export async function appendFirstControls(
  client: ClientBase,
  instance: number,
  batchNo: number,
  version: number,
): Promise<void> {
  await client.query(
    `select daybook.append(0::smallint, $1, $2, array[1, 2, 3]::smallint[],
      null, array_fill('Account1'::text, array[3]),
      null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
      array_fill('account/Account1'::text, array[3]), array[$3::integer, $3 + 1, $3 + 2],
      array['{"name":"caf\\u00e9","actor":"command-line"}',
        '{"actor":"command-line"}', '{"actor":"command-line"}'],
      case when $3 = 1 then array['account-name/caf\u00e9', null, null] end)`,
    [instance, batchNo, version],
  );
}
