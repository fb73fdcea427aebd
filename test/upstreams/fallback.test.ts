import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import type { Usage } from '#server/relay/usage-report.ts';
import { HEAD_HELD_MS, OPEN_AFTER_FAILURES } from '#server/upstreams/bounds.ts';
import {
  BREAKAGES,
  errorCodeOf,
  type Fault,
  FAULT_DEADLINES,
  type Outcome,
  outcomeOf,
  type Played,
  playFaults,
  settledOf,
  STATUSES,
  openRequests,
} from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { chat } from '../support/client.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { INNER_HOST } from '../support/upstream/heads.ts';
import { declare, type Declared } from '../support/upstream/upstreams-live.ts';

/**
 * Whatever an upstream does, with another one behind it. Each fault is at an upstream of its own name,
 * all of them one scripted server: else the first few would eject it for the others.
 */

/** A stream that is silent for longer than its head is held back for has no second attempt. */
const DEADLINES = { ...FAULT_DEADLINES, UPSTREAM_IDLE_TIMEOUT_MS: String(HEAD_HELD_MS - 1_000) };
/** Nano-dollars per token: 3,000 of the prompt, 300 read from a cache, 15,000 of the reply. */
const PRICES = { base: { input: 3_000_000_000, cache_read: 300_000_000, output: 15_000_000_000 } };
/** What the second upstream answers. */
const SECOND = 's:tokens=9,cached=2,reasoning=3';
/** Of the relay, of its upstreams, which keep what they are sent, and of the clients together. */
const RSS_MORE_MAX_BYTES = 128 * 1024 ** 2;

const ERROR_EVENT: Fault = {
  script: 'end=error@0',
  json: { status: 200, code: 'server_error', reason: 'upstream_error', source: 'estimated' },
  sse: { status: 200, code: 'server_error', reason: 'upstream_error', source: 'counted' },
};
/** Nothing comes before it, not even the role. */
const FIRST_EVENT: Fault = { ...ERROR_EVENT, script: 'end=error@body' };
const MORE_STATUSES = [402, 405, 425, 529].map((status): Fault => {
  const outcome: Outcome = { status: 502, code: 'upstream_error', reason: 'upstream_error', source: 'none' };
  return { script: `status=${status}`, json: outcome, sse: outcome };
});
const RETRY_AFTER = STATUSES.filter(({ script }) => script === 'status=429').map((fault) => ({
  ...fault,
  script: 'status=429,retry=30',
}));
const HUGE: Fault = {
  ...ERROR_EVENT,
  script: 'tokens=1,pad=65MB',
  json: { status: 502, code: 'upstream_error', reason: 'upstream_error', source: 'estimated' },
};
const FAULTS = [...BREAKAGES, ERROR_EVENT, FIRST_EVENT, ...STATUSES, ...MORE_STATUSES, ...RETRY_AFTER];

/** What no other upstream takes over: the request itself is refused, or its reply is whole, or has begun. */
const KEPT = {
  both: [
    /^status=(400|405|409|413|422)\b/,
    /end=(cut|hang|stop|reset)@(done|usage|finish)/,
    /^end=(cut|reset|hang|stop|comments|error)@[03]/,
    /^every=/,
    /^tokens=100,drip/,
    /^framing=close/,
    /^end=comments@body/,
  ],
  json: [/^garbage=body/, /^length=/, /^end=error@body/, /^end=stop@body/],
  sse: [/^length=/],
};
/** A JSON reply of which a part was read: the account is charged for the prompt, the operator for more. */
const usesMore = (fault: Fault, kind: 'json' | 'sse'): boolean =>
  kind === 'json' &&
  fault.json.status >= 500 &&
  fault.json.source === 'estimated' &&
  !fault.script.endsWith('@body');
const isKept = (script: string, kind: 'json' | 'sse'): boolean =>
  [...KEPT.both, ...KEPT[kind]].some((pattern) => pattern.test(script));

/** The model and the upstream of a fault's own. */
const nameOf = (fault: Fault, kind: Played['kind']): string => `${kind}-${FAULTS.indexOf(fault)}`;
const CASES = FAULTS.flatMap((fault) =>
  (['json', 'sse'] as const).map((kind) => ({ fault, name: nameOf(fault, kind) })),
);

let [first, second] = [undefined, undefined] as unknown as [ScriptedUpstream, ScriptedUpstream];
let relay: TestRelay;
let played: Played[];
let events: Placed[];
let rssBefore = 0;

