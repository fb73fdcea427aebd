import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chat, type ChatReply } from '../support/client.ts';
import { requestIdsOf } from '../support/wire/raw-http.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ReplayUpstream, startReplay } from '../support/upstream/replay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { ownHeaders } from '../support/upstream/heads.ts';
import { seededRandom, splitBytes } from '../support/upstream/split.ts';

const FOLDER = path.join(import.meta.dirname, '../fixtures/openai');
const fixture = (name: string): Buffer => readFileSync(path.join(FOLDER, name));
const names = (extension: string): string[] => readdirSync(FOLDER).filter((name) => name.endsWith(extension));

let upstream: ScriptedUpstream;
let replay: ReplayUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  replay = await startReplay();
  relay = await startRelay({
    upstreams: [
      { baseUrl: upstream.baseUrl, name: 'scripted', models: ['s:*', 'ok'] },
      { baseUrl: replay.baseUrl, name: 'replay', models: ['replay*'] },
    ],
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
  await replay?.[Symbol.asyncDispose]();
});

const ask = (model: string, more: object = {}): Promise<ChatReply> =>
  chat({ port: relay.port, key: relay.key, body: { model, messages: [], user: randomUUID(), ...more } });
const ASKING = { stream: true, stream_options: { include_usage: true } };
const NOT_ASKING = { stream: true };

/** The events of a stream, each with its blank line; a rest without one is the last. */
function eventsOf(bytes: Buffer): string[] {
  return bytes.toString('latin1').split(/(?<=\r\n\r\n|(?<!\r)\n\n)/);
}

/** Whether an event only carries usage, by the tests' own reading. */
function isUsageOnly(event: string): boolean {
  try {
    const data = JSON.parse(event.trim().replace(/^data: ?/, '')) as { choices?: unknown[]; usage?: unknown };
    return data.choices?.length === 0 && typeof data.usage === 'object' && data.usage !== null;
  } catch {
    return false;
  }
}

const withoutUsage = (bytes: Buffer): string =>
  eventsOf(bytes)
    .filter((event) => !isUsageOnly(event))
    .join('');

describe("the bytes of a reply are the upstream's, however they are cut and written", () => {
  const SCRIPTS = [
    'tokens=30',
    'tokens=0',
    'tokens=30,text=utf8',
    'tokens=30,text=utf8,split=chars',
    'tokens=30,text=utf8,split=lines',
    'tokens=10,text=utf8,split=1',
    'tokens=30,text=utf8,split=random,seed=7',
    'tokens=30,split=13',
    'tokens=30,eol=crlf',
    'tokens=30,eol=crlf,split=random,seed=3',
    'tokens=10,eol=crlf,split=1',
    'tokens=30,eol=crlf,split=lines',
    'tokens=30,space=no',
    'tokens=30,batch=7',
    'tokens=30,batch=40,split=100',
    'tokens=30,tools=3',
    'tokens=30,tools=2,text=utf8,split=chars',
    'tokens=3,pad=300KB',
    'tokens=2,pad=3MB',
    'tokens=30,framing=close',
    'tokens=30,framing=length',
    'tokens=30,reasoning=5,cached=3',
  ];

  test.each(SCRIPTS)('JSON: %s', async (script) => {
    const reply = await ask(`s:${script}`);
    const { attempt } = upstream.attemptsOf(reply.user ?? '')[0] ?? { attempt: 0 };
    expect([reply.status, reply.header('content-type')]).toEqual([200, 'application/json']);
    if (script !== 'tokens=2,pad=3MB')
      expect(reply.body.equals(upstream.ledger.replyBody(attempt))).toBe(true);
    expect(reply.bytes).toBe(upstream.ledger.attempts[attempt - 1]?.replyBytesSent);
  });

  test.each(
    SCRIPTS.flatMap((script) =>
      ['asked', 'always', 'never', 'finish', 'every', 'nulls', 'broken']
        .slice(0, script.length < 12 ? 7 : 1)
        .map((usage) => `${script},usage=${usage}`),
    ),
  )('SSE: %s', async (script) => {
    const asking = await ask(`s:${script}`, ASKING);
    const notAsking = await ask(`s:${script}`, NOT_ASKING);
    for (const [reply, asked] of [
      [asking, true],
      [notAsking, false],
    ] as const) {
      const row = upstream.attemptsOf(reply.user ?? '')[0];
      expect([reply.status, reply.header('content-type'), row?.askedUsage]).toEqual([
        200,
        'text/event-stream; charset=utf-8',
        true,
      ]);
      if (script.startsWith('tokens=2,pad=3MB')) continue;
      const sent = upstream.ledger.replyBody(row?.attempt ?? 0);
      expect(reply.body.toString('latin1')).toBe(asked ? sent.toString('latin1') : withoutUsage(sent));
    }
    expect(
      notAsking.events.filter((event) => (event as { choices?: unknown[] }).choices?.length === 0),
    ).toEqual([]);
  });
});

