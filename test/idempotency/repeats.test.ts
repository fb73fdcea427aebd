import { randomUUID } from 'node:crypto';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { KEPT_REPLY_BYTES_MAX } from '#server/idempotency/bounds.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { openSession } from '../support/database.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import type { Attempt } from '../support/upstream/ledger.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Requests that are sent several times with one Idempotency-Key are carried out and charged once. */

let upstream: ScriptedUpstream;
let relay: TestRelay;
/** Of an account whose plan keeps replies. */
let keeping: string;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [{ baseUrl: upstream.baseUrl, routes: RELAYED_ROUTES }] });
  keeping = await tenant('keeping', true);
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

async function tenant(name: string, keeps: boolean, terms: object = {}): Promise<string> {
  await relay.createAccount(name);
  await relay.control((control) =>
    control.overrideTerms(name, keeps ? { keep_replies: true, ...terms } : terms, 'keep'),
  );
  return (await relay.createKey({ account: name })).secret;
}

type Sent = { route?: string; headers?: Record<string, string>; key?: string; more?: object };

/** A model of its own for each test: the attempts of the upstream are found by it. */
let models = 0;
const modelOf = (script: string): string => `s:${script},seed=${++models}`;
const attemptsOf = (model: string): Attempt[] =>
  upstream.ledger.attempts.filter((each) => each.model === model);

function send(
  idempotencyKey: string,
  model: string,
  { route = '/v1/chat/completions', headers = {}, key = keeping, more = {} }: Sent = {},
  options: { abortAfterTokens?: number; abortAt?: 'sent' } = {},
): Promise<ChatReply> {
  return chat({
    port: relay.port,
    key,
    path: route,
    headers: { 'idempotency-key': idempotencyKey, ...headers },
    body: { model, ...BODIES[route as RelayedRoute], ...more },
    ...options,
  });
}

const BODIES: Readonly<Partial<Record<string, object>>> = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'hi' }] },
  '/v1/completions': { prompt: 'hi' },
  '/v1/embeddings': { input: 'hi' },
  '/v1/responses': { input: 'hi' },
  '/v1/messages': { messages: [{ role: 'user', content: 'hi' }], max_tokens: 100 },
  '/v1/moderations': { input: 'hi' },
  '/v1/rerank': { query: 'hi', documents: ['hi'] },
  '/v1/images/generations': { prompt: 'hi' },
  '/v1/audio/speech': { input: 'hi', voice: 'alloy' },
};

const codeOf = ({ body }: ChatReply): unknown =>
  (JSON.parse(body.toString()) as { error: { code: unknown } }).error.code;

/** Waits until each key has the end of its request. */
async function ended(): Promise<void> {
  const client = await openSession(relay.store.config('owner'));
  try {
    await until(
      async () => (await client.query('select from daybook.idempotency_key where state = 0')).rowCount,
      (count) => count === 0,
      'the ends of keys',
    );
  } finally {
    await client.end();
  }
}

/** The repeat of a request that was carried out once, and its ending. */
async function expectRepeated(first: ChatReply, again: ChatReply, model: string): Promise<void> {
  expect(first.status).toBe(200);
  expect(again.status).toBe(200);
  expect(again.body.toString()).toBe(first.body.toString());
  expect(again.header('content-type')).toBe(first.header('content-type'));
  expect(again.header('idempotent-replayed')).toBe('true');
  expect(again.header('original-request')).toBe(first.requestId);
  expect(again.requestId).not.toBe(first.requestId);
  expect(first.header('idempotent-replayed')).toBeNull();
  expect(attemptsOf(model)).toHaveLength(1);
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const accepted = log.filter(({ event }) => event.type === 'request.accepted' && event.model === model);
  expect(accepted).toHaveLength(1);
  expect(settledOf(log, first.requestId)).toMatchObject({ end_reason: 'completed' });
}

/** Each attempt of a form has another boundary, so that no two have the same bytes. */
const FORMS: readonly string[] = [
  '/v1/images/edits',
  '/v1/images/variations',
  '/v1/audio/transcriptions',
  '/v1/audio/translations',
];

