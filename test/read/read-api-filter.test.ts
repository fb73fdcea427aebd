import * as fc from 'fast-check';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { END_REASONS, type EndReason, type RequestEvent } from '#db/events/events.ts';
import { uuidv7 } from '#db/ids.ts';
import { matches } from '#server/contract/filter.ts';
import { type RequestFilter, Outcome } from '#server/contract/requests.ts';
import { readCursor } from '#server/read/cursor.ts';
import { listRequests } from '#server/read/request-list.ts';
import type { Scope } from '#server/read/scope.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { accepted, connectAs, openLivingWriter, settled } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';

/** The filter of lists in SQL against the one of the feed in TypeScript, on the same requests. */

const ACCOUNTS = ['Account1', 'Account2'];
const KEYS: Record<string, string[]> = { Account1: ['Key00001', 'Key00002'], Account2: ['Key00003'] };
const MODELS = ['a', 'b', '@cf/c'];

let store: TestDatabase;
let client: Client;

beforeAll(async () => {
  store = await createDatabase();
  const writer = await openLivingWriter(store);
  const requests = fc.sample(oneRequest, { numRuns: 300, seed: 7 });
  for (const events of requests) await writer.append(events.slice(0, 1));
  await writer.append(requests.flatMap((events) => events.slice(1)));
  await writer[Symbol.asyncDispose]();
  await projectAll(store);
  client = await connectAs(store, 'relay');
});

afterAll(async () => {
  await client?.end();
  await store?.[Symbol.asyncDispose]();
});

const subject = fc
  .constantFrom(...ACCOUNTS)
  .chain((account) => fc.constantFrom(...(KEYS[account] as string[])).map((key) => ({ account, key })));
const status = fc.constantFrom(200, 403, 429, 499, 502);
const oneRequest: fc.Arbitrary<RequestEvent[]> = fc
  .record({
    subject,
    model: fc.constantFrom(...MODELS),
    status,
    end: fc.option(fc.constantFrom(...(Object.keys(END_REASONS) as EndReason[])), { freq: 6 }),
    isRefused: fc.integer({ max: 4, min: 0 }),
  })
  .map(({ subject: who, model, status: code, end, isRefused }) => {
    if (isRefused === 0)
      return [
        {
          type: 'request.rejected',
          route: '/v1/chat/completions',
          request: uuidv7(),
          ...who,
          error_code: 'insufficient_quota',
          status: code,
          rejected_count: 2,
        },
      ];
    const begun = accepted({ ...who, model });
    if (end === null) return [begun];
    const { request, account, key } = begun;
    return [
      begun,
      end === 'abandoned'
        ? {
            type: 'request.abandoned',
            request,
            account,
            key,
            model,
            end_reason: end,
            usage_source: 'none',
            hold_tokens: 5,
          }
        : settled(begun, { end_reason: end, status: code }),
    ];
  });

const anyFilter: fc.Arbitrary<RequestFilter> = fc
  .record(
    {
      account: fc.constantFrom(...ACCOUNTS, 'Account9'),
      key: fc.constantFrom(...Object.values(KEYS).flat()),
      model: fc.constantFrom(...MODELS, 'z'),
      outcome: fc.constantFrom(...Outcome.options, 'running' as const),
      status,
    },
    { requiredKeys: ['account', 'key', 'model', 'outcome', 'status'] },
  )
  // Two fields at most: with more hardly any request fits.
  .chain((filter) =>
    fc
      .subarray(Object.keys(filter) as (keyof RequestFilter)[], { maxLength: 2 })
      .map((fields) => Object.fromEntries(fields.map((field) => [field, filter[field]])) as RequestFilter),
  );
const anyScope: fc.Arbitrary<Scope> = fc.oneof(
  fc.constant({ account: null, key: null }),
  fc.constantFrom(...ACCOUNTS).map((account) => ({ account, key: null })),
  subject,
);

async function listAll(scope: Scope, filter: RequestFilter, limit: number, lookMax?: number) {
  const rows = [];
  for (let after = null; ;) {
    const page = await listRequests(client, {
      scope,
      filter,
      fromMs: 0,
      toMs: null,
      after,
      limit,
      ...(lookMax === undefined ? {} : { lookMax }),
    });
    expect(page.rows.length).toBeLessThanOrEqual(limit);
    rows.push(...page.rows);
    if (page.next === null) return rows;
    after = readCursor(page.next);
  }
}

test('Postgres and the feed apply the same filter, for every reader and page size', async () => {
  const all = await listAll({ account: null, key: null }, {}, 200);
  expect(all).toHaveLength(300);
  for (const outcome of [...Outcome.options, 'running'])
    expect(all.some((row) => row.outcome === outcome)).toBe(true);
  let found = 0;
  await fc.assert(
    fc.asyncProperty(
      anyScope,
      anyFilter,
      fc.constantFrom(3, 20, 200),
      fc.constantFrom(9, 40, 1_000),
      async (scope, filter, limit, lookMax) => {
        const expected = all.filter(
          (row) =>
            (scope.account === null || scope.account === row.account) &&
            (scope.key === null || scope.key === row.key) &&
            matches(filter, row),
        );
        found += expected.length;
        expect(await listAll(scope, filter, limit, lookMax)).toEqual(expected);
      },
    ),
    { numRuns: 80 },
  );
  expect(found).toBeGreaterThan(300);
});

test('a page is of the time that was asked for, to the millisecond', async () => {
  const all = await listAll({ account: null, key: null }, {}, 200);
  const [fromMs, toMs] = [
    Date.parse(all[200]?.accepted_at as string),
    Date.parse(all[40]?.accepted_at as string),
  ];
  const { rows } = await listRequests(client, {
    scope: { account: null, key: null },
    filter: {},
    fromMs,
    toMs,
    after: null,
    limit: 200,
  });
  expect(rows.map(({ request }) => request)).toEqual(
    all
      .filter(({ accepted_at: at }) => Date.parse(at) >= fromMs && Date.parse(at) < toMs)
      .map(({ request }) => request),
  );
});
