import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import {
  BREAKAGES,
  FAULT_DEADLINES,
  HEALTHY,
  type Outcome,
  outcomeOf,
  type Played,
  playFaults,
  STATUSES,
} from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/**
 * The upstream's call starts while the append is in flight; what the client gets and the log says must not
 * differ.
 */
const FAULTS = [...BREAKAGES, ...STATUSES, ...HEALTHY];

const BROKE_OFF_EARLY: Outcome = {
  status: 502,
  code: 'upstream_disconnected',
  reason: 'upstream_disconnected',
  source: 'estimated',
};

let upstream: ScriptedUpstream;
let relay: TestRelay;
let played: Played[];
let events: Placed[];

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [upstream],
    env: { ACCOUNTING: 'overlapped', ...FAULT_DEADLINES },
  });
  ({ played, events } = await playFaults(relay, upstream, FAULTS));
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

test.each(['json', 'sse'] as const)(
  'with overlapped accounting each misbehaviour of an upstream has the same outcome: %s',
  (kind) => {
    for (const call of played.filter((each) => each.kind === kind)) {
      const { script } = call.fault;
      // What broke off before the call was recorded was never begun with: the client gets a clean error.
      const early = /(cut|reset)@/.test(script) ? [BROKE_OFF_EARLY] : [];
      expect([call.fault[kind], ...early].map((outcome) => ({ script, ...outcome }))).toContainEqual({
        script,
        ...outcomeOf(call),
      });
    }
  },
);

test('overlapped: log, upstream and clients agree; nothing is unattributed while the store is up', () => {
  const clients = played.map(({ reply }) => reply);
  expect(
    checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'overlapped' }),
  ).toEqual({ violations: [], unattributed: [] });
});

test('with overlapped accounting nothing runs afterwards and no connection is left', async () => {
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
  await relay.stop();
  await expect.poll(() => upstream.connections).toBe(0);
});
