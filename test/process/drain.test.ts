import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { chat, type ChatOptions, type ChatReply } from '../support/client.ts';
import { openRequests } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { openLog, startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import type { Attempt } from '../support/upstream/ledger.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/**
 * What becomes of the upstream's call when the client leaves is the upstream's own: it is cancelled, or read
 * to its end.
 */

let upstream: ScriptedUpstream;
let relay: TestRelay;
const clients: ChatReply[] = [];

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ env: { UPSTREAM_IDLE_TIMEOUT_MS: '1000' } });
  const base_url = upstream.baseUrl;
  await declare(relay, {
    upstreams: {
      cancel: { base_url, models: ['cancel'], retries: 1 },
      drain: { base_url, models: ['drain'], on_client_disconnect: 'drain', retries: 1 },
      second: { base_url },
    },
    models: {
      both: {
        targets: [
          { upstream: 'drain', model: 's:head=100ms,status=500' },
          { upstream: 'second', model: 'ok', order: 1 },
        ],
      },
    },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type Settled = EventOf<'request.settled'>;
type Left = { reply: ChatReply; attempts: Attempt[]; settled: Settled };

/**
 * Calls a model of this script, and leaves at a token, at the head, or when the upstream has got as far as is
 * said.
 */
async function leave(
  model: string,
  script: string | null,
  stream: boolean,
  at: Pick<ChatOptions, 'abortAt' | 'abortAfterTokens'> | ((attempt: Attempt) => boolean),
): Promise<Left> {
  const [user, signal] = [randomUUID(), new AbortController()];
  if (script !== null) upstream.script(model, script);
  const called = chat({
    port: relay.port,
    key: relay.key,
    body: { model, messages: [], user, stream },
    ...(typeof at === 'function' ? { signal: signal.signal } : at),
  });
  if (typeof at === 'function') {
    await upstream.ledger.until(() => upstream.attemptsOf(user).some(at));
    signal.abort();
  }
  const reply = await called;
  clients.push(reply);
  await upstream.ledger.until(() => upstream.attemptsOf(user).every(({ endedAt }) => endedAt !== null));
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  return { reply, attempts: upstream.attemptsOf(user), settled: lastSettled(events) };
}

const lastSettled = (events: readonly Placed[]): Settled =>
  events.map(({ event }) => event).findLast((event) => event.type === 'request.settled') as Settled;
const usageOf = ({ input_tokens, cache_read_tokens, output_tokens, reasoning_tokens }: Settled): number[] => [
  input_tokens,
  cache_read_tokens,
  output_tokens,
  reasoning_tokens,
];
const reportedTo = ({ usageReported }: Attempt): number[] =>
  usageReported
    ? [usageReported.prompt, usageReported.cached, usageReported.completion, usageReported.reasoning]
    : [];

const arrived = ({ status }: Attempt): boolean => status === null;
const isUnderWay = ({ replyBytesSent }: Attempt): boolean => replyBytesSent > 0;
const PHASES = [
  {
    phase: 'before the head, SSE',
    stream: true,
    script: 'head=150ms,tokens=6,reasoning=4',
    at: arrived,
    status: 499,
  },
  {
    phase: 'before the head, JSON',
    stream: false,
    script: 'head=150ms,tokens=6,cached=2',
    at: arrived,
    status: 499,
  },
  {
    phase: 'while a JSON reply is under way',
    stream: false,
    script: 'tokens=20,every=10ms',
    at: isUnderWay,
    status: 499,
  },
  {
    phase: 'with the first token',
    stream: true,
    script: 'tokens=30,every=10ms,cached=3',
    at: { abortAfterTokens: 1 },
    status: 200,
  },
] as const;

describe.each(PHASES)('a client that leaves $phase', ({ script, stream, at, status }) => {
  test('ends the call at an upstream that is to be cancelled', async () => {
    const { attempts, settled } = await leave('cancel', script, stream, at);
    expect(
      attempts.map(({ clientClosedEarly, ended, finishSent }) => [clientClosedEarly, ended, finishSent]),
    ).toEqual([[true, 'client_closed', false]]);
    expect(settled).toMatchObject({
      end_reason: 'client_disconnected',
      usage_source: status === 200 ? 'counted' : 'estimated',
      status,
      attempt_count: 1,
      upstream: 'cancel',
    });
  });

  test('lets one that is to be drained end, and is charged what that one reports', async () => {
    const { attempts, settled, reply } = await leave('drain', script, stream, at);
    expect(reply.aborted).toBe(true);
    expect(attempts.map(({ clientClosedEarly, ended }) => [clientClosedEarly, ended])).toEqual([
      [false, 'complete'],
    ]);
    expect(settled).toMatchObject({
      end_reason: 'client_disconnected',
      usage_source: 'provider',
      status,
      attempt_count: 1,
      upstream: 'drain',
    });
    expect(usageOf(settled)).toEqual(reportedTo(attempts[0] as Attempt));
  });
});

describe('an upstream that is drained', () => {
  test('and never says what it used is charged what was counted to its end', async () => {
    const { attempts, settled } = await leave('drain', 'tokens=25,every=5ms,usage=never', true, {
      abortAfterTokens: 1,
    });
    expect([attempts[0]?.ended, settled.usage_source, settled.output_tokens]).toEqual([
      'complete',
      'counted',
      25,
    ]);
  });

  test.each([
    ['tokens=20,end=cut@9,every=5ms', 'cut'],
    ['tokens=20,end=hang@9,every=5ms', 'hung'],
  ])('and breaks off is no longer waited for: %s', async (script, ended) => {
    const { attempts, settled } = await leave('drain', script, true, { abortAfterTokens: 1 });
    expect([attempts[0]?.ended, settled.end_reason, settled.usage_source, settled.output_tokens]).toEqual([
      ended,
      'client_disconnected',
      'counted',
      9,
    ]);
  });

  test('and fails when the client has left is the last that is tried', async () => {
    const { attempts, settled } = await leave('both', null, true, arrived);
    expect([
      attempts.length,
      settled.status,
      settled.end_reason,
      settled.attempt_count,
      settled.usage_source,
    ]).toEqual([1, 499, 'client_disconnected', 1, 'none']);
  });
});

test.each(['cancel', 'drain'])(
  'a client that leaves between two tries ends the call at once: %s',
  async (model) => {
    const { attempts, settled } = await leave(
      model,
      'status=503,retry=5|tokens=3',
      true,
      ({ endedAt }) => endedAt !== null,
    );
    expect([
      attempts.length,
      settled.status,
      settled.end_reason,
      settled.attempt_count,
      settled.usage_source,
    ]).toEqual([1, 499, 'client_disconnected', 1, 'none']);
    // The upstream had asked for a wait of so long.
    expect(settled.duration_ms).toBeLessThan(5_000);
  },
);

test('a server that is stopped while it drains stops when it has, and knows what was used', async () => {
  upstream.script('drain', 'tokens=60,every=10ms,cached=5');
  const user = randomUUID();
  clients.push(
    await chat({
      port: relay.port,
      key: relay.key,
      body: { model: 'drain', messages: [], user, stream: true },
      abortAfterTokens: 2,
    }),
  );
  await relay.stop();
  const log = openLog(relay.store);
  const events = await log.read();
  await log.close();
  const [attempt] = upstream.attemptsOf(user) as [Attempt];
  expect([attempt.ended, attempt.clientClosedEarly, openRequests(events)]).toEqual(['complete', false, []]);
  const settled = lastSettled(events);
  expect([settled.end_reason, settled.usage_source, usageOf(settled)]).toEqual([
    'client_disconnected',
    'provider',
    reportedTo(attempt),
  ]);
  expect(checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' })).toEqual({
    violations: [],
    unattributed: [],
  });
  await expect.poll(() => upstream.connections).toBe(0);
});
