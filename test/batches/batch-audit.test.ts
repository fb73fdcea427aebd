import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { clientOf, create, inputOf, requestsOf, upload } from '../support/batches/input.ts';
import { usageOfLine } from '../support/batches/answers.ts';
import { openRequests } from '../support/faults.ts';
import { projectAll } from '../support/projections/projected.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { commandsOf } from '../support/upstream/upstreams-live.ts';

/** Every reader of the log counts the lines of batches once, and to the nano-dollar. */

const MODEL = 'gpt-batch';
const NANO = 1_000_000_000;
const BATCH_PRICE = { input: 3 * NANO, output: 7 * NANO };
const LINES = 12;

let upstream: ScriptedUpstream;
let relay: TestRelay;
let charges: { request: string; cost: number }[];

const costOf = (number: number): number => {
  const { prompt, completion } = usageOfLine(number);
  return (prompt * BATCH_PRICE.input + completion * BATCH_PRICE.output) / 1_000_000;
};

beforeAll(async () => {
  upstream = await startUpstream();
  const routes = ['/v1/chat/completions'];
  relay = await startRelay({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, routes }] });
  const quota = { meter: 'cost_nanousd', window: 'month', limit: NANO, enforcement: 'hard' } as const;
  await relay.control(async (control) => {
    await control.setPrice(MODEL, {
      base: { input: 6 * NANO, output: 14 * NANO },
      rules: [{ when: { service_tier: 'batch' }, rate: BATCH_PRICE }],
    });
    await control.overrideTerms('first', { quotas: [quota] }, 'keep');
  });
  const client = clientOf(relay.baseUrl, relay.key);
  for (const fault of ['shuffled', 'duplicates', 'expired']) {
    const file = await upload(client, inputOf(requestsOf(LINES), MODEL));
    await create(client, file.id, { fault });
  }
  const log = await relay.waitFor((events) => events.length > 0 && openRequests(events).length === 0);
  const settled = log.flatMap(({ event }) => (event.type === 'request.settled' ? [event] : []));
  charges = settled.map(({ request, cost_nanousd }: EventOf<'request.settled'>) => ({
    request,
    cost: cost_nanousd ?? 0,
  }));
  await projectAll(relay.store);
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const all = Array.from({ length: LINES }, (_, number) => costOf(number));
const sum = (costs: readonly number[]): number => costs.reduce((total, cost) => total + cost, 0);
const TOTAL = 2 * sum(all) + sum(all.slice(0, LINES / 2));

const get = async (path: string): Promise<Record<string, unknown>> => {
  const reply = await fetch(`${relay.baseUrl}${path}`, { headers: { authorization: `Bearer ${relay.key}` } });
  expect(reply.status).toBe(200);
  return (await reply.json()) as Record<string, unknown>;
};

test('the log has one ending for each line, with the charges of the batch price', () => {
  expect(charges).toHaveLength(3 * LINES);
  expect(new Set(charges.map(({ request }) => request)).size).toBe(3 * LINES);
  expect(sum(charges.map(({ cost }) => cost))).toBe(TOTAL);
});

test('usage, requests and limits count each line', async () => {
  const { totals, limits } = (await get('/usage')) as {
    totals: { requests: number; cost_nanousd: string };
    limits: { used: number }[];
  };
  expect(totals).toMatchObject({ requests: 3 * LINES, cost_nanousd: String(TOTAL) });
  expect(limits[0]?.used).toBe(TOTAL);
  const { data } = (await get('/requests?limit=100')) as { data: { cost_nanousd: number }[] };
  expect(data).toHaveLength(3 * LINES);
  expect(sum(data.map(({ cost_nanousd }) => cost_nanousd))).toBe(TOTAL);
});

test('a line is a request with its events, which name its batch', async () => {
  const { events } = (await get(`/requests/${charges[0]?.request}`)) as {
    events: { type: string; batch?: string; service_tier?: string }[];
  };
  expect(events.map(({ type }) => type)).toEqual(['request.accepted', 'request.settled']);
  expect(events[0]?.batch).toMatch(/^[0-9a-f-]{36}$/);
  expect(events[1]?.service_tier).toBe('batch');
});

test('replay and statement agree with the charges, and a repricing changes none', async () => {
  const { json } = commandsOf(relay);
  expect(await json('audit', 'replay')).toMatchObject({ faults: [] });
  const month = new Date().toISOString().slice(0, 7);
  const { total } = await json<{ total: Record<string, unknown> }>(
    ...(['audit', 'statement', '--all', '--month', month] as const),
  );
  expect(total).toMatchObject({ is_equal: true });
  expect(JSON.stringify(total)).toContain(String(TOTAL));
  const day = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();
  const period = ['--from', day(-1), '--to', day(1)];
  const repriced = await json<{ total: object }>('price', 'reprice', ...period, '--dry-run');
  expect(repriced.total).toMatchObject({ changed: 0, before_nanousd: String(TOTAL) });
});

test('projections equal the log', async () => {
  const { daybook } = commandsOf(relay);
  expect(await daybook('audit', 'diff')).toMatchObject({ code: 0, stderr: '' });
});