describe('recorded replies of real providers pass unchanged, whole and broken ones', () => {
  const cuts = (bytes: Buffer): Buffer[][] => [
    [bytes],
    [...splitBytes(bytes, 1, seededRandom(1))],
    [...splitBytes(bytes, 'random', seededRandom(2))],
    [...splitBytes(bytes, 'random', seededRandom(3))],
    [...splitBytes(bytes, 'chars', seededRandom(1))],
    [...splitBytes(bytes, 'lines', seededRandom(1))],
  ];

  test.each(names('.sse'))('%s', async (name) => {
    const bytes = fixture(name);
    const events = eventsOf(bytes);
    const isWhole = events.some(
      (event) => /"finish_reason": ?"/.test(event) || event.includes('[DONE]') || /"error": ?\{/.test(event),
    );
    for (const pieces of cuts(bytes)) {
      replay.record('replay', { contentType: 'text/event-stream', pieces });
      for (const options of [ASKING, NOT_ASKING]) {
        const received = (await ask('replay', options)).body.toString('latin1');
        const whole = options === ASKING ? bytes.toString('latin1') : withoutUsage(bytes);
        if (isWhole) {
          expect(received).toBe(whole);
          continue;
        }
        // Only whole events of a reply that broke off, then the error, and nothing after it.
        const kept = eventsOf(Buffer.from(whole, 'latin1'))
          .filter((event) => event.endsWith('\n\n'))
          .join('');
        expect(received.slice(0, kept.length)).toBe(kept);
        expect(received.slice(kept.length)).toMatch(
          /^data: \{"error":\{[^\n]*"code":"upstream_disconnected"\},"request_id":"[^"]+"\}\n\n$/,
        );
      }
    }
  });

  test.each(names('.json').filter((name) => !/^(error|broken)/.test(name)))('%s', async (name) => {
    const bytes = fixture(name);
    for (const pieces of cuts(bytes)) {
      replay.record('replay', { contentType: 'application/json; charset=utf-8', pieces });
      const reply = await ask('replay');
      expect([reply.status, reply.header('content-type'), reply.header('content-length')]).toEqual([
        200,
        'application/json; charset=utf-8',
        String(bytes.length),
      ]);
      expect(reply.body.equals(bytes)).toBe(true);
    }
  });

  test('a JSON reply that broke off is a 502, and none of it is passed on', async () => {
    replay.record('replay', { contentType: 'application/json', pieces: [fixture('broken-truncated.json')] });
    const reply = await ask('replay');
    expect([reply.status, (reply.json as { error: { code: string } }).error.code]).toEqual([
      502,
      'upstream_error',
    ]);
  });
});

describe('headers of a reply', () => {
  const FORBIDDEN = ownHeaders(1)
    .map(([name]) => name)
    .filter((name) => name !== 'date' && name !== 'x-request-id' && !name.startsWith('access-control'));

  test.each([
    ['JSON', {}],
    ['SSE', NOT_ASKING],
    ['a refusal', { model: 's:status=429' }],
    ['a fault of the client', { model: 's:status=400' }],
  ])("none of the upstream's own headers reaches the client: %s", async (_name, more) => {
    const reply = await ask('ok', more);
    const seen = reply.headers.map(([name]) => name.toLowerCase());
    expect(FORBIDDEN.length).toBeGreaterThan(8);
    expect(
      seen.filter(
        (name) =>
          FORBIDDEN.includes(name) || name.startsWith('x-ratelimit') || name.startsWith('access-control'),
      ),
    ).toEqual([]);
    expect(requestIdsOf(reply)).toHaveLength(1);
    expect(reply.raw.toString('latin1')).not.toMatch(/org-scripted|proj_scripted|req_upstream|__scripted/);
    expect(new Set(seen).size).toBe(seen.length);
  });

  test("an upstream's cross-origin rules are replaced by our own", async () => {
    const reply = await chat({
      port: relay.port,
      key: relay.key,
      body: { model: 'ok', messages: [] },
      headers: { origin: 'https://page.example' },
    });
    expect(reply.headers.filter(([name]) => name.toLowerCase() === 'access-control-allow-origin')).toEqual([
      ['access-control-allow-origin', '*'],
    ]);
  });
});
