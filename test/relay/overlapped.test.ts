import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import {
  BREAKAGES,
  FAULT_DEADLINES,
  type Fault,
  HEALTHY,
  needsDeadline,
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

type Part = {
  faults: Fault[];
  upstream: ScriptedUpstream;
  relay: TestRelay;
  played: Played[];
  events: Placed[];
};
const parts: Part[] = [];

beforeAll(async () => {
  // Only what waits for a deadline has a short one, which a healthy reply on a busy machine could miss.
  const started = [
    { faults: FAULTS.filter(needsDeadline), env: FAULT_DEADLINES },
    { faults: FAULTS.filter((fault) => !needsDeadline(fault)), env: {} },
  ].map(async ({ faults, env }) => {
    const upstream = await startUpstream();
    const relay = await startRelay({ upstreams: [upstream], env: { ACCOUNTING: 'overlapped', ...env } });
    const part: Part = { faults, upstream, relay, played: [], events: [] };
    parts.push(part);
    Object.assign(part, await playFaults(relay, upstream, faults));
  });
  await Promise.all(started);
});

afterAll(async () => {
  for (const { relay, upstream } of parts) {
    await relay[Symbol.asyncDispose]();
    await upstream.close();
  }
});

test.each(['json', 'sse'] as const)(
  'with overlapped accounting each misbehaviour of an upstream has the same outcome: %s',
  (kind) => {
    const played = parts.flatMap((part) => part.played).filter((each) => each.kind === kind);
    expect(played).toHaveLength(FAULTS.length);
    for (const call of played) {
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
  for (const { upstream, played, events } of parts) {
    const clients = played.map(({ reply }) => reply);
    expect(
      checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'overlapped' }),
    ).toEqual({ violations: [], unattributed: [] });
  }
});

test('with overlapped accounting nothing runs afterwards and no connection is left', async () => {
  for (const { relay, upstream } of parts) {
    await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
    await relay.stop();
    await expect.poll(() => upstream.connections).toBe(0);
  }
});
