import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { withControl } from '#server/control/control.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';
import {
  CHAT_CLIENTS,
  GEMINI_CLIENT,
  MESSAGES_CLIENT,
  RESPONSES_CLIENT,
} from '../support/providers/client-flows.ts';
import { type Flows, PICTURE, RESULTS, type To } from '../support/providers/flows.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import type { Attempt } from '../support/upstream/ledger.ts';

/** What people really use, through every adapter: anyone who answers, the client sees the same. */

/** The first letter of a model says whose it is. The upstream `c` supports chat completions alone. */
const ADAPTERS = { o: 'openai', c: 'openai', a: 'anthropic', g: 'bridge' } as const;
type Letter = keyof typeof ADAPTERS;
/** Each asks each adapter in its own protocol, which is translated where the upstream has another. */
const CLIENTS: Readonly<Record<string, Flows>> = {
  ...CHAT_CLIENTS,
  ...MESSAGES_CLIENT,
  ...RESPONSES_CLIENT,
  ...GEMINI_CLIENT,
};
const SCRIPTS = {
  text: 'tokens=6,cached=2',
  tools: 'tokens=8,tools=2',
  json: 'tokens=2,text=json',
  long: 'tokens=500,every=5ms',
};

let upstream: ScriptedUpstream;
let relay: TestRelay;
let to: To;
/** Where the log and the upstream's ledger stood before the first test. */
let before: { events: number; attempts: number };

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: 'of-the-relay' });
  const entry = { baseUrl: upstream.baseUrl, apiKey: 'of-the-relay' };
  relay = await startRelay({
    upstreams: [
      { ...entry, name: 'o', models: ['o-*'], routes: RELAYED_ROUTES },
      { ...entry, name: 'c', models: ['c-*'], routes: ['/v1/chat/completions'] },
      { ...entry, name: 'a', baseUrl: upstream.url, models: ['a-*'], provider: 'anthropic' },
    ],
  });
  to = { baseUrl: relay.baseUrl, key: relay.key };
  for (const letter of Object.keys(ADAPTERS))
    for (const [name, script] of Object.entries(SCRIPTS)) upstream.script(`${letter}-${name}`, script);
  await withControl(relay.store, 'test', async (control, client) => {
    const upstreams = new UpstreamControl(control, client, {
      upstreams: [],
      DAYBOOK_DATA: relay.dataDir,
      DAYBOOK_MASTER_KEY_FILE: undefined,
    });
    await upstreams.addUpstream('g', {
      provider: 'bridge',
      package: '@ai-sdk/google',
      base_url: `${upstream.url}/v1beta`,
      models: ['g-*'],
      network: 'private',
      on_client_disconnect: 'cancel',
      retries: 0,
      paused: false,
    });
    await upstreams.addCredential('g', { label: 'main', secret: 'of-the-relay' });
  });
  await until(
    async () => (await CHAT_CLIENTS.openai.chat(to, 'g-text').catch(() => null))?.text ?? null,
    (text) => text !== null,
    'the bridge',
  );
  // A client asks again where the server does not know the new upstream's credential yet, and that call is
  // settled, too.
  before = { events: (await settledLog()).length, attempts: upstream.ledger.attempts.length };
});

const settledLog = () => relay.waitFor((events) => openRequests(events).length === 0);

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const lastBody = (): string =>
  upstream.ledger.requestBody(upstream.ledger.attempts.at(-1)?.attempt ?? 0).toString();
const TEXT = 'tok0 tok1 tok2 tok3 tok4 tok5 ';

describe.each(Object.entries(ADAPTERS) as [Letter, string][])('%s: the adapter %s', (letter) => {
  describe.each(Object.entries(CLIENTS))('for %s', (_, flows) => {
    test('chats', async () => {
      expect(await flows.chat(to, `${letter}-text`)).toEqual({ text: TEXT, outputTokens: 6 });
    });

    test('streams, piece by piece', async () => {
      const pieces = await flows.stream(to, `${letter}-text`);
      expect(pieces.join('')).toBe(TEXT);
      expect(pieces.length).toBe(6);
    });

    test('calls tools in parallel, and is reported their results', async () => {
      const { calls, text } = await flows.tools(to, `${letter}-tools`, `${letter}-text`);
      expect(calls).toEqual([
        { name: 'tool_0', input: { text: 'tok0 tok1 tok2 tok3 ' } },
        { name: 'tool_1', input: { text: 'tok4 tok5 tok6 tok7 ' } },
      ]);
      expect(text).toBe(TEXT);
      for (const reported of [...RESULTS, 'tok4 tok5 tok6 tok7 ', 'tool_1'])
        expect(lastBody()).toContain(reported);
    });

    test('shows a picture', async () => {
      expect(await flows.image(to, `${letter}-text`)).toBe(TEXT);
      expect(lastBody()).toContain(PICTURE);
    });

    test('gets an object of the shape that it asked for', async () => {
      expect(await flows.structured(to, `${letter}-json`)).toEqual({ text: 'tok0 tok1 ' });
      expect(lastBody()).toContain('"required":["text"]');
    });

    test('leaves, and the upstream is left', async () => {
      await flows.abort(to, `${letter}-long`);
      await upstream.ledger.until((rows) => rows.at(-1)?.endedAt !== null);
      expect(upstream.ledger.attempts.at(-1)).toMatchObject({
        model: `${letter}-long`,
        ended: 'client_closed',
      });
    });
  });
});

test('each call was settled once, with reported usage, or counted usage where the client left', async () => {
  const settled = (await settledLog())
    .slice(before.events)
    .flatMap(({ event }) => (event.type === 'request.settled' ? [event] : []));
  for (const letter of Object.keys(ADAPTERS) as Letter[]) {
    const own = settled.filter(({ upstream: name }) => name === letter);
    const rows = upstream.ledger.attempts
      .slice(before.attempts)
      .filter(({ model }) => model?.startsWith(`${letter}-`));
    const left = rows.filter(({ ended }) => ended === 'client_closed').length;
    expect(left).toBe(Object.keys(CLIENTS).length);
    expect(
      own
        .map(({ end_reason: reason, usage_source: source }) => `${reason} ${source}`)
        .filter((each) => each !== 'completed provider'),
    ).toEqual(Array(left).fill('client_disconnected counted'));
    expect(own.length).toBe(rows.length);
    const reported = (of: readonly Attempt[]): number =>
      of.reduce(
        (sum, { usageReported: usage, ended }) =>
          sum + (ended === 'complete' && usage ? usage.prompt + usage.completion : 0),
        0,
      );
    expect(
      own.reduce(
        (sum, { end_reason: reason, input_tokens: input, output_tokens: output }) =>
          sum + (reason === 'completed' ? input + output : 0),
        0,
      ),
    ).toBe(reported(rows));
  }
});