beforeAll(async () => {
  [first, second] = await Promise.all([startUpstream(), startUpstream()]);
  relay = await startRelay({ env: DEADLINES });
  const declared: Required<Declared> = {
    upstreams: {
      second: { base_url: second.baseUrl },
      refused: { base_url: `http://127.0.0.1:${await refusedPort()}/v1` },
    },
    models: {},
  };
  for (const { fault, name } of CASES) {
    declared.upstreams[name] = { base_url: first.baseUrl };
    declared.models[name] = {
      targets: [
        { upstream: name, model: `s:${fault.script}` },
        { upstream: 'second', model: SECOND, order: 1 },
      ],
    };
  }
  declared.models['refused'] = {
    targets: [{ upstream: 'refused' }, { upstream: 'second', model: SECOND, order: 1 }],
  };
  declared.upstreams['breaking'] = { base_url: first.baseUrl };
  declared.models['breaking'] = {
    targets: [
      { upstream: 'breaking', model: 's:end=cut@3' },
      { upstream: 'second', model: SECOND, order: 1 },
    ],
  };
  declared.models['huge'] = {
    targets: [
      { upstream: 'json-0', model: `s:${HUGE.script}` },
      { upstream: 'second', model: SECOND, order: 1 },
    ],
  };
  await declare(relay, declared);

  await relay.control((control) =>
    control.overrideTerms(
      relay.account,
      { concurrent_requests: 1_000, tokens_per_minute: 100_000_000 },
      'keep',
    ),
  );
  for (const names of ['json-*', 'sse-*']) await relay.control((control) => control.setPrice(names, PRICES));
  rssBefore = process.memoryUsage.rss();
  ({ played, events } = await playFaults(relay, first, FAULTS, nameOf));
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await Promise.all([first?.close(), second?.close()]);
});

const each = (script: string, kind: string): (typeof played)[number] =>
  played.find((call) => call.fault.script === script && call.kind === kind) as (typeof played)[number];

describe.each(['json', 'sse'] as const)(
  "with another upstream behind it, the client gets that one's reply, or what has begun: %s",
  (kind) => {
    test.each(FAULTS)('$script', (fault) => {
      const { reply, settled } = each(fault.script, kind);
      const name = nameOf(fault, kind);
      const { attempt_count, upstream, attempts } = settled;
      const outcome = { ...outcomeOf({ reply, settled }), attempt_count, upstream };
      if (isKept(fault.script, kind)) {
        expect({ ...outcome, attempts }).toEqual({
          ...fault[kind],
          attempt_count: 1,
          upstream: name,
          attempts: usesMore(fault, kind)
            ? [expect.objectContaining({ upstream: name, usage_source: 'estimated' })]
            : undefined,
        });
      } else {
        expect(outcome).toEqual({
          status: 200,
          code: null,
          reason: 'completed',
          source: 'provider',
          attempt_count: 2,
          upstream: 'second',
        });
        expect(attempts).toEqual([
          expect.objectContaining({
            upstream: name,
            upstream_model: `s:${fault.script}`,
            duration_ms: expect.any(Number) as number,
            outcome: expect.stringMatching(/^(status_\d+|timed_out|cut|unreadable|error_event)$/) as string,
          }),
          expect.objectContaining({ upstream: 'second', upstream_model: SECOND, outcome: 'completed' }),
        ]);
        expect([reply.tokens, reply.finished, reply.sawDone, reply.sawError]).toEqual([
          9,
          true,
          kind === 'sse',
          false,
        ]);
        // Not a byte of the first one's.
        expect(reply.upstreamId).toContain(`-${second.port}-`);
      }
    });
  },
);

/** The usage of the first attempt, by the phase in which its upstream failed. */
const FIRST_USAGE: [RegExp, 'none' | 'prompt' | 'reply'][] = [
  [/^(head=30s|end=hang@head)/, 'prompt'],
  [/@head|^status=|^garbage=http|^encoding|^headers/, 'none'],
  [/^(end=(cut|reset|hang|stop)@body|first=30s)/, 'prompt'],
];

