import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EndReason, UsageSource } from '#db/events/endings.ts';
import type { EventOf } from '#db/events/events.ts';
import { IMAGE_TOKENS_TYPICAL } from '#server/limits/bounds.ts';
import { chat, type ChatOptions, type ChatReply } from '../support/client.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { rawRequest } from '../support/wire/raw-http.ts';
import { footprint, hasHadItsTurn, startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import type { Attempt } from '../support/upstream/ledger.ts';

type Settled = EventOf<'request.settled'>;

let upstream: ScriptedUpstream;
let relay: TestRelay;
/** Every client of this file, for the identity at its end. */
const clients: ChatReply[] = [];

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type Phase = {
  phase: string;
  script: string;
  stream: boolean;
  leave: Pick<ChatOptions, 'abortAt' | 'abortAfterTokens'> | 'waiting';
  /** Null: the client left before there was a request to use of. */
  ending: { reason: EndReason; source: UsageSource; status: number } | null;
};

const GONE = { reason: 'client_disconnected', source: 'estimated', status: 499 } as const;
const COUNTED = { reason: 'client_disconnected', source: 'counted', status: 200 } as const;

const PHASES: Phase[] = [
  {
    phase: 'when connected',
    script: 'tokens=5',
    stream: true,
    leave: { abortAt: 'connected' },
    ending: null,
  },
  {
    phase: 'with half of the body sent',
    script: 'tokens=5',
    stream: true,
    leave: { abortAt: 'half_body' },
    ending: null,
  },
  {
    phase: 'while the upstream is silent, SSE',
    script: 'end=hang@head',
    stream: true,
    leave: 'waiting',
    ending: GONE,
  },
  {
    phase: 'while the upstream is silent, JSON',
    script: 'end=hang@head',
    stream: false,
    leave: 'waiting',
    ending: GONE,
  },
  {
    phase: 'while a JSON reply is under way',
    script: 'tokens=200,every=20ms',
    stream: false,
    leave: 'waiting',
    ending: GONE,
  },
  { phase: 'at the head', script: 'first=60s', stream: true, leave: { abortAt: 'head' }, ending: COUNTED },
  {
    phase: 'at the first token',
    script: 'tokens=500,every=20ms',
    stream: true,
    leave: { abortAfterTokens: 1 },
    ending: COUNTED,
  },
  {
    phase: 'in mid-stream',
    script: 'tokens=500,every=5ms',
    stream: true,
    leave: { abortAfterTokens: 20 },
    ending: COUNTED,
  },
  {
    phase: 'in mid-stream of an upstream that has fallen silent',
    script: 'end=hang@7',
    stream: true,
    leave: { abortAfterTokens: 7 },
    ending: COUNTED,
  },
  {
    phase: 'in mid-stream with usage on each chunk',
    script: 'tokens=500,every=5ms,usage=every',
    stream: true,
    leave: { abortAfterTokens: 20 },
    ending: { ...COUNTED, source: 'provider' },
  },
  {
    phase: 'after the finish chunk',
    script: 'end=hang@finish',
    stream: true,
    leave: { abortAt: 'finish' },
    ending: COUNTED,
  },
  {
    phase: 'after the finish chunk with usage on it',
    script: 'end=hang@finish,usage=finish',
    stream: true,
    leave: { abortAt: 'finish' },
    ending: { ...COUNTED, source: 'provider' },
  },
];

describe.each(['close', 'reset'] as const)(
  'a client that leaves ends the call at the upstream at once, settled with everything that is known: by %s',
  (abortBy) => {
    test.each(PHASES)('$phase', async ({ script, stream, leave, ending }) => {
      const before = await footprint(relay, upstream);
      const user = randomUUID();
      const signal = new AbortController();
      const options = leave === 'waiting' ? { signal: signal.signal } : leave;
      const body = { model: `s:${script}`, messages: [], user, stream };
      const called = chat({ port: relay.port, key: relay.key, body, abortBy, ...options });
      if (leave === 'waiting') {
        await upstream.ledger.until(() => upstream.attemptsOf(user).length === 1);
        signal.abort();
      }
      const reply = await called;
      clients.push(reply);
      expect(reply.aborted).toBe(true);

      if (ending === null) {
        // The relay has surely noticed when it has answered someone who came later.
        await hasHadItsTurn(relay.port);
        expect(await footprint(relay, upstream)).toEqual(before);
        return;
      }
      await upstream.ledger.until(() => upstream.attemptsOf(user).every(({ endedAt }) => endedAt !== null));
      const attempt = upstream.attemptsOf(user)[0] as Attempt;
      expect([attempt.clientClosedEarly, attempt.ended]).toEqual([
        true,
        script.includes('hang') ? 'hung' : 'client_closed',
      ]);

      const events = await relay.waitFor((log) => openRequests(log).length === 0);
      const settled = events.map(({ event }) => event).findLast((event) => event.type === 'request.settled');
      expect(settled).toMatchObject({
        end_reason: ending.reason,
        usage_source: ending.source,
        status: ending.status,
      });
    });
  },
);

test.each(['usage', 'done'] as const)(
  'a client that leaves with %s, when all has come, changes nothing of a completed call',
  async (abortAt) => {
    const body = {
      model: 's:tokens=9',
      messages: [],
      user: randomUUID(),
      stream: true,
      stream_options: { include_usage: true },
    };
    const reply = await chat({ port: relay.port, key: relay.key, body, abortAt });
    clients.push(reply);
    const events = await relay.waitFor((log) => settledOf(log, reply.requestId) !== undefined);
    expect(settledOf(events, reply.requestId)).toMatchObject({ usage_source: 'provider', output_tokens: 9 });
  },
);

test('a call without a report is charged by the bytes per token of earlier prompts', async () => {
  const call = async (
    script: string,
    stream: boolean,
    content: unknown,
  ): Promise<Settled & { body_bytes: number }> => {
    upstream.script('measured', script);
    const body = { model: 'measured', messages: [{ role: 'user', content }], user: randomUUID(), stream };
    const reply = await chat({ port: relay.port, key: relay.key, body });
    clients.push(reply);
    const events = await relay.waitFor((log) => settledOf(log, reply.requestId) !== undefined);
    const accepted = events.map(({ event }) => event).findLast(({ type }) => type === 'request.accepted');
    const { body_bytes } = accepted as EventOf<'request.accepted'>;
    return { ...(settledOf(events, reply.requestId) as Settled), body_bytes };
  };
  const text = 'A sentence of some words. '.repeat(40);
  const image = {
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${'iVBORw0KGgo'.repeat(9_000)}` },
  };
  let bytes = 0;
  let tokens = 0;
  for (const prompt of [300, 310, 320]) {
    const { body_bytes, input_tokens } = await call(`tokens=3,prompt=${prompt}`, true, text);
    bytes += body_bytes - bytes / 32;
    tokens += input_tokens - tokens / 32;
  }
  // Neither a report of an image nor a call without a report is learned from.
  await call('tokens=3,prompt=1600', true, [image]);
  for (const stream of [true, false]) {
    const { body_bytes, ...settled } = await call('tokens=3,usage=never', stream, text + text);
    expect(settled).toMatchObject({
      usage_source: stream ? 'counted' : 'estimated',
      input_tokens: Math.ceil((body_bytes * tokens) / bytes),
    });
  }
  const { input_tokens } = await call('tokens=3,usage=never', true, [image, { type: 'text', text }]);
  expect(input_tokens).toBeGreaterThan(300 + IMAGE_TOKENS_TYPICAL);
  expect(input_tokens).toBeLessThan(400 + IMAGE_TOKENS_TYPICAL);
});

test('a hundred clients that leave at random moments leave no call behind', async () => {
  const leavers = Array.from({ length: 100 }, async (_, n) => {
    const model = `s:tokens=${20 + (n % 7) * 10},every=3ms${n % 3 === 0 ? ',split=random' : ''}`;
    const body = { model, messages: [], user: randomUUID(), stream: n % 4 > 0 };
    return chat({
      port: relay.port,
      key: relay.key,
      body,
      abortAfterTokens: 1 + ((n * 7) % 40),
      abortBy: n % 2 ? 'close' : 'reset',
    });
  });
  clients.push(...(await Promise.all(leavers)));
});

test('afterwards log, upstream and clients agree, nothing runs, and no connection is left', async () => {
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  expect(
    checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' }).violations,
  ).toEqual([]);
  await relay.stop();
  await expect.poll(() => upstream.connections).toBe(0);
});

describe('a client that reads slowly', () => {
  const BYTES = 64 * 1024 * 1024;
  /**
   * What the buffers between upstream and client hold: two sockets' in the kernel, and a few in the process.
   */
  const BUFFERED_BYTES_MAX = 48 * 1024 * 1024;

  test.each([
    ['SSE', 'tokens=256,pad=256KB'],
    ['one endless SSE event', 'tokens=1,pad=64MB'],
  ] as const)('makes the upstream wait, and still gets every byte: %s', async (_name, script) => {
    await using slow = await startRelay({ upstreams: [upstream] });
    const user = randomUUID();
    const body = JSON.stringify({ model: `s:${script}`, messages: [], user, stream: true });
    const socket = connect(slow.port, '127.0.0.1', () => {
      socket.write(rawRequest([`Authorization: Bearer ${slow.key}`, 'Connection: close'], { body }));
    });
    // Nothing listens for data, so nothing is read beyond the first buffer.
    const sent = (): number => upstream.attemptsOf(user)[0]?.bytesSent ?? 0;
    await until(sent, (bytes) => bytes > 1024 * 1024, 'the upstream');
    // Standing still for fifty looks in a row is what waiting looks like from here.
    let seen = { bytes: 0, looks: 0 };
    await until(
      () =>
        (seen =
          sent() === seen.bytes ? { bytes: seen.bytes, looks: seen.looks + 1 } : { bytes: sent(), looks: 0 }),
      ({ looks }) => looks >= 50,
      "the upstream's count of bytes",
    );
    expect(seen.bytes).toBeLessThan(BUFFERED_BYTES_MAX);

    let received = 0;
    socket.on('data', (bytes) => {
      received += bytes.length;
    });
    await new Promise<void>((resolve) => socket.on('close', () => resolve()));
    expect(received).toBeGreaterThan(BYTES);
    const events = await slow.waitFor((log) => openRequests(log).length === 0);
    expect(events.at(-1)?.event).toMatchObject({ type: 'request.settled', end_reason: 'completed' });
  });
});

test('a JSON reply that is larger than any real one is refused whole, and its upstream let go', async () => {
  await using own = await startRelay({ upstreams: [upstream] });
  const user = randomUUID();
  const reply = await chat({
    port: own.port,
    key: own.key,
    body: { model: 's:tokens=1,pad=1GB', messages: [], user },
  });
  expect(reply.status).toBe(502);
  expect(reply.body.toString()).toContain('upstream_error');
  const events = await own.waitFor((log) => openRequests(log).length === 0);
  expect(events.at(-1)?.event).toMatchObject({
    type: 'request.settled',
    end_reason: 'upstream_error',
    usage_source: 'estimated',
  });
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
});
