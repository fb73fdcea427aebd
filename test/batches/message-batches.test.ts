import Anthropic, { APIError } from '@anthropic-ai/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { openSession } from '../support/database.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { usageOfLine } from '../support/batches/answers.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Anthropic's message batches: admitted as a whole, and settled request by request by their results. */

const MODEL = 'claude-batch';
const CREDENTIAL = 'sk-ant-0123456789abcdef';
const NANO = 1_000_000_000;
/** Of a million tokens, in nano-dollars. */
const BATCH_PRICE = { input: NANO, output: 4 * NANO };

let upstream: ScriptedUpstream;
let relay: TestRelay;
let client: Anthropic;

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: CREDENTIAL });
  relay = await startRelay({
    upstreams: [
      {
        name: 'claude',
        baseUrl: upstream.url,
        apiKey: CREDENTIAL,
        provider: 'anthropic',
        models: ['claude-*'],
      },
      { name: 'chat', baseUrl: upstream.baseUrl, apiKey: CREDENTIAL, models: ['gpt-chat'] },
    ],
  });
  await relay.control((control) =>
    control.setPrice(MODEL, {
      base: { input: 2 * NANO, output: 8 * NANO },
      rules: [{ when: { service_tier: 'batch' }, rate: BATCH_PRICE }],
    }),
  );
  client = clientOf(relay.key);
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const clientOf = (apiKey: string): Anthropic =>
  new Anthropic({ baseURL: `http://127.0.0.1:${relay.port}`, apiKey, maxRetries: 0 });

type Requests = Anthropic.Messages.BatchCreateParams['requests'];
const requestsOf = (count: number, name = 'line', params: object = {}): Requests =>
  Array.from({ length: count }, (_, index) => ({
    custom_id: `${name}-${index}`,
    params: {
      ...{ model: MODEL, max_tokens: 50, messages: [{ role: 'user' as const, content: `say ${index}` }] },
      ...params,
    },
  }));

const refusalOf = async (promise: Promise<unknown>): Promise<APIError> => {
  const error: unknown = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(APIError);
  return error as APIError;
};

type Lines = {
  accepted: EventOf<'request.accepted'>[];
  settled: EventOf<'request.settled'>[];
  abandoned: EventOf<'request.abandoned'>[];
};

/** The lines of the newest batch, once each has an ending. */
async function endedLines(count: number): Promise<Lines> {
  const log: readonly Placed[] = await relay.waitFor((events) => openRequests(events).length === 0);
  const all = log.map(({ event }) => event);
  const accepted = all.filter((event) => event.type === 'request.accepted');
  const newest = accepted.at(-1)?.batch;
  const own = accepted.filter(({ batch }) => batch !== undefined && batch === newest);
  expect(own).toHaveLength(count);
  const ids = new Set(own.map(({ request }) => request));
  const lines: Lines = {
    accepted: own,
    settled: all
      .filter((event) => event.type === 'request.settled')
      .filter(({ request }) => ids.has(request)),
    abandoned: all
      .filter((event) => event.type === 'request.abandoned')
      .filter(({ request }) => ids.has(request)),
  };
  expect(lines.settled.length + lines.abandoned.length).toBe(count);
  return lines;
}

const ended = (id: string, by = client): Promise<Anthropic.Messages.MessageBatch> =>
  until(
    () => by.messages.batches.retrieve(id),
    ({ processing_status: status }) => status === 'ended',
    'the end of the batch',
  );

const chargeOf = (number: number): number => {
  const { prompt, completion } = usageOfLine(number);
  return (prompt * BATCH_PRICE.input + completion * BATCH_PRICE.output) / 1_000_000;
};

test('each request of a message batch is charged once at the batch price', async () => {
  const created = await client.messages.batches.create({ requests: requestsOf(3) });
  expect(created).toMatchObject({ processing_status: 'in_progress', request_counts: { processing: 3 } });
  const { accepted, settled } = await endedLines(3);
  expect(accepted.map(({ route }) => route)).toEqual(['/v1/messages', '/v1/messages', '/v1/messages']);
  expect(settled.map(({ cost_nanousd }) => Number(cost_nanousd)).toSorted((a, b) => a - b)).toEqual(
    [0, 1, 2].map(chargeOf),
  );
  for (const event of settled)
    expect(event).toMatchObject({ usage_source: 'provider', end_reason: 'completed' });
  expect(settled[0]).toMatchObject({ service_tier: 'batch', upstream: 'claude' });

  const batch = await ended(created.id);
  expect(batch.request_counts).toMatchObject({ succeeded: 3 });
  expect(batch.results_url).toBe(`http://127.0.0.1:${relay.port}/v1/messages/batches/${created.id}/results`);
  const results = await Array.fromAsync(await client.messages.batches.results(created.id));
  expect(results.map(({ custom_id }) => custom_id).toSorted()).toEqual(['line-0', 'line-1', 'line-2']);
  expect(results.every(({ result }) => result.type === 'succeeded')).toBe(true);
  const { data } = await client.messages.batches.list({ limit: 10 });
  expect(data.find(({ id }) => id === created.id)?.results_url).toBe(batch.results_url);
});

