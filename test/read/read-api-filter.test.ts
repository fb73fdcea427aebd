import * as fc from 'fast-check';
import type { Response } from 'express';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Month, parseMonth, Statements } from '#db/audit/replay/statement.ts';
import type { Placed } from '#db/events/events.ts';
import { FILTER_FIELDS, matchesCall, STATUS_CLASSES } from '#db/fold/call-filter.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { OUTCOME_OF, OUTCOMES } from '#db/projections/outcomes.ts';
import type { LiveMessage } from '#server/contract/frames.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { UsageQuery, UsageReport } from '#server/contract/usage.ts';
import { audienceOf } from '#server/feed/audience.ts';
import { LivePage } from '#server/feed/page.ts';
import type { WithReply } from '#server/http/respond.ts';
import { readCursor } from '#server/read/cursor.ts';
import { exportRequests } from '#server/read/request-export.ts';
import { listRequests } from '#server/read/request-list.ts';
import { planUsage, type UsagePlan } from '#server/read/usage-plan.ts';
import { reportUsage, usageCsv } from '#server/read/usage-report.ts';
import { checkRequests } from '#server/read/usage-requests.ts';
import { ReadStore } from '#server/read/store.ts';
import type { Scope } from '#server/read/scope.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs, openLivingWriter, readLog } from '../support/log/log-writer.ts';
import { HistoryWriter } from '../support/projections/arbitrary-history.ts';
import {
  anyHistory,
  END_USERS,
  MODELS,
  SESSIONS,
  TAGS,
  UPSTREAMS,
} from '../support/projections/history-steps.ts';
import { projectAll } from '../support/projections/projected.ts';
import { rowAfter } from '../../web/features/requests/live-rows.ts';

/** One filter: of lists, exports and the live feed, against a reference that reads the log's events. */

const HISTORIES = 16;

let store: TestDatabase;
let client: Client;
let reads: ReadStore;
let log: Placed[];
let accounts: string[];
let keys: string[];

beforeAll(async () => {
  store = await createDatabase();
  await using writer = await openLivingWriter(store);
  for (const steps of fc.sample(anyHistory, { numRuns: HISTORIES }))
    await new HistoryWriter(writer).write(steps);
  await projectAll(store);
  log = await readLog(store);
  client = await connectAs(store, 'relay');
  reads = new ReadStore(store.config('relay'));
  const calls = log.flatMap(({ event }) => ('request' in event && 'key' in event ? [event] : []));
  accounts = [...new Set(calls.map(({ account }) => account))];
  keys = [...new Set(calls.map(({ key }) => key))];
});

afterAll(async () => {
  await reads?.close();
  await client?.end();
  await store?.[Symbol.asyncDispose]();
});

const ALL: Scope = { account: null, key: null };
const pick = fc.nat(1_000);
/** The values that each field is filtered by. */
const valuesOf = (): Required<{ [Field in keyof RequestFilter]: readonly RequestFilter[Field][] }> => ({
  account: accounts,
  key: keys,
  model: [...MODELS, 'unknown'],
  route: RELAYED_ROUTES,
  upstream: UPSTREAMS,
  end_user: [...END_USERS, 'EndUser999999999'],
  session: SESSIONS,
  tag: TAGS,
  outcome: [...OUTCOMES, 'running'],
  status: [200, 403, 429, 499, 502, ...STATUS_CLASSES],
  error_code: ['rate_limit_exceeded', 'model_not_permitted'],
});
const anyFilter = fc
  .record(
    Object.fromEntries(FILTER_FIELDS.map((field) => [field, pick])) as Record<
      keyof RequestFilter,
      typeof pick
    >,
  )
  .map((indexes): RequestFilter => {
    const values = valuesOf();
    return Object.fromEntries(
      FILTER_FIELDS.map((field) => [field, values[field][indexes[field] % values[field].length]]),
    );
  });
/** Two fields at most: with more hardly any request matches. */
const fewFields: fc.Arbitrary<RequestFilter> = anyFilter.chain((filter) =>
  fc
    .subarray(Object.keys(filter) as (keyof RequestFilter)[], { maxLength: 2 })
    .map((fields) => Object.fromEntries(fields.map((field) => [field, filter[field]])) as RequestFilter),
);
const anyScope: fc.Arbitrary<Scope> = fc.oneof(
  fc.constant(ALL),
  pick.map((index) => ({ account: accounts[index % accounts.length] as string, key: null })),
);

type Call = Record<keyof RequestFilter, unknown> & { request: string; tags: readonly string[] };