const STREAMED: readonly string[] = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/responses',
  '/v1/messages',
];

describe.each([
  ...RELAYED_ROUTES.filter((route) => !FORMS.includes(route)).map((route) => ({ route, more: {} })),
  ...STREAMED.map((route) => ({ route, more: { stream: true } })),
])('$route $more', ({ route, more }) => {
  test('a repeat gets the same reply, and is carried out and charged once', async () => {
    const model = modelOf('tokens=4');
    const key = randomUUID();
    const first = await send(key, model, { route, more });
    await ended();
    await expectRepeated(first, await send(key, model, { route, more }), model);
  });

  test("another request with the same key is a 422 in the client's own format", async () => {
    const model = modelOf('tokens=2');
    const key = randomUUID();
    const first = await send(key, model, { route, more });
    await ended();
    const other = await send(key, model, { route, more: { ...more, user: 'another' } });
    expect(other.status).toBe(422);
    expect(codeOf(other)).toBe('idempotency_key_reused');
    expect(other.header('original-request')).toBe(first.requestId);
    expect(other.body.toString().startsWith('{"type":"error"')).toBe(route === '/v1/messages');
    expect(attemptsOf(model)).toHaveLength(1);
  });
});

test.each([':generateContent', ':streamGenerateContent?alt=sse'])(
  'a repeat of a call of Gemini gets the same reply (%s)',
  async (method) => {
    const model = modelOf('tokens=3');
    const path = `/v1beta/models/${model}${method}`;
    const key = randomUUID();
    const ask = (contents: object[]) =>
      chat({ port: relay.port, key: keeping, path, headers: { 'idempotency-key': key }, body: { contents } });
    const first = await ask([{ role: 'user', parts: [{ text: 'hi' }] }]);
    await ended();
    await expectRepeated(first, await ask([{ role: 'user', parts: [{ text: 'hi' }] }]), model);
    const other = await ask([{ role: 'user', parts: [{ text: 'else' }] }]);
    expect(other.status).toBe(422);
    expect(other.body.toString()).toContain('"reason":"idempotency_key_reused"');
  },
);

describe('a request that still runs', () => {
  test.each([true, false])('its repeats get the reply as it grows (stream: %s)', async (stream) => {
    const model = modelOf('tokens=20,every=30ms');
    const key = randomUUID();
    const running = send(key, model, { more: { stream } });
    await upstream.ledger.until(() => attemptsOf(model).length === 1);
    const repeats = await Promise.all([1, 2, 3].map(() => send(key, model, { more: { stream } })));
    const first = await running;
    for (const repeat of repeats) await expectRepeated(first, repeat, model);
  });

  test('it goes on without its client while the plan keeps its reply, which a repeat gets', async () => {
    const model = modelOf('tokens=20,every=20ms');
    const key = randomUUID();
    const left = await send(key, model, { more: { stream: true } }, { abortAfterTokens: 3 });
    expect(left.finished).toBe(false);
    const again = await send(key, model, { more: { stream: true } });
    expect(again.tokens).toBe(20);
    expect(again.header('original-request')).toBe(left.requestId);
    expect(attemptsOf(model)).toHaveLength(1);
    const log = await relay.waitFor((events) => openRequests(events).length === 0);
    expect(settledOf(log, left.requestId)).toMatchObject({ usage_source: 'provider', output_tokens: 20 });
  });

  test('it goes on without its client while a repeat waits, and ends with the last one', async () => {
    const key = randomUUID();
    const secret = await tenant('joining', false);
    const model = modelOf('tokens=200,every=20ms');
    const ask = (tokens: number) =>
      send(key, model, { key: secret, more: { stream: true } }, { abortAfterTokens: tokens });
    const first = ask(5);
    await upstream.ledger.until(() => attemptsOf(model).length === 1);
    const repeat = ask(15);
    const left = await first;
    expect((await repeat).tokens).toBeGreaterThanOrEqual(15);
    const log = await relay.waitFor((events) => openRequests(events).length === 0);
    const settled = settledOf(log, left.requestId);
    expect(settled).toMatchObject({ end_reason: 'client_disconnected' });
    expect(settled?.output_tokens).toBeGreaterThanOrEqual(15);
    expect(settled?.output_tokens).toBeLessThan(200);
  });

  test('no more repeats wait than its bound, and further ones get a 409', async () => {
    const model = modelOf('tokens=10,every=100ms');
    const key = randomUUID();
    const running = send(key, model);
    await upstream.ledger.until(() => attemptsOf(model).length === 1);
    const repeats = await Promise.all(Array.from({ length: 20 }, () => send(key, model)));
    await running;
    expect(repeats.filter(({ status }) => status === 200)).toHaveLength(16);
    const refused = repeats.filter(({ status }) => status === 409);
    expect(refused.map(codeOf)).toEqual(Array.from({ length: 4 }, () => 'idempotency_key_in_use'));
    expect(refused[0]?.header('retry-after')).toBe('2');
    expect(attemptsOf(model)).toHaveLength(1);
  });
});

