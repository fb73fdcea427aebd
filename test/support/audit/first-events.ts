import type { ClientBase } from 'pg';

/** Fixed events for the beginning of a log, with their lines byte by byte. */

/** Appends a request that settled and one that was abandoned: three events. */
export async function appendFirstRequests(
  client: ClientBase,
  instance: number,
  batchNo: number,
): Promise<void> {
  const call = String.raw`01900000-0000-7000-8000-000000000001,Account1,Key00001,"a ""b"", \\c"`;
  const other = '01900000-0000-7000-8000-000000000002,Account2,Key00002';
  await client.query('select daybook.append(0::smallint, $1, $2, $3)', [
    instance,
    batchNo,
    [
      `(100,${call},,t,40,500,3,,,,,,,,,,,,,,,,,,,,)`,
      `(101,${call},one,,,,,200,1,1,10,4,20,0,1,5,50,,,,,,,,,,)`,
      `(102,${other},"",,,,9007199254740991,,,9,3,,,,,,,,,,,,,,,,,)`,
    ],
  ]);
}

/** Appends three events of an account, the first of which takes `version` in its stream. */
export async function appendFirstControls(
  client: ClientBase,
  instance: number,
  batchNo: number,
  version: number,
): Promise<void> {
  const line = (type: number, offset: number, body: string): string =>
    `(${type},,Account1${','.repeat(18)}account/Account1,${version + offset},"${body}",,,,,,,)`;
  await client.query('select daybook.append_control(0::smallint, $1, $2, $3, $4)', [
    instance,
    batchNo,
    [
      line(1, 0, String.raw`{""name"":""caf\\u00e9"",""actor"":""command-line""}`),
      line(2, 1, '{""actor"":""command-line""}'),
      line(3, 2, '{""actor"":""command-line""}'),
    ],
    [version === 1 ? 'account-name/caf\u00e9' : null, null, null],
  ]);
}