/** The calls of the log after its last event, by their own fields: said otherwise than the code says it. */
function callsOf(events: readonly Placed[]): Call[] {
  const calls = new Map<string, Call>();
  for (const { event } of events) {
    if (event.type === 'request.accepted' || event.type === 'request.rejected') {
      const { request, account, key, model, route, end_user, session, tags = [] } = event;
      const isRejected = event.type === 'request.rejected';
      const rejection = isRejected ? { status: event.status, error_code: event.error_code } : {};
      const call = { request, account, key, model, route, end_user, session, tags, ...rejection };
      calls.set(request, {
        ...({ upstream: undefined, status: undefined, error_code: undefined, tag: undefined } as const),
        ...call,
        outcome: isRejected ? 'refused' : 'running',
      });
    } else if (event.type === 'request.settled' || event.type === 'request.abandoned') {
      const call = calls.get(event.request) as Call;
      call.outcome = OUTCOME_OF[event.end_reason];
      if (event.type === 'request.settled')
        Object.assign(call, { status: event.status, upstream: event.upstream });
    }
  }
  return [...calls.values()];
}

const isMeant = (call: Call, scope: Scope, filter: RequestFilter): boolean =>
  (scope.account === null || scope.account === call.account) &&
  Object.entries(filter).every(([field, value]) => {
    if (field === 'tag') return call.tags.includes(value as string);
    if (field === 'status' && typeof value === 'string')
      return typeof call.status === 'number' && `${call.status}`.startsWith(value.slice(0, 1));
    return call[field as keyof RequestFilter] === value;
  });

async function listAll(scope: Scope, filter: RequestFilter, limit: number, lookMax?: number) {
  const rows = [];
  const wanted = {
    scope,
    filter,
    fromMs: 0,
    toMs: null,
    limit,
    ...(lookMax === undefined ? {} : { lookMax }),
  };
  for (let after = null; ;) {
    const page = await listRequests(client, { ...wanted, after });
    expect(page.rows.length).toBeLessThanOrEqual(limit);
    rows.push(...page.rows);
    if (page.next === null) return rows;
    after = readCursor(page.next);
  }
}

