import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { chat } from '../support/client.ts';
import {
  BREAKAGES,
  FAULT_DEADLINES,
  HEALTHY,
  openRequests,
  outcomeOf,
  type Played,
  playFaults,
  settledOf,
  STATUSES,
} from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { expectRefusal } from '../support/wire/raw-http.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { errorObject, INNER_HOST } from '../support/upstream/heads.ts';

const CREDENTIAL = 'sk-upstream-credential-0123456789';
const FAULTS = [...BREAKAGES, ...STATUSES, ...HEALTHY];

let upstream: ScriptedUpstream;
let silent: Server;
let relay: TestRelay;
let played: Played[];
let events: Placed[];
const lines: string[] = [];

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: CREDENTIAL });
  // It takes connections and says nothing: a TLS greeting to it is never answered.
  silent = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => silent.once('listening', resolve));
  relay = await startRelay({
    upstreams: [
      { baseUrl: upstream.baseUrl, apiKey: CREDENTIAL, models: ['s:*'] },
      { baseUrl: `http://127.0.0.1:${await refusedPort()}/v1`, models: ['refused'] },
      { baseUrl: `https://127.0.0.1:${(silent.address() as { port: number }).port}/v1`, models: ['silent'] },
    ],
    env: FAULT_DEADLINES,
    onLine: (line) => lines.push(line),
  });
  ({ played, events } = await playFaults(relay, upstream, FAULTS));
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
  silent?.close();
});

const each = (kind: Played['kind'], script: string): Played => {
  const call = played.find(({ fault, kind: its }) => fault.script === script && its === kind);
  if (!call) throw new Error(`${script} was not played`);
  return call;
};

describe.each(['json', 'sse'] as const)(
  'whatever the upstream does, the client is informed and the log agrees: %s',
  (kind) => {
    test.each(FAULTS)('$script', (fault) => {
      expect(outcomeOf(each(kind, fault.script))).toEqual(fault[kind]);
    });
  },
);

test('the log, the upstream and the clients agree on every call (I1 to I3, I5, P2, P8)', () => {
  const clients = played.map(({ reply }) => reply);
  expect(checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' })).toEqual({
    violations: [],
    unattributed: [],
  });
  expect(events.filter(({ event }) => event.type === 'request.settled')).toHaveLength(FAULTS.length * 2);
});

test('every rejection is an error object with its request id, and Retry-After where a retry may help', () => {
  for (const { reply, fault } of played.filter(({ reply: { status } }) => status !== 200)) {
    const outcome = outcomeOf({ reply, settled: settledOf(events, reply.requestId) as Played['settled'] });
    expectRefusal(
      { status: reply.status ?? 0, headers: reply.headers, body: reply.body },
      outcome.status,
      outcome.code as string,
    );
    const retryAfter = reply.header('retry-after');
    const isHopeless = outcome.status < 500 || outcome.code === 'upstream_unauthorized';
    expect([fault.script, retryAfter !== null]).toEqual([fault.script, !isHopeless]);
    if (retryAfter !== null) expect(retryAfter).toMatch(/^([1-9]|[1-5]\d|60)$/);
  }
});

test('a stream error is the last event, carries the request id, and no [DONE] is added', () => {
  const streams = played.filter(({ kind, reply }) => kind === 'sse' && reply.status === 200);
  const errors = streams.filter(({ fault }) => fault.sse.code !== null);
  expect(errors.length).toBeGreaterThan(10);
  for (const { reply, fault } of errors) {
    expect([fault.script, reply.sawDone, reply.finished]).toEqual([fault.script, false, true]);
    expect(reply.events.at(-1)).toHaveProperty('error');
    if (fault.sse.code !== 'server_error') {
      expect(reply.events.at(-1)).toMatchObject({
        error: { type: 'server_error', param: null },
        request_id: reply.requestId,
      });
    }
  }
  for (const { reply, fault } of streams.filter(({ fault: { sse } }) => sse.code === null)) {
    const sent = upstream.ledger.attempts.find(({ id }) => id === reply.upstreamId);
    expect([fault.script, reply.sawDone]).toEqual([
      fault.script,
      sent?.doneSent === true && fault.script !== 'length=-5',
    ]);
  }
});