test('errored, expired and canceled requests are charged nothing', async () => {
  await client.messages.batches.create({ requests: requestsOf(5, 'errors') });
  const { settled } = await endedLines(5);
  const reasons = new Map(settled.map((event) => [event.end_reason, event.cost_nanousd ?? 0]));
  expect(settled.map(({ end_reason }) => end_reason).toSorted()).toEqual([
    ...['completed', 'completed', 'timed_out', 'upstream_error', 'upstream_rejected'],
  ]);
  for (const reason of ['timed_out', 'upstream_error', 'upstream_rejected'] as const)
    expect(reasons.get(reason)).toBe(0);

  const { id } = await client.messages.batches.create({ requests: requestsOf(3, 'runs') });
  expect((await refusalOf(client.messages.batches.delete(id))).status).toBe(400);
  await client.messages.batches.cancel(id);
  const canceled = await endedLines(3);
  expect(canceled.settled.map(({ end_reason }) => end_reason).toSorted()).toEqual([
    ...['client_disconnected', 'client_disconnected', 'completed'],
  ]);
  await client.messages.batches.delete(id);
  expect((await refusalOf(client.messages.batches.retrieve(id))).status).toBe(404);
});

test('results that break off are read again, and missing ones are abandoned with an alert', async () => {
  await client.messages.batches.create({ requests: requestsOf(4, 'cut') });
  expect((await endedLines(4)).settled.map(({ end_reason }) => end_reason)).toEqual(
    Array.from({ length: 4 }, () => 'completed'),
  );
  await client.messages.batches.create({ requests: requestsOf(3, 'partial') });
  await relay.waitFor((log) => openRequests(log).length === 1);
  await query(`update daybook.batch set due_at = now(), ended_at = now() - interval '2 hours'`);
  const { settled, abandoned } = await endedLines(3);
  expect([settled.length, abandoned.length]).toEqual([2, 1]);
});

test('a batch that its provider refuses is charged nothing', async () => {
  for (const [name, status, reason] of [
    ['rejected', 400, 'upstream_rejected'],
    ['overloaded', 502, 'upstream_error'],
  ] as const) {
    const refusal = await refusalOf(client.messages.batches.create({ requests: requestsOf(2, name) }));
    expect([name, (refusal.status ?? 0) >= 500]).toEqual([name, status >= 500]);
    const { settled } = await endedLines(2);
    expect(settled.map(({ end_reason, usage_source }) => [end_reason, usage_source])).toEqual([
      ...[
        [reason, 'none'],
        [reason, 'none'],
      ],
    ]);
  }
});

test('a batch whose creation had no reply is abandoned with its reservation', async () => {
  await refusalOf(client.messages.batches.create({ requests: requestsOf(2, 'no-reply') }));
  await query(`update daybook.batch set due_at = now()`);
  const { accepted, abandoned } = await endedLines(2);
  expect(sumOf(abandoned)).toEqual(sumOf(accepted));
});

test("another account's message batch is a 404 in Anthropic's format, and in no list", async () => {
  const { id } = await client.messages.batches.create({ requests: requestsOf(1) });
  await relay.createAccount('stranger');
  const stranger = clientOf((await relay.createKey({ account: 'stranger' })).secret);
  const refusal = await refusalOf(stranger.messages.batches.retrieve(id));
  expect([refusal.status, refusal.error]).toEqual([
    404,
    expect.objectContaining({ type: 'error', error: expect.objectContaining({ type: 'not_found_error' }) }),
  ]);
  expect((await refusalOf(stranger.messages.batches.cancel(id))).status).toBe(404);
  expect((await stranger.messages.batches.list()).data).toEqual([]);
  await endedLines(1);
});

test('the whole batch is held: what does not fit beside it is a 429, and nothing is sent', async () => {
  await relay.createAccount('limited');
  const { secret } = await relay.createKey({ account: 'limited' });
  const quota = { meter: 'requests', window: 'day', limit: 3, enforcement: 'hard' } as const;
  await relay.control((control) => control.overrideTerms('limited', { quotas: [quota] }, 'keep'));
  const limited = clientOf(secret);
  const before = upstream.batches.count;
  expect((await refusalOf(limited.messages.batches.create({ requests: requestsOf(4) }))).status).toBe(429);
  expect(upstream.batches.count).toBe(before);
  await limited.messages.batches.create({ requests: requestsOf(3) });
  await endedLines(3);
});

test.each<[string, Requests, RegExp]>([
  ['no requests', [], /list of requests/],
  ['a stream', requestsOf(1, 'line', { stream: true }), /requests\.0 asks for a stream/],
  ['one id twice', [...requestsOf(1), ...requestsOf(1)], /requests\.1 repeats/],
  ['an id with a space', requestsOf(1, 'a b'), /requests\.0 has no/],
  ['a model of another protocol', requestsOf(1, 'line', { model: 'gpt-chat' }), /can't be used in a batch/],
])('a batch with %s is refused, and not sent', async (_, requests, message) => {
  const before = upstream.batches.count;
  const refusal = await refusalOf(client.messages.batches.create({ requests }));
  expect(refusal.message).toMatch(message);
  expect(upstream.batches.count).toBe(before);
});

const sumOf = (events: readonly { hold_tokens: number }[]): number =>
  events.reduce((sum, { hold_tokens }) => sum + hold_tokens, 0);

async function query(text: string): Promise<void> {
  const session = await openSession(relay.store.config('owner'));
  try {
    await session.query(text);
  } finally {
    await session.end();
  }
}
