import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { END_REASONS, type EndReason } from '#db/events/endings.ts';
import type { RequestEvent } from '#db/events/events.ts';
import { uuidv7 } from '#db/ids.ts';
import { OUTCOME_OF } from '#db/projections/outcomes.ts';
import type { UsageFigures } from '#server/contract/usage.ts';
import { accepted, openLivingWriter, settled } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type ApiReader, readerWith } from '../support/reader.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/** `GET /v1/usage` against sums over the events, made here. */

let relay: TestRelay;
/** Two keys of one account; the second reads all of it. A stranger's usage is beside it. */
const keys: { id: string; reader: ApiReader }[] = [];
let account: string;
let stranger: ApiReader;
const events: RequestEvent[] = [];

beforeAll(async () => {
  relay = await startRelay();
  ({ id: account } = await relay.createAccount('=users'));
  for (const name of ['one', 'two']) {
    const { id, secret } = await relay.createKey({ account: '=users', name });
    keys.push({ id, reader: readerWith(relay.port, secret) });
  }
  await relay.control((control) =>
    control.restrictKey(keys[1]?.id as string, {
      set: { reads: 'account' },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  await relay.createAccount('others');
  const { secret } = await relay.createKey({ account: 'others' });
  stranger = readerWith(relay.port, secret);

  const writer = await openLivingWriter(relay.store);
  const reasons = Object.keys(END_REASONS) as EndReason[];
  for (let index = 0; index < 60; index++) {
    const call = accepted({
      account,
      key: keys[index % 2]?.id as string,
      model: ['=m-1', 'm-2', 'm-3'][index % 3] as string,
    });
    const { request, key, model } = call;
    const end_reason = reasons[index % reasons.length] as EndReason;
    const ending: RequestEvent =
      end_reason === 'abandoned'
        ? {
            type: 'request.abandoned',
            request,
            account,
            key,
            model,
            end_reason,
            usage_source: 'none',
            hold_tokens: 500,
            hold_cost_nanousd: 70,
          }
        : settled(call, {
            end_reason,
            input_tokens: index,
            output_tokens: 2 * index,
            ...(index % 5 === 0 ? {} : { cost_nanousd: index }),
            duration_ms: index,
          });
    events.push(call, ending);
  }
  events.push({
    type: 'request.rejected',
    route: '/v1/chat/completions',
    request: uuidv7(),
    account,
    key: keys[0]?.id as string,
    error_code: 'rate_limit_exceeded',
    status: 429,
    rejected_count: 9,
  });
  await writer.append(events);
  await writer[Symbol.asyncDispose]();
  await projectAll(relay.store);
});

afterAll(() => relay?.[Symbol.asyncDispose]());

/** What the events of some key, or with some model, come to. */
function sumsOf(
  isMeant: (event: { key: string; model?: string | undefined }) => boolean,
): Partial<UsageFigures> {
  const sums = {
    requests: 0,
    completed: 0,
    client_disconnected: 0,
    upstream_failed: 0,
    cut_short: 0,
    relay_failed: 0,
    refused: 0,
    input_tokens: 0,
    output_tokens: 0,
    abandoned_tokens: 0,
    cost_nanousd: '0',
    unpriced: 0,
  };
  for (const event of events) {
    if (!isMeant(event)) continue;
    if (event.type === 'request.rejected') sums.refused += event.rejected_count;
    if (event.type !== 'request.settled' && event.type !== 'request.abandoned') continue;
    sums.requests += 1;
    sums[OUTCOME_OF[event.end_reason]] += 1;
    const cost = event.type === 'request.settled' ? event.cost_nanousd : event.hold_cost_nanousd;
    if (cost === undefined) sums.unpriced += 1;
    sums.cost_nanousd = String(BigInt(sums.cost_nanousd) + BigInt(cost ?? 0));
    if (event.type === 'request.abandoned') sums.abandoned_tokens += event.hold_tokens;
    else {
      sums.input_tokens += event.input_tokens;
      sums.output_tokens += event.output_tokens;
    }
  }
  return sums;
}

const reader = (index: number): ApiReader => (keys[index] as (typeof keys)[number]).reader;
const keyId = (index: number): string => (keys[index] as (typeof keys)[number]).id;
/** So that a run across midnight, or the end of an hour, has all its events in the report. */
const SINCE = new Date(Date.now() - 2 * 3_600_000).toISOString();

describe('GET /v1/usage', () => {
  test('sums the calls of a key, or of its account, exactly as in the log', async () => {
    for (const unit of ['', '&bucket=minute', '&bucket=hour', '&bucket=day']) {
      expect((await reader(0).usage(`?from=${SINCE}${unit}`)).totals).toMatchObject(
        sumsOf(({ key }) => key === keyId(0)),
      );
      expect((await reader(1).usage(`?from=${SINCE}${unit}`)).totals).toMatchObject(sumsOf(() => true));
      expect((await reader(1).usage(`?from=${SINCE}${unit}&key=${keyId(0)}`)).totals).toMatchObject(
        sumsOf(({ key }) => key === keyId(0)),
      );
      expect((await reader(1).usage(`?from=${SINCE}${unit}&model=m-2`)).totals).toMatchObject(
        sumsOf(({ model }) => model === 'm-2'),
      );
      for (const query of ['', `&account=${account}`, `&key=${keyId(0)}`]) {
        expect((await stranger.usage(`?from=${SINCE}${unit}${query}`)).totals).toMatchObject({
          requests: 0,
          refused: 0,
          cost_nanousd: '0',
          duration_p50_ms: null,
        });
      }
    }
  });

  test('takes them apart by key, by model and by time, without losing any', async () => {
    const byKey = await reader(1).usage(`?from=${SINCE}&group_by=key`);
    expect(byKey.rows?.map(({ key }) => key).toSorted()).toEqual([keyId(0), keyId(1)].toSorted());
    for (const row of byKey.rows ?? []) expect(row).toMatchObject(sumsOf(({ key }) => key === row.key));
    const byBoth = await reader(1).usage(`?from=${SINCE}&group_by=model,key&bucket=minute`);
    expect(byBoth).toMatchObject({
      bucket: 'minute',
      group_by: ['model', 'key'],
      rows_omitted: 0,
      totals: sumsOf(() => true),
    });
    for (const key of [keyId(0), keyId(1)]) {
      for (const model of ['=m-1', 'm-2', 'm-3']) {
        const rows = (byBoth.rows ?? []).filter((row) => row.key === key && row.model === model);
        expect(rows.reduce((sum, { requests }) => sum + requests, 0)).toBe(
          sumsOf((event) => event.key === key && event.model === model).requests,
        );
        for (const { from } of rows) expect(from).toMatch(/:00\.000Z$/);
      }
    }
    expect((await reader(0).usage(`?from=${SINCE}`)).rows).toBeUndefined();
  });

  test('reports latencies from the histograms, and the time of its figures', async () => {
    const usage = await reader(1).usage(`?from=${SINCE}`);
    // All calls took less than 60 ms, half of them less than 30; a bucket ends at 25, 50 and 100.
    expect(usage.totals.duration_p50_ms).toBeGreaterThan(25);
    expect(usage.totals.duration_p50_ms).toBeLessThan(50);
    expect(usage.totals.duration_p95_ms).toBeGreaterThan(50);
    expect(usage.totals.duration_p95_ms).toBeLessThanOrEqual(100);
    // Of groups only where they are asked for.
    const [plain, asked] = [
      await reader(1).usage(`?from=${SINCE}&group_by=key`),
      await reader(1).usage(`?from=${SINCE}&group_by=key&percentiles=true`),
    ];
    expect([plain.totals, ...(plain.rows ?? [])].some((figures) => 'duration_p50_ms' in figures)).toBe(false);
    expect(asked.totals).toEqual(usage.totals);
    for (const row of asked.rows ?? []) expect(row.duration_p50_ms).toBeGreaterThan(25);
    expect(usage).toMatchObject({
      object: 'usage',
      scope: { account, key: null },
      account: { id: account },
      key: { id: keyId(1) },
      limits: [],
      behind: 0,
      parked: 0,
    });
    expect(usage.position).toBeGreaterThanOrEqual(events.length);
    expect(Date.parse(usage.as_of as string)).toBeGreaterThan(Date.parse(SINCE));
  });

  test('is CSV on request, with the same figures and no formula', async () => {
    const json = await reader(1).usage(`?from=${SINCE}&group_by=model`);
    for (const answer of [
      await reader(1).get(`/v1/usage?from=${SINCE}&group_by=model&format=csv`),
      await reader(1).get(`/v1/usage?from=${SINCE}&group_by=model`, { accept: 'text/csv' }),
    ]) {
      expect([answer.status, answer.headers.get('content-type'), answer.headers.get('x-position')]).toEqual([
        200,
        'text/csv; charset=utf-8; header=present',
        String(json.position),
      ]);
      const [head, ...lines] = answer.text
        .trimEnd()
        .split('\r\n')
        .map((line) => line.split(','));
      expect(head?.slice(0, 3)).toEqual(['model', 'requests', 'completed']);
      expect(lines.map(([model, requests]) => [model, requests])).toEqual(
        json.rows?.map(({ model, requests }) => [model === '=m-1' ? "'=m-1" : model, String(requests)]),
      );
    }
    expect((await reader(1).get(`/v1/usage?from=${SINCE}&format=csv`)).text.split('\r\n')).toHaveLength(3);
  });
});
