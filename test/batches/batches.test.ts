import { afterAll, beforeAll, expect, test } from 'vitest';
import type OpenAI from 'openai';
import { APIError } from 'openai';
import type { EventOf, Placed } from '#db/events/events.ts';
import { openSession, type TestDatabase } from '../support/database.ts';
import {
  clientOf,
  create,
  inputOf,
  type InputRequest,
  requestsOf,
  upload,
} from '../support/batches/input.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { scrape } from '../support/telemetry/scrape.ts';
import { miscounted } from '../support/telemetry/compare-with-log.ts';
import { usageOfLine } from '../support/batches/answers.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Batches: admitted as a whole, and settled line by line when their output appears. */

const MODEL = 'gpt-batch';
const NANO = 1_000_000_000;
/** Of a million tokens, in nano-dollars. */
const BATCH_PRICE = { input: NANO, output: 4 * NANO };

let upstream: ScriptedUpstream;
let relay: TestRelay;
let client: OpenAI;
let stranger: OpenAI;

beforeAll(async () => {
  upstream = await startUpstream();
  const routes = ['/v1/chat/completions', '/v1/embeddings'];
  relay = await startRelay({
    upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, routes }],
    env: { METRICS_PORT: '0' },
  });
  await relay.control((control) =>
    control.setPrice(MODEL, {
      base: { input: 2 * NANO, output: 8 * NANO },
      rules: [{ when: { service_tier: 'batch' }, rate: BATCH_PRICE }],
    }),
  );
  client = clientOf(relay.baseUrl, relay.key);
  await relay.createAccount('stranger');
  stranger = clientOf(relay.baseUrl, (await relay.createKey({ account: 'stranger' })).secret);
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** What the lines of a batch are in the log. */
function linesOf(
  log: readonly Placed[],
  count: number,
): {
  accepted: EventOf<'request.accepted'>[];
  settled: EventOf<'request.settled'>[];
  abandoned: EventOf<'request.abandoned'>[];
} {
  const accepted = log.flatMap(({ event }) =>
    event.type === 'request.accepted' && event.batch !== undefined ? [event] : [],
  );
  const newest = accepted.at(-1)?.batch;
  const own = accepted.filter(({ batch }) => batch === newest);
  expect(own).toHaveLength(count);
  const ids = new Set(own.map(({ request }) => request));
  const of = <T extends 'request.settled' | 'request.abandoned'>(type: T): EventOf<T>[] =>
    log.flatMap(({ event }) =>
      event.type === type && ids.has(event.request) ? [event as unknown as EventOf<T>] : [],
    );
  return { accepted: own, settled: of('request.settled'), abandoned: of('request.abandoned') };
}

/** The lines of the newest batch once each has an ending. */
async function endedLines(count: number): Promise<ReturnType<typeof linesOf>> {
  const log = await relay.waitFor((events) => {
    const { settled, abandoned } = linesOf(events, count);
    return settled.length + abandoned.length >= count;
  });
  const lines = linesOf(log, count);
  const ended = [...lines.settled, ...lines.abandoned].map(({ request }) => request);
  expect(new Set(ended).size).toBe(count);
  expect(ended).toHaveLength(count);
  return lines;
}

async function begin(
  requests: readonly InputRequest[],
  metadata: Record<string, string> = {},
  by = client,
): Promise<OpenAI.Batch> {
  const file = await upload(by, inputOf(requests, MODEL));
  return create(by, file.id, metadata);
}

const refusal = async (promise: Promise<unknown>): Promise<APIError> => {
  const error: unknown = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(APIError);
  return error as APIError;
};

async function query<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
  const session = await openSession((relay.store as TestDatabase).config('owner'));
  try {
    return (await session.query<Row>(text, values)).rows;
  } finally {
    await session.end();
  }
}

/** A key of a new account with a quota, and what is charged to it. */
async function limited(name: string, quota: object): Promise<{ key: OpenAI; used: () => Promise<number> }> {
  const { id } = await relay.createAccount(name);
  const { secret } = await relay.createKey({ account: name });
  await relay.control((control) => control.overrideTerms(name, { quotas: [quota as never] }, 'keep'));
  return {
    key: clientOf(relay.baseUrl, secret),
    async used() {
      const rows = await query<{ used: string }>(
        `select used + overdrawn + adjusted as used from daybook.allowance where subject = $1`,
        [`account/${id}`],
      );
      return Number(rows[0]?.used ?? 0);
    },
  };
}

