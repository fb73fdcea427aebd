import { afterAll, beforeAll, expect, test } from 'vitest';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Streams of background responses that are read again, from an event on. */

const PATH = '/v1/responses';

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay();
  const model = (script: string) => ({ targets: [{ upstream: 'one', model: `s:${script}` }] });
  await declare(relay, {
    upstreams: { one: { base_url: upstream.baseUrl, routes: [PATH] } },
    models: { short: model('tokens=5,every=40ms'), endless: model('tokens=3,every=40ms,end=hang@2') },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** Makes a streamed background response, and leaves it when its id has come. @returns the id. */
async function leave(model: string, key = relay.key): Promise<string> {
  const reply = await fetch(`http://127.0.0.1:${relay.port}${PATH}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, input: 'hi', background: true, stream: true }),
  });
  let text = '';
  for await (const chunk of reply.body ?? []) {
    text += Buffer.from(chunk).toString();
    const id = /"(resp_[\w-]+)"/.exec(text)?.[1];
    // The end of the loop cancels the body, which closes the connection.
    if (id !== undefined) return id;
  }
  throw new Error('the reply has no id');
}

const attach = (id: string, query: string, key = relay.key): Promise<Response> =>
  fetch(`http://127.0.0.1:${relay.port}${PATH}/${id}?stream=true${query}`, {
    headers: { authorization: `Bearer ${key}` },
  });

type SentEvent = { type: string; sequence_number: number; code?: string };
const eventsOf = (text: string): SentEvent[] =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? '') as SentEvent);

test('a stream is read again from the event after the given one to its end', async () => {
  const id = await leave('short');
  const reply = await attach(id, '&starting_after=1');
  expect(reply.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const events = eventsOf(await reply.text());
  expect(events[0]?.sequence_number).toBe(2);
  expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index + 2));
  expect(events.at(-1)?.type).toBe('response.completed');
  const whole = eventsOf(await (await attach(id, '')).text());
  expect(whole[0]).toMatchObject({ type: 'response.created', sequence_number: 0 });
  await relay.waitFor((log) => openRequests(log).length === 0);
});

test("another account's stream is not found", async () => {
  const id = await leave('short');
  await relay.createAccount('stranger');
  const { secret } = await relay.createKey({ account: 'stranger' });
  expect((await attach(id, '', secret)).status).toBe(404);
});

test('a stream whose client disconnects leaves no connection to the upstream', async () => {
  const id = await leave('endless');
  const before = upstream.connections;
  const gone = new AbortController();
  const reply = await fetch(`http://127.0.0.1:${relay.port}${PATH}/${id}?stream=true`, {
    headers: { authorization: `Bearer ${relay.key}` },
    signal: gone.signal,
  });
  expect(reply.status).toBe(200);
  gone.abort();
  await until(
    () => upstream.connections,
    (open) => open <= before,
    'the connections',
  );
});

test('a stream ends with an error when its key is revoked', async () => {
  const { id: key, secret } = await relay.createKey({ name: 'revoked' });
  const id = await leave('endless', secret);
  const reply = await attach(id, '', secret);
  expect(reply.status).toBe(200);
  await relay.control((control) => control.revokeKey(key));
  expect(eventsOf(await reply.text()).at(-1)).toMatchObject({ type: 'error', code: 'api_key_revoked' });
  await fetch(`http://127.0.0.1:${relay.port}${PATH}/${id}/cancel`, {
    method: 'POST',
    headers: { authorization: `Bearer ${relay.key}` },
  });
});
