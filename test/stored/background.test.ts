import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { recoverInstance, registerInstance } from '#db/instances/instance.ts';
import { chat } from '../support/client.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { openSession } from '../support/database.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { miscounted } from '../support/telemetry/compare-with-log.ts';
import { scrape } from '../support/telemetry/scrape.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Background responses: handed over when the reply is sent, and settled when they have ended. */

const PATH = '/v1/responses';
const TOKENS = 6;

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ env: { METRICS_PORT: '0' } });
  const model = (script: string) => ({ targets: [{ upstream: 'one', model: `s:${script}` }] });
  await declare(relay, {
    upstreams: { one: { base_url: upstream.baseUrl, routes: [PATH] } },
    models: {
      short: model(`tokens=${TOKENS},every=30ms`),
      slow: model(`tokens=${TOKENS},head=200ms`),
      longer: model(`tokens=${TOKENS},every=400ms`),
      long: model('tokens=9,end=hang@done'),
      failing: model('tokens=2,usage=broken'),
    },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type Reply = { status: number; requestId: string; body: Record<string, unknown> };

async function create(model: string, more: object = {}, key = relay.key): Promise<Reply> {
  const body = { model, input: 'hi', max_output_tokens: 500, background: true, ...more };
  const reply = await chat({ port: relay.port, key, path: PATH, body });
  const isJson = reply.header('content-type')?.includes('json') === true;
  return {
    status: reply.status ?? 0,
    requestId: reply.requestId ?? '',
    body: isJson ? (JSON.parse(reply.body.toString()) as Reply['body']) : {},
  };
}

async function send(method: string, path: string): Promise<{ status: number; body: Reply['body'] }> {
  const reply = await fetch(`http://127.0.0.1:${relay.port}${PATH}/${path}`, {
    method,
    headers: { authorization: `Bearer ${relay.key}` },
  });
  return { status: reply.status, body: (await reply.json()) as Reply['body'] };
}

const eventsOf = (log: readonly Placed[], request: string) =>
  log.flatMap(({ event }) => ('request' in event && event.request === request ? [event] : []));
const isEnded = (request: string) => (log: readonly Placed[]) =>
  eventsOf(log, request).some(({ type }) => type === 'request.settled' || type === 'request.abandoned');

test('a background response is queued at once, and settled though no client asks for it', async () => {
  const { status, requestId, body } = await create('short');
  expect({ status, body }).toMatchObject({ status: 200, body: { status: 'queued', background: true } });
  const log = await relay.waitFor(isEnded(requestId));
  const events = eventsOf(log, requestId);
  expect(events.map(({ type }) => type)).toEqual(['request.accepted', 'request.extended', 'request.settled']);
  const [accepted, handedOver] = events as [EventOf<'request.accepted'>, EventOf<'request.extended'>];
  expect(handedOver).toMatchObject({ handed_over: true, hold_tokens: accepted.hold_tokens });
  expect(settledOf(log, requestId)).toMatchObject({
    end_reason: 'completed',
    usage_source: 'provider',
    output_tokens: TOKENS,
    upstream: 'one',
    provider_request: body['id'],
  });
  expect(await send('GET', String(body['id']))).toMatchObject({ status: 200, body: { status: 'completed' } });
  expect(openRequests(log)).toEqual([]);
});

test('a failed background response is settled as failed', async () => {
  const { requestId } = await create('failing');
  const log = await relay.waitFor(isEnded(requestId));
  expect(settledOf(log, requestId)).toMatchObject({ end_reason: 'upstream_error', finish_reason: 'failed' });
});

test('a cancelled response is settled, and can be deleted only then', async () => {
  const { requestId, body } = await create('long');
  const id = String(body['id']);
  expect((await send('DELETE', id)).status).toBe(400);
  expect(await send('POST', `${id}/cancel`)).toMatchObject({ status: 200, body: { status: 'cancelled' } });
  const log = await relay.waitFor(isEnded(requestId));
  expect(settledOf(log, requestId)).toMatchObject({
    end_reason: 'client_disconnected',
    finish_reason: 'cancelled',
    usage_source: 'estimated',
  });
  expect((await send('DELETE', id)).status).toBe(200);
  expect((await send('GET', id)).status).toBe(404);
});

test('a streamed background response is settled with the usage of its stream', async () => {
  const { requestId, status } = await create('short', { stream: true });
  expect(status).toBe(200);
  const log = await relay.waitFor(isEnded(requestId));
  expect(eventsOf(log, requestId).filter(({ type }) => type === 'request.settled')).toHaveLength(1);
  expect(settledOf(log, requestId)).toMatchObject({ usage_source: 'provider', output_tokens: TOKENS });
});

test.each([true, false])(
  'a response whose client leaves has its whole usage (stream: %s)',
  async (stream) => {
    const gone = new AbortController();
    const body = { model: 'slow', input: 'hi', background: true, stream };
    const asked = upstream.ledger.attempts.length;
    const reply = chat({ port: relay.port, key: relay.key, path: PATH, body, signal: gone.signal });
    await until(
      () => upstream.ledger.attempts.length,
      (count) => count > asked,
      'the request',
    );
    gone.abort();
    expect((await reply).status).toBeNull();
    const log = await relay.waitFor((events) => openRequests(events).length === 0);
    const ending = log.findLast(({ event }) => event.type === 'request.settled')?.event;
    expect(ending).toMatchObject({ usage_source: 'provider', output_tokens: TOKENS });
  },
);

test('limits hold the reservation of a background response until it has ended', async () => {
  await relay.createAccount('limited');
  const { secret } = await relay.createKey({ account: 'limited' });
  const quota = { meter: 'tokens', window: 'day', limit: 1_000, enforcement: 'hard' } as const;
  await relay.control((control) => control.overrideTerms('limited', { quotas: [quota] }, 'keep'));
  const first = await create('short', { max_output_tokens: 900 }, secret);
  expect(first.status).toBe(200);
  expect((await create('short', { max_output_tokens: 900 }, secret)).status).toBe(429);
  await relay.waitFor(isEnded(first.requestId));
  const again = await until(
    () => create('short', { max_output_tokens: 900 }, secret),
    ({ status }) => status === 200,
    'the limit',
  );
  await relay.waitFor(isEnded(again.requestId));
});

test('a response whose server dies while it asks for it is settled by another one', async () => {
  const { requestId } = await create('longer');
  const client = await openSession(relay.store.config('owner'));
  try {
    const dying = await registerInstance(client, 'dying');
    const { rowCount } = await client.query(
      `update daybook.background_response set taken_by = $1, holder = null, due_at = now() + interval '1 hour'
        where request = $2`,
      [dying, requestId],
    );
    expect(rowCount).toBe(1);
    await client.query('select daybook.fence_instance($1)', [dying]);
    const { rows } = await client.query<{ id: number }>(
      'select id from daybook.instance where dead_at is null order by id limit 1',
    );
    await recoverInstance(client, dying, rows[0]?.id ?? 0);
    expect(settledOf(await relay.waitFor(isEnded(requestId)), requestId)).toMatchObject({
      usage_source: 'provider',
      output_tokens: TOKENS,
    });
  } finally {
    await client.end();
  }
});

test('a response that its provider has lost ends as abandoned, with an alert', async () => {
  const { requestId, body } = await create('long');
  await fetch(`${upstream.baseUrl}/responses/${String(body['id'])}`, { method: 'DELETE' });
  const client = await openSession(relay.store.config('owner'));
  try {
    await client.query(
      `update daybook.background_response set created_at = created_at - interval '2 minutes', due_at = now()
        where request = $1`,
      [requestId],
    );
    const log = await relay.waitFor(isEnded(requestId));
    const [accepted, , ending] = eventsOf(log, requestId) as [
      EventOf<'request.accepted'>,
      unknown,
      EventOf<'request.abandoned'>,
    ];
    expect(ending).toMatchObject({ type: 'request.abandoned', hold_tokens: accepted.hold_tokens });
    const { rows } = await client.query(`select kind, details ->> 'request' as request from daybook.alert`);
    expect(rows).toContainEqual({ kind: 'background_lost', request: requestId });
  } finally {
    await client.end();
  }
});

test('endings of background responses count in the metrics: the counters equal the log', async () => {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const differences = async () => miscounted(await scrape(relay.metricsPort ?? 0), log);
  await expect.poll(differences).toEqual([]);
});
