import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events.ts';
import { chat } from '../support/client.ts';
import { type LiveViewer, lookOn } from '../support/live.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts';

/** What a viewer of the live feed is shown, over real sockets. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const call = (model: string, { key = relay.key, stream = true } = {}) =>
  chat({ port: relay.port, key, body: { model, stream, messages: [], user: randomUUID() } });
const look = (query = '', key = relay.key): Promise<LiveViewer> => lookOn({ port: relay.port, key, query });
const eventsOf = (events: readonly Placed[], request: string) => events.filter(({ event }) => 'request' in event && event.request === request);

test('a call is shown while it runs, its tokens rising at most four times a second, and then its end as the log has it', async () => {
  await using viewer = await look();
  const startedMs = performance.now();
  const running = call('s:tokens=120,every=10ms');
  await viewer.sees(({ frames }) => frames('progress').length >= 2);
  expect(viewer.frames('started')).toHaveLength(1);
  expect(viewer.frames('settled')).toEqual([]);
  const reply = await running;
  const tookMs = performance.now() - startedMs;
  await viewer.sees(({ frames }) => frames('settled').length === 1);

  const [started] = viewer.frames('started');
  const [settled] = viewer.frames('settled');
  const request = reply.requestId ?? '';
  const [begun, ended] = eventsOf(await relay.readLog(), request);
  const { type: _started, ...accepted } = begun?.event as EventOf<'request.accepted'>;
  const { type: _settled, ...ending } = ended?.event as EventOf<'request.settled'>;
  const { admitted_minute: _minute, terms_position: _terms, ...shown } = accepted;
  expect(started).toEqual({ ...shown, type: 'started', position: begun?.position, at: begun?.at.toISOString() });
  const { admitted_minute: _endMinute, terms_position: _endTerms, ...figures } = ending;
  expect(settled).toEqual({ ...figures, type: 'settled', outcome: 'completed', position: ended?.position, at: ended?.at.toISOString() });

  const told = viewer.frames('progress').filter((frame) => frame.request === request).map(({ output_tokens }) => output_tokens);
  expect(told).toEqual([...new Set(told)].toSorted((left, right) => left - right));
  expect(told.at(-1)).toBeLessThanOrEqual(120);
  expect(told.length).toBeLessThanOrEqual(Math.ceil(tookMs / 250));
});