test('what the provider says of a fault in the request reaches the client in its words', () => {
  for (const status of [400, 404, 413, 422]) {
    const { error } = errorObject(status, null) as { error: { message: string } };
    for (const kind of ['json', 'sse'] as const) {
      expect(each(kind, `status=${status}`).reply.json).toMatchObject({ error: { message: error.message } });
    }
  }
});

test("no reply reports the credential, the provider's pages or its hosts", () => {
  for (const { reply, fault } of played) {
    const text = reply.raw.toString('latin1');
    for (const secret of [
      CREDENTIAL,
      INNER_HOST,
      `127.0.0.1:${upstream.port}`,
      '<html',
      'org-scripted',
      'req_upstream',
    ]) {
      expect([fault.script, secret, text.includes(secret)]).toEqual([fault.script, secret, false]);
    }
  }
});

test('every call that failed or was rejected leaves one line, with its id, its class and its reason', () => {
  const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const { reply, fault, settled } of played.filter(
    ({ settled: { end_reason } }) => end_reason !== 'completed',
  )) {
    const own = parsed.filter(({ request }) => request === reply.requestId);
    const ends = own.filter(({ msg }) => msg !== 'upstream attempt failed');
    expect([fault.script, ends.length]).toEqual([fault.script, 1]);
    expect(ends[0]).toMatchObject({
      msg: expect.stringMatching(/^request (failed|ended early)$/),
      level: settled.end_reason === 'upstream_rejected' ? 'info' : 'warn',
      reason: settled.end_reason,
      status: settled.status,
      upstream: 'upstream-1',
    });
  }
  expect(parsed.filter(({ msg }) => msg === 'upstream attempt failed').length).toBeGreaterThan(50);
  expect(parsed.filter(({ msg }) => msg === 'circuit opened')).toContainEqual(
    expect.objectContaining({ level: 'warn', upstream: 'upstream-1', open_ms: expect.any(Number) }),
  );
  expect(parsed.every(({ error }) => typeof error !== 'string')).toBe(true);
});

test('no line contains a key, a credential, a prompt, a reply or words of the provider', () => {
  const text = lines.join('\n');
  for (const secret of [CREDENTIAL, relay.key, 'org-scripted', 'req_upstream', '<html', INNER_HOST])
    expect([secret, text.includes(secret)]).toEqual([secret, false]);
  for (const { reply } of played)
    for (const word of reply.raw.toString('latin1').match(/"content":"[^"]{8,}"/g) ?? [])
      expect(text.includes(word.slice(11, -1))).toBe(false);
});

test('a redirect is not followed', () => {
  expect(upstream.ledger.visits).toEqual([]);
});

test('Retry-After of the provider is passed on up to a bound', async () => {
  const hint = async (script: string): Promise<string | null> => {
    const reply = await chat({
      port: relay.port,
      key: relay.key,
      body: { model: `s:${script}`, messages: [] },
    });
    return reply.header('retry-after');
  };
  expect(await hint('status=429,retry=7')).toBe('7');
  expect(await hint('status=429,retry=3600')).toBe('60');
  expect(await hint('status=429,retry=0')).toBe('1');
  expect(await hint('status=429,retry=soon')).toBe('5');
  expect(await hint('status=429,retry=Wed; 21 Oct 2026 07:28:00 GMT')).toBe('5');
  expect(await hint('status=503,retry=20')).toBe('20');
});

test.each([
  ['refused', 502, 'upstream_unreachable', 'upstream_unreachable'],
  ['silent', 504, 'upstream_timeout', 'timed_out'],
] as const)(
  'a provider that is %s is a %i, settled once with nothing used',
  async (model, status, code, reason) => {
    const calls = await Promise.all(
      [true, false].map((stream) =>
        chat({ port: relay.port, key: relay.key, body: { model, messages: [], stream } }),
      ),
    );
    const log = await relay.waitFor((all) => openRequests(all).length === 0);
    for (const reply of calls) {
      const settled = settledOf(log, reply.requestId) as Played['settled'];
      expect(outcomeOf({ reply, settled })).toEqual({ status, code, reason, source: 'none' });
      expect(settled).toMatchObject({ input_tokens: 0, output_tokens: 0 });
      expect(lines.filter((line) => line.includes(reply.requestId ?? '')).length).toBeGreaterThan(0);
    }
  },
);

test('afterwards nothing runs and no connection to an upstream is left', async () => {
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
  // A server stops only when nothing runs any more, and would wait for minutes.
  await relay.stop();
  await expect.poll(() => upstream.connections).toBe(0);
});
