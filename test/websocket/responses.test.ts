import { randomUUID } from 'node:crypto';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { chat } from '../support/client.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { HandshakeRefused, isLast, openResponses, textOf } from '../support/responses-socket.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Responses over a WebSocket: each is a call of its own, as if it had been sent by HTTP. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay();
  const routes = ['/v1/responses' as const];
  await declare(relay, {
    upstreams: {
      native: { base_url: upstream.baseUrl, routes, models: ['s:*', 'ok'] },
      translated: { base_url: upstream.baseUrl, routes: ['/v1/chat/completions'], models: ['chat'] },
    },
    models: {
      native: { targets: [{ upstream: 'native', model: 's:tokens=3' }] },
      foreign: { targets: [{ upstream: 'translated', model: 's:tokens=3' }] },
      cut: { targets: [{ upstream: 'native', model: 's:tokens=9,end=cut@3' }] },
      slow: { targets: [{ upstream: 'native', model: 's:tokens=4,every=50ms' }] },
    },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type Settled = EventOf<'request.settled'>;
const settledOf = (events: readonly Placed[]): Settled[] =>
  events.flatMap(({ event }) => (event.type === 'request.settled' ? [event] : []));
const open = (key = relay.key) => openResponses({ port: relay.port, key });

test('each response of a connection is a request of its own, with the usage of its upstream', async () => {
  await using client = await open();
  const before = settledOf(await relay.readLog()).length;
  const ended = [
    await client.respond({ model: 'native', input: 'one' }),
    await client.respond({ model: 'native', input: 'two', stream: true }),
  ];
  expect(ended.map(({ type }) => type)).toEqual(['response.completed', 'response.completed']);
  const log = await relay.waitFor((events) => settledOf(events).length === before + 2);
  const settled = settledOf(log).slice(-2);
  expect(new Set(settled.map(({ request }) => request)).size).toBe(2);
  for (const [index, event] of settled.entries()) {
    const { usage } = ended[index]?.response ?? {};
    expect(event).toMatchObject({
      route: '/v1/responses',
      end_reason: 'completed',
      usage_source: 'provider',
      input_tokens: usage?.input_tokens,
      output_tokens: usage?.output_tokens,
    });
    expect(
      log.filter(({ event: each }) => each.type === 'request.accepted' && each.request === event.request),
    ).toMatchObject([{ event: { sse: true } }]);
  }
});

test.for(['native', 'foreign'])('the messages are the events of a stream by HTTP: %s', async (model) => {
  await using client = await open();
  const body = { model, input: 'hi', store: false };
  await client.respond(body);
  const http = await chat({
    port: relay.port,
    key: relay.key,
    path: '/v1/responses',
    body: { ...body, stream: true },
  });
  const events = http.body
    .toString()
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as { type: string });
  const shape = (all: readonly { type: string }[]): string[] =>
    all.map((each) => `${each.type} ${Object.keys(each).join()}`);
  expect(shape(client.events)).toEqual(shape(events));
  expect(textOf(client.events)).toBe('tok0 tok1 tok2 ');
});

test("the SDK's WebSocket client gets each event, and its errors with status and code", async () => {
  const sdk = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key });
  const socket = new ResponsesWS(sdk);
  const errors: unknown[] = [];
  socket.on('error', ({ error }) => errors.push(error));
  const ask = (model: string): void => socket.send({ type: 'response.create', model, input: 'hi' });
  const types: string[] = [];
  const done = Promise.withResolvers<void>();
  socket.on('event', (event) => {
    types.push(event.type);
    if (event.type === 'response.completed') ask('nothing-serves-this');
    if (event.type === 'error') done.resolve();
  });
  socket.socket.on('open', () => ask('native'));
  await done.promise;
  socket.close();
  expect(types.filter((type) => type === 'response.output_text.delta')).toHaveLength(3);
  expect(types.slice(-2)).toEqual(['response.completed', 'error']);
  expect(errors).toMatchObject([
    { type: 'error', status: 404, error: { code: 'model_not_found', type: 'invalid_request_error' } },
  ]);
});