const chargeOf = (number: number): number => {
  const { prompt, completion } = usageOfLine(number);
  return (prompt * BATCH_PRICE.input + completion * BATCH_PRICE.output) / 1_000_000;
};

test('a batch is created, followed, and each line is charged once at the batch price', async () => {
  const made = await begin(requestsOf(7));
  expect(made).toMatchObject({ object: 'batch', status: 'validating' });
  const { accepted, settled } = await endedLines(7);
  expect(accepted.every(({ hold_tokens }) => hold_tokens > 0)).toBe(true);
  expect(settled).toHaveLength(7);
  const tokens = ({ input_tokens, output_tokens, cost_nanousd }: EventOf<'request.settled'>) => ({
    ...{ input_tokens, output_tokens, cost_nanousd },
  });
  const byInput = settled.toSorted((one, other) => one.input_tokens - other.input_tokens);
  expect(byInput.map(tokens)).toEqual(
    Array.from({ length: 7 }, (_, number) => ({
      input_tokens: usageOfLine(number).prompt,
      output_tokens: usageOfLine(number).completion,
      cost_nanousd: chargeOf(number),
    })),
  );
  expect(settled[0]).toMatchObject({
    ...{ end_reason: 'completed', usage_source: 'provider', service_tier: 'batch', upstream: 'one' },
    ...{ model: MODEL, route: '/v1/chat/completions', status: 200, attempt_count: 1 },
  });
  const batch = await client.batches.retrieve(made.id);
  expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 7, completed: 7 } });
  const output = await (await client.files.content(batch.output_file_id ?? '')).text();
  expect(output.trim().split('\n')).toHaveLength(7);
  expect((await client.batches.list()).data[0]).toMatchObject({ id: made.id, status: 'completed' });
  expect(await query('select from daybook.batch_line')).toEqual([]);
  expect(await query('select from daybook.batch')).toEqual([]);
});

test("another account's batch and its output are a 404, and in no list", async () => {
  const made = await begin(requestsOf(2));
  await endedLines(2);
  const { output_file_id: output } = await client.batches.retrieve(made.id);
  for (const work of [() => stranger.batches.retrieve(made.id), () => stranger.batches.cancel(made.id)])
    expect(await refusal(work())).toMatchObject({ status: 404, code: 'batch_not_found' });
  expect((await refusal(stranger.files.content(output ?? ''))).status).toBe(404);
  expect((await stranger.batches.list()).data).toEqual([]);
  const stolen = create(stranger, made.input_file_id);
  expect(await refusal(stolen)).toMatchObject({ status: 404, code: 'file_not_found' });
});

test.each([
  ['shuffled', 9, 9],
  ['duplicates', 9, 9],
  ['late_output', 5, 5],
  ['cut_output', 9, 9],
  ['errors', 9, 6],
  ['expired', 9, 4],
])(
  'output that is %s: each line ends once, and those with a reply are charged',
  async (fault, count, paid) => {
    await begin(requestsOf(count), { fault });
    const { settled, abandoned } = await endedLines(count);
    expect(abandoned).toEqual([]);
    const charged = settled.filter(({ cost_nanousd = 0 }) => cost_nanousd > 0);
    expect(charged).toHaveLength(paid);
    expect(charged.every(({ end_reason }) => end_reason === 'completed')).toBe(true);
    const others = settled.filter(({ cost_nanousd = 0 }) => cost_nanousd === 0);
    expect(others.every(({ usage_source }) => usage_source === 'none')).toBe(true);
  },
);

test('a cancelled batch settles the lines with output and returns the rest of the reservation', async () => {
  const quota = { meter: 'tokens', window: 'day', limit: 10_000, enforcement: 'hard' };
  const { key, used } = await limited('canceller', quota);
  const made = await begin(requestsOf(8), { took_ms: '600000' }, key);
  expect(await used()).toBeGreaterThan(8 * 50);
  await key.batches.cancel(made.id);
  const { settled } = await endedLines(8);
  expect(settled.filter(({ end_reason }) => end_reason === 'client_disconnected')).toHaveLength(4);
  const tokens = settled.reduce(
    (sum, { input_tokens, output_tokens }) => sum + input_tokens + output_tokens,
    0,
  );
  expect(tokens).toBeGreaterThan(0);
  await until(used, (units) => units === tokens, 'the returned units');
});

