import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Bridge, openBridge } from '#server/providers/bridge/bridge.ts';
import { modelsOf } from '#server/providers/bridge/package.ts';
import { bridged, fixtureText, startCall } from '../../support/providers/bridged.ts';
import { type ScriptedProvider, startProvider } from '../../support/upstream/scripted-provider.ts';

const SECRET = 'credential-of-nobody';
const GONE = new Error('nobody wants the rest');
let provider: ScriptedProvider;
let bridge: Bridge;
const unhandled: unknown[] = [];
const note = (error: unknown): void => void unhandled.push(error);

beforeAll(async () => {
  provider = await startProvider();
  bridge = openBridge({
    terms: { package: '@ai-sdk/google', base_url: provider.url },
    secret: SECRET,
    fetch,
  });
  process.on('unhandledRejection', note);
});
afterAll(async () => {
  await provider[Symbol.asyncDispose]();
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});
beforeEach(() => {
  provider.asked.length = 0;
  provider.answers.length = 0;
});

describe('a call that is given up', () => {
  test("in the midst of its stream closes the provider's connection, and reports nothing more", async () => {
    provider.answers.push({ fixture: 'google-cut.sse', ending: 'hang' });
    const call = startCall(bridge, { stream: true });
    await call.data();
    call.controller.abort(GONE);
    const reported = await call.reported;
    expect(reported).toMatchObject({ endings: ['error'], error: GONE });
    expect(call.controller).toMatchObject({ aborted: true, reason: GONE });
    expect(await provider.asked[0]?.closed).toBe('early');
  });

  test.each([{ stream: true }, {}])(
    'before the provider has said anything does so, too: %j',
    async (request) => {
      provider.answers.push({ ending: 'hang' });
      const call = startCall(bridge, request);
      await provider.until(1);
      call.controller.abort(GONE);
      expect(await call.reported).toMatchObject({ endings: ['error'], error: GONE, status: null });
      expect(await provider.asked[0]?.closed).toBe('early');
    },
  );

  test('while it is paused does so, too', async () => {
    provider.answers.push({ fixture: 'google-text.sse', ending: 'hang' });
    const call = startCall(bridge, { stream: true });
    call.controller.pause();
    await provider.until(1);
    call.controller.abort(GONE);
    expect(await call.reported).toMatchObject({ endings: ['error'], text: '' });
    expect(await provider.asked[0]?.closed).toBe('early');
  });

  test('when its head comes is reported no more than that', async () => {
    provider.answers.push({ fixture: 'google-text.json' });
    const call = startCall(bridge, {}, null, { head: (controller) => controller.abort(GONE) });
    expect(await call.reported).toMatchObject({ status: 200, text: '', endings: ['error'] });
  });

  test('at once is not sent', async () => {
    const call = startCall(bridge, { stream: true });
    call.controller.abort(GONE);
    expect(await call.reported).toMatchObject({ endings: ['error'], error: GONE });
    // A call behind it is the first that the provider hears of.
    provider.answers.push({ fixture: 'google-text.json' });
    await bridged(bridge, {});
    expect(provider.asked.map(({ path }) => path)).toEqual(['/models/m:generateContent']);
  });
});