test('each attempt has its usage and cost, which together are the upstream cost', () => {
  let more = 0;
  for (const { fault, kind, settled } of played) {
    const { attempts, cost_nanousd: charge = 0, upstream_cost_nanousd: cost = charge } = settled;
    if (attempts === undefined) {
      expect([fault.script, cost]).toEqual([fault.script, charge]);
      continue;
    }
    const costs = attempts.map((attempt) => {
      const { input_tokens: input = 0, cache_read_tokens: cached = 0 } = attempt;
      const { output_tokens: output = 0, upstream_cost_nanousd: one = 0 } = attempt;
      expect(one).toBe(3_000 * (input - cached) + 300 * cached + 15_000 * output);
      return one;
    });
    expect(costs.reduce((sum, one) => sum + one)).toBe(cost);
    // The account is charged once, for the last attempt, of which it may have received nothing.
    if (settled.end_reason === 'completed') expect(costs.at(-1)).toBe(charge);
    else expect(cost).toBeGreaterThan(charge);
    const [{ usage_source: source = 'none', input_tokens: input = 0, output_tokens: output = 0 }] =
      attempts as [Attempt];
    const [, expected] = FIRST_USAGE.find(([pattern]) => pattern.test(fault.script)) ?? [];
    const found = source === 'none' ? 'none' : output === 0 ? 'prompt' : 'reply';
    if (expected !== undefined && attempts.length > 1)
      expect([fault.script, kind, found]).toEqual([fault.script, kind, expected]);
    if (source !== 'none') expect(input).toBeGreaterThan(0);
    if (cost > charge) more++;
  }
  expect(more).toBeGreaterThan(20);
});

test('the log, the upstreams and the clients agree on every call, however many tries it took', () => {
  const ledger = [...first.ledger.attempts, ...second.ledger.attempts];
  const clients = played.map(({ reply }) => reply);
  expect(checkIdentity({ ledger, events, clients, accounting: 'strict' })).toEqual({
    violations: [],
    unattributed: [],
  });
  for (const { settled, reply } of played) {
    expect([settled.model, settled.attempt_count]).toEqual([
      settled.model,
      ledger.filter(({ user }) => user === reply.user).length,
    ]);
  }
  expect(events.filter(({ event }) => event.type === 'request.settled')).toHaveLength(CASES.length);
});

test('no reply that another upstream gave tells anything of the first', () => {
  for (const { reply, settled, fault } of played.filter(
    ({ settled: { attempt_count: count } }) => count === 2,
  )) {
    const text = reply.raw.toString('latin1');
    for (const word of [
      INNER_HOST,
      `:${first.port}`,
      `-${first.port}-`,
      '<html',
      'retry-after',
      'error',
      settled.attempts?.[0]?.upstream ?? '',
    ]) {
      expect([fault.script, word, text.toLowerCase().includes(word)]).toEqual([fault.script, word, false]);
    }
  }
});

test('an upstream that can not be reached is one more', async () => {
  for (const stream of [false, true]) {
    const reply = await chat({
      port: relay.port,
      key: relay.key,
      body: { model: 'refused', messages: [], stream },
    });
    const log = await relay.waitFor((all) => openRequests(all).length === 0);
    expect([
      reply.status,
      reply.tokens,
      settledOf(log, reply.requestId)?.attempts?.map(({ outcome }) => outcome),
    ]).toEqual([200, 9, ['unreachable', 'completed']]);
  }
});

test('an upstream whose replies all break off midway has its circuit opened', async () => {
  const answers: [number, string | null][] = [];
  for (let count = 0; count < OPEN_AFTER_FAILURES + 2; count++) {
    const reply = await chat({
      port: relay.port,
      key: relay.key,
      body: { model: 'breaking', messages: [], stream: true },
    });
    answers.push([reply.tokens, errorCodeOf(reply)]);
  }
  expect(answers).toEqual([
    ...Array.from({ length: OPEN_AFTER_FAILURES }, () => [3, 'upstream_disconnected']),
    [9, null],
    [9, null],
  ]);
});

test('a JSON reply that does not end is refused, not tried elsewhere, and not kept', async () => {
  const reply = await chat({ port: relay.port, key: relay.key, body: { model: 'huge', messages: [] } });
  const log = await relay.waitFor((all) => openRequests(all).length === 0);
  const settled = settledOf(log, reply.requestId) as Played['settled'];
  expect({ ...outcomeOf({ reply, settled }), attempt_count: settled.attempt_count }).toEqual({
    ...HUGE.json,
    attempt_count: 1,
  });
});

test('the memory of all that is bounded', () => {
  expect(process.memoryUsage.rss() - rssBefore).toBeLessThan(RSS_MORE_MAX_BYTES);
});

test('afterwards nothing is held or runs, and no connection to an upstream is left', async () => {
  await first.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
  const reply = await fetch(`${relay.baseUrl}/usage`, { headers: { authorization: `Bearer ${relay.key}` } });
  const { limits } = (await reply.json()) as Usage;
  expect(limits.map(({ meter, reserved: held }) => [meter, held])).toEqual([
    ['concurrent', 0],
    ['tokens', 0],
  ]);
  await relay.stop();
  await expect.poll(() => first.connections + second.connections).toBe(0);
});