describe('a reply that is not kept', () => {
  test('a repeat is a 409 that names the request and is not to be retried', async () => {
    const model = modelOf('tokens=2');
    const key = randomUUID();
    const first = await send(key, model, { key: relay.key });
    await ended();
    const again = await send(key, model, { key: relay.key });
    expect(again.status).toBe(409);
    expect(codeOf(again)).toBe('idempotent_reply_unavailable');
    expect(again.body.toString()).toContain(`GET /v1/requests/${first.requestId}`);
    expect(again.header('x-should-retry')).toBe('false');
    expect(attemptsOf(model)).toHaveLength(1);
  });

  test('a reply that is longer than is kept is a 409 afterwards', async () => {
    const model = modelOf(`tokens=1,pad=${KEPT_REPLY_BYTES_MAX}`);
    const key = randomUUID();
    const first = await send(key, model);
    expect(first.status).toBe(200);
    await ended();
    expect(codeOf(await send(key, model))).toBe('idempotent_reply_unavailable');
    expect(attemptsOf(model)).toHaveLength(1);
  });

  test('two API keys of one account never share a reply', async () => {
    const model = modelOf('tokens=2');
    const key = randomUUID();
    const { secret } = await relay.createKey({ account: 'keeping' });
    const first = await send(key, model);
    const other = await send(key, model, { key: secret });
    expect(other.status).toBe(200);
    expect(other.header('idempotent-replayed')).toBeNull();
    expect(other.body.toString()).not.toBe(first.body.toString());
    expect(attemptsOf(model)).toHaveLength(2);
  });
});

describe('a request that no model has worked on', () => {
  test.each([
    ['rejected by the upstream', 'status=400|tokens=2', 400],
    ['rate limited by the upstream', 'status=429|tokens=2', 503],
    ['unavailable', 'status=503|tokens=2', 503],
  ])('%s releases its key', async (_name, script, status) => {
    const model = modelOf(script);
    const key = randomUUID();
    expect((await send(key, model)).status).toBe(status);
    const again = await until(
      () => send(key, model),
      (reply) => reply.status === 200,
      'the key',
    );
    expect(again.header('idempotent-replayed')).toBeNull();
  });

  test('rejected by a limit it releases its key', async () => {
    const secret = await tenant('limited', true, {
      quotas: [{ meter: 'requests', window: 'day', limit: 0, enforcement: 'hard' }],
    });
    const model = modelOf('tokens=2');
    const key = randomUUID();
    expect((await send(key, model, { key: secret })).status).toBe(429);
    await relay.control((control) => control.overrideTerms('limited', { keep_replies: true }, 'keep'));
    const again = await until(
      () => send(key, model, { key: secret }),
      (reply) => reply.status === 200,
      'the key',
    );
    expect(again.header('idempotent-replayed')).toBeNull();
    expect(attemptsOf(model)).toHaveLength(1);
  });
});

test('a failure after which a model may have worked is repeated, and not carried out again', async () => {
  const model = modelOf('status=500|tokens=2');
  const key = randomUUID();
  const first = await send(key, model);
  expect(first.status).toBe(502);
  await ended();
  const again = await send(key, model);
  expect(again.status).toBe(502);
  expect(again.body.toString()).toBe(first.body.toString());
  expect(again.header('idempotent-replayed')).toBe('true');
  expect(again.header('x-should-retry')).toBe('false');
  expect(attemptsOf(model)).toHaveLength(1);
});

