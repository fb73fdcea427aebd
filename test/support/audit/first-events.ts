import type { ClientBase } from 'pg';
import { type ColumnName, FIELDS } from '#db/log/columns.ts';

/** Fixed events for the beginning of a log, with their fields as PostgreSQL writes them. */

type Fields = Partial<Record<ColumnName, string>>;
const lineOf = (fields: Fields): string => `(${FIELDS.map(({ name }) => fields[name] ?? '').join()})`;

/** Appends a request that settled and one that was abandoned: three events. */
export async function appendFirstRequests(
  client: ClientBase,
  instance: number,
  batchNo: number,
): Promise<void> {
  const call = {
    request: '01900000-0000-7000-8000-000000000001',
    account: 'Account1',
    key: 'Key00001',
    model: String.raw`"a ""b"", \\c"`,
  };
  await client.query('select daybook.append(0::smallint, $1, $2, $3)', [
    instance,
    batchNo,
    [
      lineOf({
        ...call,
        type: '100',
        route: '1',
        sse: 't',
        body_bytes: '40',
        hold_tokens: '500',
        retry_count: '3',
      }),
      lineOf({
        ...call,
        type: '101',
        upstream: 'one',
        status: '200',
        end_reason: '1',
        usage_source: '1',
        input_tokens: '10',
        cache_read_tokens: '4',
        output_tokens: '20',
        reasoning_tokens: '0',
        attempt_count: '1',
        first_byte_ms: '5',
        duration_ms: '50',
      }),
      lineOf({
        type: '102',
        request: '01900000-0000-7000-8000-000000000002',
        account: 'Account2',
        key: 'Key00002',
        model: '""',
        hold_tokens: '9007199254740991',
        end_reason: '9',
        usage_source: '3',
      }),
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
    lineOf({
      type: String(type),
      account: 'Account1',
      stream: 'account/Account1',
      version: String(version + offset),
      body: `"${body}"`,
    });
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