test('the whole file is held: what does not fit beside it is a 429, and after its end it fits', async () => {
  const quota = { meter: 'tokens', window: 'day', limit: 3_500, enforcement: 'hard' };
  const { key, used } = await limited('holder', quota);
  const made = await begin(requestsOf(10), { took_ms: '600000' }, key);
  const held = await used();
  expect(held).toBeGreaterThan(1_750);
  const sent = upstream.batches.count;
  const error = await refusal(begin(requestsOf(10), {}, key));
  expect(error).toMatchObject({ status: 429, code: 'insufficient_quota' });
  expect(upstream.batches.count).toBe(sent);
  expect(await used()).toBe(held);
  await key.batches.cancel(made.id);
  await until(used, (units) => units < 1_000, 'the returned units');
  await begin(requestsOf(10), {}, key);
});

test('a quota of requests counts each line', async () => {
  const quota = { meter: 'requests', window: 'day', limit: 10, enforcement: 'soft' };
  const { key, used } = await limited('counter', quota);
  await begin(requestsOf(7), {}, key);
  expect(await used()).toBe(7);
  expect((await refusal(begin(requestsOf(4), {}, key))).status).toBe(429);
  await begin(requestsOf(3), {}, key);
  expect(await used()).toBe(10);
});

test('an observed quota rejects no batch, is not charged, and is named by its lines', async () => {
  const quota = { meter: 'requests', window: 'day', limit: 2, enforcement: 'observe' };
  const { key, used } = await limited('observed', quota);
  await begin(requestsOf(5), {}, key);
  const { accepted } = await endedLines(5);
  expect(accepted[0]?.observed).toMatchObject([{ meter: 'requests', limit: 2, needed: 5, free: 2 }]);
  expect(await used()).toBe(0);
});

test('rates do not count the lines of a batch', async () => {
  await relay.createAccount('rated');
  const { secret } = await relay.createKey({ account: 'rated' });
  const terms = { requests_per_minute: 3, tokens_per_minute: 100, concurrent_requests: 2 };
  await relay.control((control) => control.overrideTerms('rated', terms, 'keep'));
  await begin(requestsOf(6), {}, clientOf(relay.baseUrl, secret));
  await endedLines(6);
});

test.each<[string, InputRequest[], RegExp]>([
  ['has no id', [{}, { id: '', body: {} }], /Line 2 of the file has no "custom_id"/],
  ['has the id of another', [{ id: 'a' }, { id: 'a' }], /Line 2 of the file repeats/],
  ['is for another route', [{}, { url: '/v1/embeddings', body: { input: 'x' } }], /Line 2 .* url/],
  ['is streamed', [{}, { body: { messages: [], stream: true } }], /Line 2 .* stream/],
  ['lacks its prompt', [{}, { body: {} }], /Line 2 of the file: The field "messages"/],
])('a line that %s refuses the batch before it leaves', async (_, requests, message) => {
  const sent = upstream.batches.count;
  const error = await refusal(begin(requests));
  expect(error.status).toBe(400);
  expect(error.message).toMatch(message);
  expect(upstream.batches.count).toBe(sent);
});

test('a line of a model without permission, or without a price under a cost quota, is a 403', async () => {
  await relay.createAccount('narrow');
  const { secret } = await relay.createKey({ account: 'narrow' });
  const key = clientOf(relay.baseUrl, secret);
  const quota = { meter: 'cost_nanousd', window: 'month', limit: NANO, enforcement: 'hard' } as const;
  await relay.control((control) => control.overrideTerms('narrow', { models: [MODEL, 'other'] }, 'keep'));
  const forbidden = await refusal(begin([{}, { model: 'secret' }], {}, key));
  expect(forbidden).toMatchObject({ status: 403, code: 'model_not_permitted' });
  await relay.control((control) => control.overrideTerms('narrow', { quotas: [quota] }, 'keep'));
  const unpriced = await refusal(begin([{}, { model: 'other' }], {}, key));
  expect(unpriced).toMatchObject({ status: 403, code: 'model_not_priced' });
  const body = { messages: [{ role: 'user', content: 'x' }] };
  const unbounded = await refusal(begin([{}, { body }], {}, key));
  expect(unbounded).toMatchObject({ status: 400 });
  expect(unbounded.message).toMatch(/Line 2 .* no limit on its reply/);
});