/** The first column of the export. */
async function exported(scope: Scope, filter: RequestFilter): Promise<string[]> {
  const server = createServer((_request, response) => {
    (response as unknown as WithReply).reply = { requestId: 'one', extraHeaders: [] };
    const wanted = { scope, filter, fromMs: 0, toMs: null, after: null, limit: 50 };
    void exportRequests(reads, wanted, response as unknown as Response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    const reply = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const [head, ...lines] = (await reply.text()).trimEnd().split('\r\n');
    expect(head?.includes('upstream_cost_nanousd')).toBe(scope.account === null);
    return lines.map((line) => line.slice(0, 36));
  } finally {
    server.close();
  }
}

/** Fields that change with the end of a call: the feed sends its beginning where that matched. */
const OF_ENDS = ['upstream', 'outcome', 'status', 'error_code'] as const;

/** The requests that a page of the dashboard lists after the log was replayed through the live feed. */
function replayed(scope: Scope, filter: RequestFilter): string[] {
  const audience = audienceOf(scope, filter);
  const rows = new Map<string, NonNullable<ReturnType<typeof rowAfter>>>();
  for (let from = 0; from < log.length; from += 7)
    for (const bytes of new LivePage(log.slice(from, from + 7), () => null).messagesFor(audience, 0)) {
      const { frames } = JSON.parse(bytes.toString()) as LiveMessage;
      if (scope.account !== null) expect(bytes.toString()).not.toMatch(/upstream_cost/);
      for (const frame of frames) {
        if (!('request' in frame)) continue;
        const row = rowAfter(frame, rows.get(frame.request));
        if (row !== null) rows.set(frame.request, row);
      }
    }
  if (OF_ENDS.every((field) => filter[field] === undefined)) return [...rows.keys()];
  return [...rows.values()].filter((row) => matchesCall(filter, row)).map(({ request }) => request);
}

test('lists, exports, the feed, usage, statements and the log agree on any filter', async () => {
  const calls = callsOf(log);
  expect(new Set(calls.map(({ outcome }) => outcome)).size).toBeGreaterThan(4);
  const namesOf = (scope: Scope, filter: RequestFilter): string[] =>
    calls.flatMap((call) => (isMeant(call, scope, filter) ? [call.request] : [])).toSorted();
  for (const [field, values] of Object.entries(valuesOf()))
    for (const value of values) {
      const filter: RequestFilter = { [field]: value };
      const listed = await listAll(ALL, filter, 200, 1_000);
      const places = {
        list: listed.map(({ request }) => request),
        export: await exported(ALL, filter),
        feed: replayed(ALL, filter),
      };
      for (const [place, requests] of Object.entries(places))
        expect(requests.toSorted(), `${place} by ${field} ${value}`).toEqual(namesOf(ALL, filter));
      if (value === 'running') continue;
      const expected = figuresOf(calls.filter((call) => isMeant(call, ALL, filter)));
      expect(await reportedFigures(filter), `usage by ${field} ${value}`).toEqual(expected);
      expect(statedFigures(filter), `statement by ${field} ${value}`).toEqual(expected);
    }
  let found = 0;
  await fc.assert(
    fc.asyncProperty(
      anyScope,
      fewFields,
      fc.constantFrom(3, 20, 200),
      fc.constantFrom(9, 40, 1_000),
      async (scope, filter, limit, lookMax) => {
        const expected = namesOf(scope, filter);
        found += expected.length;
        const listed = await listAll(scope, filter, limit, lookMax);
        expect(listed.map(({ request }) => request).toSorted()).toEqual(expected);
        for (const row of listed) expect('upstream_cost_nanousd' in row).toBe(scope.account === null);
        expect((await exported(scope, filter)).toSorted()).toEqual(expected);
        expect(replayed(scope, filter).toSorted()).toEqual(expected);
      },
    ),
    { numRuns: 40 },
  );
  expect(found).toBeGreaterThan(100);
});

type Figures = { requests: number; refused: number; cost: string };

/** The figures of calls, from the events of the log. */
function figuresOf(calls: readonly Call[]): Figures {
  const ids = new Set(calls.map(({ request }) => request));
  const figures = { requests: 0, refused: 0, cost: 0n };
  for (const { event } of log) {
    if (!('request' in event) || !ids.has(event.request)) continue;
    if (event.type === 'request.rejected') figures.refused += event.rejected_count;
    if (event.type === 'usage.adjusted') figures.cost += BigInt(event.cost_nanousd ?? 0);
    if (event.type !== 'request.settled' && event.type !== 'request.abandoned') continue;
    figures.requests++;
    figures.cost += BigInt(
      (event.type === 'request.settled' ? event.cost_nanousd : event.hold_cost_nanousd) ?? 0,
    );
  }
  return { ...figures, cost: String(figures.cost) };
}

/** The same of a usage report as CSV. */
async function reportedFigures(filter: RequestFilter): Promise<Figures> {
  const { source, figures } = await reported(ALL, filter as UsageQuery, null);
  expect(source).toBe(FILTER_FIELDS.slice(0, 3).some((field) => field in filter) ? 'usage' : 'requests');
  const [names = [], cells = []] = usageCsv(figures as UsageReport)
    .trimEnd()
    .split('\r\n')
    .map((line) => line.split(','));
  const cell = (name: string): string => cells[names.indexOf(name)] as string;
  return { requests: Number(cell('requests')), refused: Number(cell('refused')), cost: cell('cost_nanousd') };
}

/** The same of the statements of all accounts. */
function statedFigures(filter: RequestFilter): Figures {
  const sum = { requests: 0, refused: 0, cost: 0n };
  for (const month of new Set(log.map(({ at }) => at.toISOString().slice(0, 7)))) {
    const statements = new Statements(parseMonth(month) as Month, filter);
    for (const placed of log) statements.add(placed);
    for (const account of statements.accounts) {
      const { requests, refused, cost_nanousd: cost } = statements.of(account);
      sum.requests += requests;
      sum.refused += refused;
      sum.cost += cost;
    }
  }
  return { ...sum, cost: String(sum.cost) };
}

const RANGE = { from: new Date(Date.now() - 2 * 3_600_000), to: new Date(Date.now() + 3_600_000) };

/** The report of a query by the tables of sums, or by the requests themselves. */
async function reported(scope: Scope, query: UsageQuery, table: 'request' | null) {
  const plan = planUsage({ ...RANGE, ...query }, scope, Date.now());
  if (typeof plan === 'string') throw new Error(plan);
  const {
    source,
    from: _,
    to: __,
    ...figures
  } = await reportUsage(
    client,
    scope,
    query,
    table === null ? plan : { ...plan, table, unit: 'minute', column: 'ended_at' },
  );
  return { source, figures };
}

test('reports by the tables of sums and by the requests themselves are equal', async () => {
  const fields = fc.subarray(['account', 'key', 'model'] as const);
  const anyQuery = fc.tuple(anyFilter, fields, fields, fc.boolean());
  await fc.assert(
    fc.asyncProperty(anyScope, anyQuery, async (scope, [filter, filtered, group_by, percentiles]) => {
      const asked = Object.fromEntries(filtered.map((field) => [field, filter[field]]));
      const query: UsageQuery = { ...asked, group_by, percentiles, bucket: 'hour' };
      const [tables, requests] = [
        await reported(scope, query, null),
        await reported(scope, query, 'request'),
      ];
      expect([tables.source, requests.source]).toEqual(['usage', 'requests']);
      expect(requests.figures).toEqual(tables.figures);
    }),
    { numRuns: 25 },
  );
});

test('a report by any filter and group has the figures of the calls that match', async () => {
  const calls = callsOf(log);
  const cost = new Map(
    log.flatMap(({ event }) =>
      event.type === 'request.settled'
        ? [[event.request, event.cost_nanousd ?? 0]]
        : event.type === 'request.abandoned'
          ? [[event.request, event.hold_cost_nanousd ?? 0]]
          : [],
    ),
  );
  const isEnded = ({ outcome }: Call): boolean => outcome !== 'running' && outcome !== 'refused';
  await fc.assert(
    fc.asyncProperty(anyScope, fewFields, fc.constantFrom(...FILTER_FIELDS), async (scope, filter, group) => {
      fc.pre(filter.outcome !== 'running');
      const query = { ...filter, outcome: filter.outcome, group_by: [group] } as UsageQuery;
      const { figures } = await reported(scope, query, 'request');
      const ended = calls.filter((call) => isEnded(call) && isMeant(call, scope, filter));
      expect(figures.totals.requests).toBe(ended.length);
      const added = log.flatMap(({ event }) =>
        event.type === 'usage.adjusted' && ended.some(({ request }) => request === event.request)
          ? [event.cost_nanousd ?? 0]
          : [],
      );
      expect(figures.totals.corrections).toBe(added.length);
      expect(figures.totals.correction_cost_nanousd).toBe(String(added.reduce((sum, each) => sum + each, 0)));
      expect(figures.totals.cost_nanousd).toBe(
        String(
          [...ended.map(({ request }) => cost.get(request) ?? 0), ...added].reduce(
            (sum, each) => sum + each,
            0,
          ),
        ),
      );
      const groupsOf = (call: Call): readonly unknown[] =>
        group !== 'tag' ? [call[group] ?? ''] : call.tags.length === 0 ? [''] : call.tags;
      const counts = new Map<string, number>();
      for (const call of ended)
        for (const name of groupsOf(call)) counts.set(String(name), (counts.get(String(name)) ?? 0) + 1);
      const rows = (figures.rows ?? []).filter(({ requests }) => requests > 0);
      expect(new Map(rows.map((row) => [row[group], row.requests]))).toEqual(counts);
    }),
    { numRuns: 60 },
  );
});

test('a report by requests is refused where rows were deleted or are too many', async () => {
  const query: UsageQuery = { route: '/v1/responses' };
  const plan = planUsage({ ...RANGE, ...query }, ALL, Date.now()) as UsagePlan;
  expect(await checkRequests(client, ALL, query, plan)).toBeNull();
  expect(await checkRequests(client, ALL, query, plan, 3)).toMatch('More than 3 requests');
  await using worker = {
    client: await connectAs(store, 'worker'),
    [Symbol.asyncDispose]: () => worker.client.end(),
  };
  await worker.client.query("update daybook.projection set kept_from = now() where name = 'requests'");
  expect(await checkRequests(client, ALL, query, plan)).toMatch(/there is usage from \d{4}-\d\d-\d\d on/);
  await worker.client.query("update daybook.projection set kept_from = '-infinity' where name = 'requests'");
});

test('a page is of the time that was asked for, to the millisecond', async () => {
  const all = await listAll(ALL, {}, 200);
  const [fromMs, toMs] = [
    Date.parse(all[Math.floor(all.length / 2)]?.accepted_at as string),
    Date.parse(all[Math.floor(all.length / 8)]?.accepted_at as string),
  ];
  const { rows } = await listRequests(client, {
    scope: ALL,
    filter: {},
    fromMs,
    toMs,
    after: null,
    limit: 200,
  });
  expect(rows.map(({ request }) => request)).toEqual(
    all
      .filter(({ accepted_at: at }) => Date.parse(at) >= fromMs && Date.parse(at) < toMs)
      .slice(0, 200)
      .map(({ request }) => request),
  );
});