describe('a handler that takes nothing', () => {
  test('is reported nothing until it takes more, and then all of it', async () => {
    provider.answers.push({ fixture: 'google-text.sse' });
    let pauses = 0;
    const call = startCall(bridge, { stream: true }, null, {
      data(controller) {
        controller.pause();
        pauses++;
        setTimeout(() => controller.resume(), 5);
      },
    });
    const { chat, endings } = await call.reported;
    expect(endings).toEqual(['end']);
    expect(chat).toMatchObject({ text: 'The tide turns at noon — 潮汐.', sawDone: true });
    expect(pauses).toBeGreaterThan(3);
  });

  test('makes the provider wait, however much has gone through before', async () => {
    const event = fixtureText('google-cut.sse').split('\r\n\r\n')[0] as string;
    provider.answers.push({
      text: `${event.replace('The tide', 'tide '.repeat(20_000))}\r\n\r\n`,
      headers: { 'content-type': 'text/event-stream' },
      ending: 'flood',
    });
    const call = startCall(bridge, { stream: true });
    while (call.bytes() < 10 * 1024 ** 2) await call.data();
    call.controller.pause();
    const asked = provider.asked[0] as ScriptedProvider['asked'][0];
    const taken = call.bytes();
    // What the buffers on the way hold is taken, and then no more.
    let before = -1;
    while (before !== asked.writtenBytes) {
      before = asked.writtenBytes;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(call.bytes()).toBe(taken);
    call.controller.abort(GONE);
    expect(await call.reported).toMatchObject({ endings: ['error'] });
    expect(await asked.closed).toBe('early');
  });
});

describe('a provider that sends too much is cut off:', () => {
  test('an event without an end', async () => {
    provider.answers.push({
      text: `data: ${'x'.repeat(100_000)}`,
      headers: { 'content-type': 'text/event-stream' },
      ending: 'flood',
    });
    expect(await bridged(bridge, { stream: true })).toMatchObject({ status: null, endings: ['error'] });
    expect(await provider.asked[0]?.closed).toBe('early');
    expect(provider.asked[0]?.writtenBytes).toBeLessThan(64 * 1024 ** 2);
  });

  test('a reply without an end', async () => {
    provider.answers.push({ text: ' '.repeat(1_000_000), ending: 'flood' });
    expect(await bridged(bridge, {})).toMatchObject({ status: 200, text: '', endings: ['error'] });
    expect(await provider.asked[0]?.closed).toBe('early');
  });

  test('an error without an end keeps its status', async () => {
    provider.answers.push({
      text: 'x'.repeat(100_000),
      status: 503,
      headers: { 'retry-after': '9' },
      ending: 'flood',
    });
    const { status, headers, endings } = await bridged(bridge, {});
    expect({ status, endings, after: headers['retry-after'] }).toEqual({
      status: 503,
      endings: ['end'],
      after: '9',
    });
    expect(await provider.asked[0]?.closed).toBe('early');
  });
});

test('comments of a provider count as nothing, and the reply goes on behind them', async () => {
  provider.answers.push({
    text: `: ping\r\n\r\n${fixtureText('google-text.sse')}`,
    headers: { 'content-type': 'text/event-stream' },
  });
  expect((await bridged(bridge, { stream: true })).chat).toMatchObject({
    text: 'The tide turns at noon — 潮汐.',
    sawDone: true,
  });
});

test('no redirect is followed', async () => {
  await using elsewhere = await startProvider();
  provider.answers.push({ status: 307, headers: { location: `${elsewhere.url}/models/m:generateContent` } });
  expect(await bridged(bridge, {})).toMatchObject({ status: 307, endings: ['end'] });
  expect(elsewhere.asked).toEqual([]);
});

test('a compressed reply is the same reply, and one in an unknown way is none', async () => {
  provider.answers.push({ fixture: 'google-text.json' }, { fixture: 'google-text.json', isCompressed: true });
  const { text } = await bridged(bridge, {});
  expect(text).not.toBe('');
  expect(await bridged(bridge, {})).toMatchObject({ status: 200, text, endings: ['end'] });
  expect(provider.asked[1]?.headers).toMatchObject({ 'accept-encoding': 'identity' });
  provider.answers.push({ text: 'x', headers: { 'content-encoding': 'compress' } });
  provider.answers.shift();
  expect(await bridged(bridge, {})).toMatchObject({ status: null, endings: ['error'] });
});

test('every request goes through the fetch that was given', async () => {
  const seen: string[] = [];
  const guarded = openBridge({
    terms: { package: '@ai-sdk/google', base_url: provider.url },
    secret: SECRET,
    fetch: (input) => {
      seen.push(typeof input === 'string' ? input : 'something else');
      return Promise.reject(Object.assign(new Error('this address is not allowed'), { code: 'EADDRESS' }));
    },
  });
  expect(await bridged(guarded, { stream: true })).toMatchObject({
    endings: ['error'],
    error: { code: 'EADDRESS' },
  });
  expect(seen).toEqual([`${provider.url}/models/m:streamGenerateContent?alt=sse`]);
});

describe("a package that can't be used", () => {
  const open = (name: string): Bridge => openBridge({ terms: { package: name }, secret: SECRET, fetch });

  test.each([
    [
      '@ai-sdk/no-such-provider',
      'provider_package_missing',
      'The package @ai-sdk/no-such-provider is not installed. ' +
        "In Daybook's directory run: npm install @ai-sdk/no-such-provider",
    ],
    ['fs', 'provider_package_missing', 'npm install fs'],
    ['express', 'provider_package_unfit', 'The package express is not a provider of the AI SDK'],
    [
      '@ai-sdk/provider-utils',
      'provider_package_unfit',
      "creates no provider from the upstream's options (it is not known which of its functions does it)",
    ],
  ])('makes each call a 502 that says why, and the operator a line: %s', async (name, code, line) => {
    const unfit = open(name);
    const { status, chat, endings } = await bridged(unfit, { stream: true });
    expect({ status, endings, json: chat.json }).toEqual({
      status: 502,
      endings: ['end'],
      json: {
        error: { message: expect.stringContaining(line) as string, type: 'server_error', param: null, code },
      },
    });
    expect(await unfit.check()).toContain(line);
  });
});

describe('the provider of a package', () => {
  const gives = (specificationVersion: string) => () => ({
    languageModel: (modelId: string) => ({ specificationVersion, modelId }),
  });

  test('is made by the function that has one ready-made beside it, under whichever of its names', () => {
    const create = gives('v3');
    expect(
      modelsOf(
        'p',
        { createMyCloud: create, createCloud: create, myCloud: {}, createStore: () => 'none' },
        {},
      )('m'),
    ).toMatchObject({ modelId: 'm' });
    expect(
      modelsOf(
        'p',
        {
          createCloud: () =>
            Object.assign((modelId: string) => ({ specificationVersion: 'v4', modelId }), { chat: null }),
        },
        {},
      )('m'),
    ).toMatchObject({ modelId: 'm' });
  });

  test.each([
    [
      'of a specification that is too old',
      { createCloud: gives('v2') },
      "The package p implements version v2 of the AI SDK's specification, " +
        'and Daybook supports v3 and v4. Install a newer one: npm install p@latest',
    ],
    ['of no function', { cloud: {} }, 'it is not known which of its functions does it'],
    [
      'that fails for want of an option',
      {
        createCloud: () => {
          throw Object.assign(new Error('secret words'), { name: 'AI_LoadSettingError' });
        },
      },
      '(AI_LoadSettingError)',
    ],
    ['that comes later', { createCloud: () => Promise.reject(new Error('late')) }, 'its function gives none'],
  ])('%s is refused in one line for the operator', (_what, exported, line) => {
    expect(() => modelsOf('p', exported, {})('m')).toThrow(line);
  });
});

test('a package that fits has nothing to say to the operator', async () => {
  expect(await bridge.check()).toBeNull();
  expect(
    await openBridge({
      terms: { package: '@ai-sdk/openai-compatible', base_url: provider.url, options: { name: 'x' } },
      secret: SECRET,
      fetch,
    }).check(),
  ).toBeNull();
});