describe('streams of a connection', () => {
  test('responses of one stream run one after the other, and those of others beside them', async () => {
    await using client = await open();
    client.create({ model: 'slow', input: 'one', stream_id: 'a' });
    client.create({ model: 'slow', input: 'two', stream_id: 'a' });
    client.create({ model: 'slow', input: 'three', stream_id: 'b' });
    client.create({ model: 'slow', input: 'four' });
    await client.sees((events) => events.filter(isLast).length === 4);
    const order = (id: string | undefined): string[] =>
      client.events
        .filter(({ type, stream_id }) => stream_id === id && /created|completed/.test(type))
        .map(({ type }) => type);
    const one = ['response.created', 'response.completed'];
    expect([order('a'), order('b'), order(undefined)]).toEqual([[...one, ...one], one, one]);
    const begun = client.events.findIndex(
      ({ type, stream_id }) => type === 'response.created' && stream_id === 'b',
    );
    const ended = client.events.findIndex(
      ({ type, stream_id }) => type === 'response.completed' && stream_id === 'a',
    );
    expect(begun).toBeLessThan(ended);
  });

  test('errors name their stream, and the others go on', async () => {
    await using client = await open();
    client.create({ model: 'slow', input: 'one', stream_id: 'a' });
    client.create({ model: 'cut', input: 'two', stream_id: 'b' });
    client.create({ model: 'nothing-serves-this', input: 'three', stream_id: 'c' });
    await client.sees((events) => events.filter(isLast).length === 3);
    const last = (id: string) => client.events.find((event) => event.stream_id === id && isLast(event));
    expect(last('a')).toMatchObject({ type: 'response.completed' });
    expect(last('b')).toMatchObject({ type: 'error', status: 502, error: { code: 'upstream_disconnected' } });
    expect(last('c')).toMatchObject({ type: 'error', status: 404, error: { code: 'model_not_found' } });
  });

  test('the 33rd stream of a connection is an error', async () => {
    await using client = await open();
    for (let index = 0; index <= 32; index++)
      client.create({ model: 'nothing-serves-this', input: '', stream_id: `s-${index}` });
    await client.sees((events) => events.filter(isLast).length === 33);
    const codes = client.events.map(({ error }) => error?.code);
    expect(codes.filter((code) => code === 'websocket_stream_limit_reached')).toHaveLength(1);
    expect(client.events.find(({ error }) => error?.code === 'websocket_stream_limit_reached')).toMatchObject(
      {
        status: 400,
        stream_id: 's-32',
      },
    );
  });
});

