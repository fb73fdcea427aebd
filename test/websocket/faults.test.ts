import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { BREAKAGES, FAULT_DEADLINES, type Fault, openRequests, STATUSES } from '../support/faults.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { isLast, openResponses, type ResponsesEvent } from '../support/responses-socket.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Upstreams that break, and clients that misbehave, over WebSockets: each response ends once. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  const { baseUrl } = upstream;
  relay = await startRelay({
    upstreams: [{ baseUrl, routes: ['/v1/responses'] }],
    env: { ...FAULT_DEADLINES, MAX_BODY_MB: '1' },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type Settled = EventOf<'request.settled'>;
const open = (key = relay.key) => openResponses({ port: relay.port, key });
const settledOf = (events: readonly Placed[]): Settled[] =>
  events.flatMap(({ event }) => (event.type === 'request.settled' ? [event] : []));
const withUser = (user: string) => upstream.attemptsOf(user);

test('each fault of an upstream is an error event with its status, and settled once', async () => {
  // Where five bytes are missing, they are those of the event that ends a response.
  const faults = [...BREAKAGES, ...STATUSES].filter(({ script }) => script !== 'length=-5');
  const before = settledOf(await relay.readLog()).length;
  const sockets = await Promise.all(Array.from({ length: 4 }, () => open()));
  try {
    faults.forEach(({ script }, index) =>
      sockets[index % 4]?.create({ model: `s:${script}`, input: 'hi', store: false, stream_id: `f${index}` }),
    );
    const all = (): ResponsesEvent[] => sockets.flatMap(({ events }) => [...events]);
    await until(
      () => Promise.resolve(all()),
      (events) => events.filter(isLast).length >= faults.length,
      'the ends of all responses',
    );
    const wrong = faults.flatMap((fault, index) =>
      problemsOf(
        fault,
        all().filter(({ stream_id }) => stream_id === `f${index}`),
      ),
    );
    expect(wrong).toEqual([]);
  } finally {
    for (const socket of sockets) await socket[Symbol.asyncDispose]();
  }
  const log = await relay.waitFor(
    (events) => settledOf(events).length >= before + faults.length && openRequests(events).length === 0,
  );
  const settled = settledOf(log).slice(before);
  expect(new Set(settled.map(({ request }) => request)).size).toBe(faults.length);
  const reasons = Object.groupBy(settled, ({ model }) => model);
  expect(
    faults
      .filter(({ script, sse }) => reasons[`s:${script}`]?.[0]?.end_reason !== sse.reason)
      .map(({ script }) => [script, reasons[`s:${script}`]?.map(({ end_reason }) => end_reason)]),
  ).toEqual([]);
});

/** How the events of a response differ from the outcome of its fault. */
function problemsOf({ script, sse }: Fault, events: readonly ResponsesEvent[]): string[] {
  const ended = events.filter(isLast);
  const [last] = ended;
  if (ended.length !== 1 || !last) return [`${script}: ${ended.length} ends`];
  if (events.at(-1) !== last) return [`${script}: events after its end`];
  if (sse.code === null) return last.type === 'error' ? [`${script}: ${JSON.stringify(last)}`] : [];
  const isInBand = sse.status === 200;
  const hasStatus = isInBand ? (last.status ?? 0) >= 500 : last.status === sse.status;
  return hasStatus && last.error?.code === sse.code ? [] : [`${script}: ${JSON.stringify(last)}`];
}

describe('messages that are not responses', () => {
  test.for([
    ['{', 'invalid_json'],
    ['[]', 'invalid_json'],
    ['"text"', 'invalid_json'],
    ['{"type":"response.create","type":"response.create"}', 'duplicate_parameter'],
    ['{"type":"session.update"}', 'invalid_value'],
    ['{"model":"ok"}', 'invalid_value'],
    ['{"type":"response.steer","response_id":"resp_1"}', 'invalid_value'],
    ['{"type":"response.create"}', 'missing_required_parameter'],
    ['{"type":"response.create","model":"ok","background":true}', 'invalid_value'],
    ['{"type":"response.create","model":"ok","input":5}', 'invalid_value'],
    ['{"type":"response.create","model":"ok","generate":"no"}', 'invalid_value'],
    ['{"type":"response.create","model":"ok","previous_response_id":5}', 'invalid_value'],
    ['{"type":"response.create","model":"ok","stream_id":""}', 'invalid_stream_id'],
    ['{"type":"response.create","model":"ok","stream_id":"a b"}', 'invalid_stream_id'],
    [`{"type":"response.create","model":"ok","input":${'['.repeat(200)}`, 'nested_too_deeply'],
  ] as const)('%s is an error, and the connection goes on', async ([message, code]) => {
    await using client = await open();
    client.socket.send(message);
    await client.sees((events) => events.length > 0);
    expect(client.events).toMatchObject([{ type: 'error', status: 400, error: { code } }]);
    expect(client.events[0]?.request_id).toEqual(client.events[0]?.headers?.['x-request-id']);
    expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({ type: 'response.completed' });
  });

  test('a binary message is an error, and the connection goes on', async () => {
    await using client = await open();
    client.socket.send(Buffer.from('{"type":"response.create"}'));
    await client.sees((events) => events.length > 0);
    expect(client.events).toMatchObject([{ type: 'error', status: 400, error: { code: 'invalid_json' } }]);
    expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({ type: 'response.completed' });
  });

  test("Codex' report that it has read a response needs no answer", async () => {
    await using client = await open();
    client.socket.send('{"type":"response.processed","response_id":"resp_1"}');
    expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({ type: 'response.completed' });
    expect(client.events.map(({ type }) => type)).not.toContain('error');
  });

  test('a message larger than a body closes the connection with 1009', async () => {
    await using client = await open();
    client.create({ model: 'ok', input: 'x'.repeat(1024 * 1024) });
    expect(await client.closed).toMatchObject({ code: 1009 });
  });
});

describe('clients that leave or do not read', () => {
  test('a closed connection cancels its running responses, which are charged what was relayed', async () => {
    const user = randomUUID();
    const client = await open();
    client.create({ model: 's:tokens=400,every=10ms', input: 'hi', user });
    client.create({ model: 's:tokens=400,every=10ms', input: 'hi', user, stream_id: 'two' });
    await client.sees(
      (events) =>
        new Set(events.filter(({ type }) => type.endsWith('.delta')).map(({ stream_id }) => stream_id))
          .size === 2,
    );
    await client[Symbol.asyncDispose]();
    await until(
      () => Promise.resolve(withUser(user)),
      (attempts) => attempts.length === 2 && attempts.every(({ ended }) => ended === 'client_closed'),
      'the cancelled calls',
    );
    const log = await relay.waitFor((events) => openRequests(events).length === 0);
    const settled = settledOf(log).slice(-2);
    for (const event of settled) {
      expect(event).toMatchObject({ end_reason: 'client_disconnected', usage_source: 'counted' });
      expect(event.output_tokens).toBeGreaterThan(0);
      expect(event.output_tokens).toBeLessThan(400);
    }
  });

  test('responses that wait when a connection closes are never sent', async () => {
    const user = randomUUID();
    const client = await open();
    client.create({ model: 's:tokens=400,every=10ms', input: 'hi', user });
    client.create({ model: 'ok', input: 'hi', user });
    await client.sees((events) => events.some(({ type }) => type.endsWith('.delta')));
    await client[Symbol.asyncDispose]();
    await relay.waitFor((events) => openRequests(events).length === 0);
    expect(withUser(user)).toHaveLength(1);
  });

  test('a client that does not read throttles its upstream, and what is buffered is bounded', async () => {
    const user = randomUUID();
    // Of 64 MB, at whatever pace: no deadline of the faults may end it.
    await using patient = await startRelay({
      upstreams: [{ baseUrl: upstream.baseUrl, routes: ['/v1/responses'] }],
    });
    await using client = await openResponses({ port: patient.port, key: patient.key });
    client.socket.pause();
    client.create({ model: 's:tokens=4000,pad=16KB', input: 'hi', user });
    const sent = (): number => withUser(user)[0]?.tokensSent ?? 0;
    // What the sockets between have taken stays the same.
    let before = -1;
    await until(
      () => Promise.resolve(sent()),
      (now) => {
        const isStill = now > 0 && now === before;
        before = now;
        return isStill;
      },
      'a paused upstream',
    );
    expect(sent()).toBeLessThan(4_000);
    client.socket.resume();
    await client.sees((events) => events.some(isLast));
    expect(client.events.filter(({ type }) => type === 'response.output_text.delta')).toHaveLength(4_000);
  });

  test('a client that sends malformed messages and reads no answer is disconnected', async () => {
    await using client = await open();
    const socket = (client.socket as unknown as { _socket: { pause(): void } })['_socket'];
    socket.pause();
    const many = setInterval(() => {
      for (let index = 0; index < 2_000; index++) client.socket.send('x');
    }, 1);
    await client.closed;
    clearInterval(many);
  });
});

test('responses of many connections at the same time are complete, and leave nothing open', async () => {
  // Two hundred at once, at whatever pace: no deadline of the faults may end one.
  await using patient = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, routes: ['/v1/responses'] }],
  });
  const { port, key } = patient;
  const clients = await Promise.all(Array.from({ length: 20 }, () => openResponses({ port, key })));
  for (const [index, client] of clients.entries())
    for (let each = 0; each < 10; each++)
      client.create({ model: 's:tokens=5', input: `${index}.${each}`, stream_id: `s${each % 5}` });
  await Promise.all(clients.map(({ sees }) => sees((events) => events.filter(isLast).length === 10)));
  const types = clients.flatMap(({ events }) => events.filter(isLast).map(({ type }) => type));
  expect(new Set(types)).toEqual(new Set(['response.completed']));
  await Promise.all(clients.map(({ close }) => close()));
  await patient.waitFor((events) => openRequests(events).length === 0);
});
