import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import type { Dispatcher } from 'undici';
import { ApiError } from '#server/errors/api-error.ts';
import { bridgeRequest } from '#server/providers/bridge/call-options.ts';
import { Exchange } from '#server/providers/bridge/exchange.ts';
import { openBridgeConnection } from '#server/upstreams/bridge-connection.ts';
import { guardedConnector } from '#server/upstreams/connect.ts';
import { bridged, callOf, startCall } from '../../support/providers/bridged.ts';
import { type ScriptedProvider, startProvider } from '../../support/upstream/scripted-provider.ts';

let provider: ScriptedProvider;
beforeAll(async () => {
  provider = await startProvider();
});
afterAll(() => provider[Symbol.asyncDispose]());
afterEach(() => {
  provider.asked.length = 0;
  provider.answers.length = 0;
  vi.useRealTimers();
});

const lineTo = (network: 'public' | 'private') =>
  openBridgeConnection({
    terms: { package: '@ai-sdk/google', base_url: provider.url },
    secret: 'credential-of-nobody',
    credential: null,
    connect: guardedConnector({ network, timeoutMs: 2_000 }),
  });
const over = (line: ReturnType<typeof lineTo>) => ({
  ...line,
  send: (call: Parameters<typeof line.send>[0], handler: Dispatcher.DispatchHandler) =>
    line.send(call, bridgeRequest(call) as never, handler),
});

test('a package reaches no address that its upstream may not', async () => {
  const line = lineTo('public');
  expect(await bridged(over(line), { stream: true })).toMatchObject({
    status: null,
    endings: ['error'],
    error: { code: 'address_refused' },
  });
  expect(provider.asked).toEqual([]);
  await line.destroy();
});

test('JSON and streamed calls use connections of their own pool, which closes after them', async () => {
  const line = lineTo('private');
  provider.answers.push({ fixture: 'google-text.sse' }, { fixture: 'google-text.json' });
  const streamed = bridged(over(line), { stream: true });
  expect((await streamed).chat).toMatchObject({ sawDone: true, finishReason: 'stop' });
  const complete = startCall(over(line), {});
  await Promise.all([line.close(), complete.reported]);
  expect((await complete.reported).chat.json).toMatchObject({ object: 'chat.completion' });
  expect(await line.check()).toBeNull();
});

test('a line that is destroyed ends its calls', async () => {
  const line = lineTo('private');
  provider.answers.push({ fixture: 'google-cut.sse', ending: 'hang' });
  const call = startCall(over(line), { stream: true });
  await call.data();
  await line.destroy();
  expect(await call.reported).toMatchObject({ endings: ['error'] });
  expect(await provider.asked[0]?.closed).toBe('early');
});

test('unsupported fields are reported before anything is sent, so that the call can fall back', () => {
  expect(bridgeRequest(callOf({ user: 'u', n: 2 }))).toMatchObject({ unsupported: ['user', 'n'] });
  const refusal = bridgeRequest(callOf({ tools: [{ type: 'custom' }] }));
  expect(refusal).toBeInstanceOf(ApiError);
  expect(refusal).toMatchObject({ status: 400, param: 'tools[0].type' });
});

test('a provider that only pings keeps its call alive, with a comment every few seconds', () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const reported: string[] = [];
  const exchange = new Exchange({
    onResponseData: (_controller, chunk) => void reported.push(chunk.toString()),
  });
  const after = (ms: number): void => {
    vi.setSystemTime(Date.now() + ms);
    exchange.lives();
  };
  after(60_000);
  exchange.head(200, {});
  exchange.data('data: {}\n\n');
  after(1_000);
  after(5_000);
  after(1_000);
  exchange.pause();
  after(10_000);
  expect(reported).toEqual(['data: {}\n\n', ': working\n\n']);
});