describe('continued responses', () => {
  /** The bodies that reach a provider which stores nothing. */
  test.for(['native', 'foreign'])(
    'a response that is not stored is continued with its whole conversation: %s',
    async (model) => {
      await using client = await open();
      const input = [{ type: 'message', role: 'user', content: 'one' }];
      const first = await client.respond({ model, input, store: false });
      const prompt = upstream.ledger.attempts.at(-1)?.bodyBytes ?? 0;
      const second = await client.respond({
        model,
        store: false,
        previous_response_id: first.response?.id,
        input: [{ type: 'message', role: 'user', content: 'two' }],
      });
      expect(second.type).toBe('response.completed');
      const third = await client.respond({
        model,
        store: false,
        previous_response_id: second.response?.id,
        input: 'three',
      });
      expect(third.type).toBe('response.completed');
      // Each request repeats the ones before it.
      expect(upstream.ledger.attempts.at(-1)?.bodyBytes).toBeGreaterThan(2 * prompt);
    },
  );

  test('a stored response is continued by the upstream that holds it, over connections', async () => {
    await using client = await open();
    const first = await client.respond({ model: 'native', input: 'one' });
    await using later = await open();
    const second = await later.respond({
      model: 'native',
      input: 'two',
      previous_response_id: first.response?.id,
    });
    expect(second.type).toBe('response.completed');
  });

  test('the response of another connection, and of another account, is not found', async () => {
    await relay.createAccount('stranger');
    const { secret } = await relay.createKey({ account: 'stranger' });
    await using client = await open();
    await using other = await open();
    await using stranger = await open(secret);
    const kept = await client.respond({ model: 'native', input: 'one', store: false });
    const stored = await client.respond({ model: 'native', input: 'one' });
    for (const [socket, id] of [
      [other, kept.response?.id],
      [stranger, kept.response?.id],
      [stranger, stored.response?.id],
      [client, `resp_${randomUUID()}`],
    ] as const)
      expect(await socket.respond({ model: 'native', input: 'two', previous_response_id: id })).toMatchObject(
        {
          type: 'error',
          status: 400,
          error: { code: 'previous_response_not_found', param: 'previous_response_id' },
        },
      );
  });

  test('a conversation is prepared without a call of a model, and continued', async () => {
    await using client = await open();
    const calls = upstream.ledger.attempts.length;
    const before = (await relay.readLog()).length;
    const members = { instructions: 'één', input: 'one', store: false };
    const prepared = await client.respond({ model: 'native', ...members, generate: false });
    expect(prepared).toMatchObject({
      type: 'response.completed',
      response: { instructions: 'één', output: [], usage: { input_tokens: 0 } },
    });
    expect([upstream.ledger.attempts.length, (await relay.readLog()).length]).toEqual([calls, before]);
    const next = await client.respond({
      model: 'native',
      store: false,
      previous_response_id: prepared.response?.id,
      input: [],
    });
    expect(next.type).toBe('response.completed');
    expect(upstream.ledger.attempts).toHaveLength(calls + 1);
  });

  test.for([
    [{ model: 'nothing-serves-this' }, 'model_not_found'],
    [{ input: 7 }, 'invalid_value'],
  ] as const)(
    'a conversation that no response could continue is not prepared: %s',
    async ([members, code]) => {
      await using client = await open();
      const prepared = await client.respond({ model: 'native', input: 'one', generate: false, ...members });
      expect(prepared).toMatchObject({ type: 'error', error: { code } });
    },
  );
});

describe('the handshake', () => {
  test.for([
    [undefined, 401, 'missing_api_key'],
    ['dbk_wrong', 401, 'invalid_api_key'],
  ] as const)('the key %s is refused as by HTTP', async ([key, status, code]) => {
    const refused = await openResponses({ port: relay.port, key }).catch((error: unknown) => error);
    if (!(refused instanceof HandshakeRefused)) throw new Error('it was opened');
    expect([refused.status, refused.code]).toEqual([status, code]);
    expect(refused.headers).toMatchObject({
      'www-authenticate': 'Bearer',
      'x-request-id': expect.any(String),
    });
  });

  test('a key that may not use the route is refused as by HTTP', async () => {
    const { id, secret } = await relay.createKey();
    await relay.control((control) =>
      control.restrictKey(id, {
        set: { routes: ['/v1/chat/completions'] },
        drop: [],
        clear: false,
        expiresAt: undefined,
        windows: 'keep',
      }),
    );
    const refused = await open(secret).catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 403, code: 'route_not_permitted' });
  });

  test('compression that a client offers is not used', async () => {
    await using client = await openResponses({ port: relay.port, key: relay.key, perMessageDeflate: true });
    expect(client.socket.extensions).toBe('');
    expect(await client.respond({ model: 'native', input: 'hi' })).toMatchObject({
      type: 'response.completed',
    });
  });

  test('a doubled slash of a base URL is tolerated', async () => {
    await using client = await openResponses({ port: relay.port, key: relay.key, path: '/v1//responses/' });
    expect(await client.respond({ model: 'native', input: 'hi' })).toMatchObject({
      type: 'response.completed',
    });
  });
});