test('a reply that broke off is repeated with the error at its end', async () => {
  const model = modelOf('tokens=6,end=cut@3');
  const key = randomUUID();
  const first = await send(key, model, { more: { stream: true } });
  await ended();
  const again = await send(key, model, { more: { stream: true } });
  expect(first.body.toString()).toContain('upstream_disconnected');
  expect(again.body.toString()).toBe(first.body.toString());
  expect(attemptsOf(model)).toHaveLength(1);
});

test('a repeat needs the permissions that a request needs', async () => {
  const model = modelOf('tokens=2');
  const key = randomUUID();
  const { id, secret } = await relay.createKey({ account: 'keeping' });
  expect((await send(key, model, { key: secret })).status).toBe(200);
  await ended();
  expect((await send(key, model, { key: secret })).status).toBe(200);
  await relay.control((control) => control.revokeKey(id));
  const again = await send(key, model, { key: secret });
  expect(again.status).toBe(401);
  expect(codeOf(again)).toBe('api_key_revoked');
});

test.each([
  ['empty', ''],
  ['too long', 'k'.repeat(256)],
  ['not printable', 'k\u00e9'],
])('a key that is %s is a 400', async (_name, key) => {
  const model = modelOf('tokens=2');
  const reply = await send(key, model);
  expect(reply.status).toBe(400);
  expect(codeOf(reply)).toBe('invalid_idempotency_key');
  expect(attemptsOf(model)).toEqual([]);
});

test('neither keys nor replies are in clear text in the database', async () => {
  const model = modelOf('tokens=5,text=utf8');
  const key = 'clear-text-canary';
  const first = await send(key, model, { more: { stream: true, user: 'prompt-canary' } });
  await ended();
  const client = await openSession(relay.store.config('owner'));
  try {
    const { rows } = await client.query<{ row: string }>(
      `select k::text as row from daybook.idempotency_key k
        union all select r::text from daybook.idempotent_reply r`,
    );
    const text = rows.map(({ row }) => row).join('\n');
    expect(rows.length).toBeGreaterThan(1);
    for (const word of [key, 'prompt-canary', 'tok0', first.body.toString('hex').slice(0, 60)])
      expect(text).not.toContain(word);
  } finally {
    await client.end();
  }
});

test('the OpenAI SDK repeats a request of its own with one key, and gets one reply', async () => {
  const model = modelOf('status=503|tokens=3');
  const client = new OpenAI({ baseURL: relay.baseUrl, apiKey: keeping, maxRetries: 2 });
  // Its retries send the header that it generates: "stainless-node-retry-…".
  (client as unknown as { idempotencyHeader: string }).idempotencyHeader = 'Idempotency-Key';
  const messages = [{ role: 'user' as const, content: 'hi' }];
  const reply = await client.chat.completions.create({ model, messages });
  expect(reply.choices[0]?.message.content).toBe('tok0 tok1 tok2 ');
  expect(attemptsOf(model)).toHaveLength(2);
  const sent = attemptsOf(model).flatMap(({ headers }) => headers.map(([name]) => name.toLowerCase()));
  expect(sent).not.toContain('idempotency-key');
});

test('the OpenAI SDK reports a conflict at once, and the reply that it repeats', async () => {
  const model = modelOf('tokens=3');
  const create = (apiKey: string) =>
    new OpenAI({ baseURL: relay.baseUrl, apiKey, maxRetries: 2 }).chat.completions.create(
      { model, messages: [{ role: 'user', content: 'hi' }] },
      { headers: { 'Idempotency-Key': 'sdk' } },
    );
  const first = await create(keeping);
  await ended();
  expect(await create(keeping)).toEqual(first);
  await create(relay.key);
  await ended();
  await expect(create(relay.key)).rejects.toMatchObject({
    status: 409,
    code: 'idempotent_reply_unavailable',
  });
  expect(attemptsOf(model)).toHaveLength(2);
});