test('a batch that its provider rejects is charged nothing', async () => {
  const quota = { meter: 'tokens', window: 'day', limit: 10_000, enforcement: 'hard' };
  const { key, used } = await limited('rejected', quota);
  expect((await refusal(begin(requestsOf(3), { fault: 'rejected' }, key))).status).toBe(400);
  const { settled } = await endedLines(3);
  expect(
    settled.every(({ end_reason, status }) => end_reason === 'upstream_rejected' && status === 400),
  ).toBe(true);
  expect(await used()).toBe(0);
});

test('a batch whose creation has no reply is found at its provider and settled', async () => {
  const created = upstream.batches.count;
  expect((await refusal(begin(requestsOf(3), { fault: 'no_reply' }))).status).toBe(502);
  expect(upstream.batches.count).toBe(created + 1);
  await query(`update daybook.batch set due_at = now()`);
  const { settled } = await endedLines(3);
  expect(settled.every(({ end_reason }) => end_reason === 'completed')).toBe(true);
});

test('a batch that was never created is charged nothing', async () => {
  expect((await refusal(begin(requestsOf(3), { fault: 'not_created' }))).status).toBe(502);
  await query(`update daybook.batch set due_at = now(), created_at = now() - interval '5 minutes'`);
  const { settled } = await endedLines(3);
  expect(
    settled.every(({ end_reason, cost_nanousd }) => end_reason === 'upstream_unreachable' && !cost_nanousd),
  ).toBe(true);
});

test('a lost batch ends as abandoned with its reservation, and an alert', async () => {
  await begin(requestsOf(3), { fault: 'lost' });
  await query(`update daybook.batch set due_at = now(), created_at = now() - interval '2 minutes'`);
  const { accepted, abandoned } = await endedLines(3);
  const holds = (events: readonly { request: string; hold_tokens: number }[]) =>
    new Map(events.map(({ request, hold_tokens }) => [request, hold_tokens]));
  expect(holds(abandoned)).toEqual(holds(accepted));
  const alerts = await query<{ details: object }>(
    `select details from daybook.alert where kind = 'batch_lost'`,
  );
  expect(alerts).toMatchObject([{ details: { batch: accepted[0]?.batch, lines: 3, model: MODEL } }]);
});

test('a line whose output never appears is abandoned, and the others are settled', async () => {
  await begin(requestsOf(4), { fault: 'partial' });
  await relay.waitFor((log) => linesOf(log, 4).settled.length === 3);
  await query(`update daybook.batch set due_at = now(), ended_at = now() - interval '2 hours'`);
  const { settled, abandoned } = await endedLines(4);
  expect([settled.length, abandoned.length]).toEqual([3, 1]);
});

test('files of a batch in progress can not be deleted', async () => {
  const made = await begin(requestsOf(2), { took_ms: '600000' });
  const error = await refusal(client.files.delete(made.input_file_id));
  expect(error).toMatchObject({ status: 400 });
  await client.batches.cancel(made.id);
  await endedLines(2);
  expect(await client.files.delete(made.input_file_id)).toMatchObject({ deleted: true });
});

test('embeddings are batched as well', async () => {
  const input = inputOf([{ url: '/v1/embeddings', body: { input: 'hi' } }], MODEL);
  const file = await upload(client, input);
  await create(client, file.id, {}, '/v1/embeddings');
  const { settled } = await endedLines(1);
  expect(settled[0]).toMatchObject({ route: '/v1/embeddings', input_tokens: 101, output_tokens: 0 });
});

test('lines of batches count in the metrics: the counters equal the log', async () => {
  const log = await relay.readLog();
  expect(log.some(({ event }) => event.type === 'request.abandoned')).toBe(true);
  const differences = async () => miscounted(await scrape(relay.metricsPort ?? 0), log);
  await expect.poll(differences).toEqual([]);
});
