import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { uuidv7 } from '#db/ids.ts';
import type { EventOf } from '#db/events/events.ts';
import { ErrorReportQuery, type ErrorRow } from '#server/contract/reads/error-report.ts';
import { errorRange, reportErrors } from '#server/read/error-report.ts';
import type { Scope } from '#server/read/scope.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { accepted, connectAs, openLivingWriter, settled } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';

/** The report of errors and rejections. */

const ALL: Scope = { account: null, key: null };
const OTHER = { account: 'Account2', key: 'Key00002' };
const rejected = (changes: Partial<EventOf<'request.rejected'>>): EventOf<'request.rejected'> => ({
  type: 'request.rejected',
  route: '/v1/chat/completions',
  request: uuidv7(),
  account: 'Account1',
  key: 'Key00001',
  status: 429,
  error_code: 'rate_limit_exceeded',
  rejected_count: 1,
  ...changes,
});

let store: TestDatabase;
let client: Client;
const newest = rejected({ model: 'm' });
const failed = accepted({ model: 'slow-1', ...OTHER });

beforeAll(async () => {
  store = await createDatabase();
  await using writer = await openLivingWriter(store);
  await writer.append([rejected({ rejected_count: 5, model: 'm' })]);
  const [fine, left] = [accepted(), accepted()];
  await writer.append([fine, left, failed]);
  await writer.append([
    settled(fine),
    settled(left, { end_reason: 'client_disconnected' }),
    settled(failed, { end_reason: 'upstream_error', status: 502, upstream: 'two' }),
  ]);
  await writer.append([
    rejected({ ...OTHER, status: 403, error_code: 'model_not_permitted', model: 'gpt-5' }),
  ]);
  await writer.append([newest]);
  await projectAll(store);
  client = await connectAs(store, 'relay');
});
afterAll(async () => {
  await client?.end();
  await store?.[Symbol.asyncDispose]();
});

const report = async (query: object = {}, scope = ALL, lookMax?: number) => {
  const parsed = ErrorReportQuery.parse(query);
  const range = errorRange(parsed, Date.now());
  if (!('fromMs' in range)) throw range;
  return reportErrors(client, scope, parsed, range, lookMax);
};
const shown = (rows: readonly ErrorRow[]): string[] =>
  rows.map(({ kind, code, group, requests }) => `${kind} ${code} ${group ?? '-'} ${requests}`);

test('errors are counted by their code, with the newest request as a sample', async () => {
  const { data, rows_omitted, from, scanned_from } = await report();
  expect(shown(data)).toEqual([
    'rejected rate_limit_exceeded - 6',
    'rejected model_not_permitted - 1',
    'failed upstream_error - 1',
  ]);
  expect(data[0]).toMatchObject({ request: newest.request, status: 429, outcome: 'refused' });
  expect(data[2]).toMatchObject({ request: failed.request, status: 502, outcome: 'upstream_failed' });
  expect(Date.parse(data[0]?.last_at ?? '')).toBeGreaterThan(Date.parse(data[0]?.first_at ?? ''));
  expect([rows_omitted, scanned_from]).toEqual([0, from]);
});

test('errors are grouped by model, key and upstream, and filtered as requests are', async () => {
  expect(shown((await report({ group_by: 'model' })).data)).toEqual([
    'rejected rate_limit_exceeded m 6',
    'rejected model_not_permitted gpt-5 1',
    'failed upstream_error slow-1 1',
  ]);
  expect(shown((await report({ group_by: 'upstream', outcome: 'upstream_failed' })).data)).toEqual([
    'failed upstream_error two 1',
  ]);
  expect(shown((await report({ group_by: 'route', error_code: 'model_not_permitted' })).data)).toEqual([
    'rejected model_not_permitted /v1/chat/completions 1',
  ]);
  const [byKey] = (await report({ group_by: 'key', key: OTHER.key })).data;
  expect(byKey).toMatchObject({ group: OTHER.key, account: OTHER.account });
});

test('a reader gets errors of his own account alone', async () => {
  expect(shown((await report({}, { account: 'Account1', key: null })).data)).toEqual([
    'rejected rate_limit_exceeded - 6',
  ]);
  expect((await report({ account: OTHER.account }, { account: 'Account1', key: null })).data).toEqual([]);
});

test('the report says how far back it looked where there are too many requests', async () => {
  const { data, from, scanned_from } = await report({}, ALL, 1);
  expect(shown(data)).toEqual(['rejected rate_limit_exceeded - 1']);
  expect(Date.parse(scanned_from)).toBeGreaterThan(Date.parse(from));
  expect((await report({ model: 'none' })).data).toEqual([]);
});
