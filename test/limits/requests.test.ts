import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PlanTerms } from '#db/events/events.ts';
import { chargesOf, peakOf } from '../support/identity/charges.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { withinOneMinute } from './moments.ts';
import { IS_LONG, SEEDS } from './seeds.ts';

let upstream: ScriptedUpstream;
let fleet: Fleet;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({ upstreams: [upstream] });
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const HELLO = [{ role: 'user', content: 'Hello' }];
/** Further seeds of the short form change the order alone. */
const callsOf = (seed: number): number => (IS_LONG || seed === 1 ? 1_000 : 300);
const ALLOWED = 100;
/** What a burst of that many calls takes on a busy machine. */
const BURST_MS = 8_000;

/** Calls all at once, one after the other to each instance. @returns how often each status and code came. */
async function burst(secret: string, seed: number): Promise<Record<string, number>> {
  const models = ['s:tokens=1', `s:tokens=3,head=${seed}ms`, 's:tokens=2,every=5ms'];
  const replies = await Promise.all(
    Array.from({ length: callsOf(seed) }, (_, index) =>
      fleet.chat(index + seed, {
        key: secret,
        body: { model: models[(index * seed) % 3], stream: index % 2 === 0, messages: HELLO },
      }),
    ),
  );
  return counted(replies.map((reply) => `${reply.status ?? reply.problem} ${errorCodeOf(reply) ?? 'ok'}`));
}

function counted(words: readonly string[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(words, (word) => word)].map(([word, all]) => [word, all.length]));
}

describe.each<{ window: string; terms: PlanTerms; code: string }>([
  { window: 'minute', terms: { requests_per_minute: ALLOWED }, code: 'rate_limit_exceeded' },
  {
    window: 'day',
    terms: { quotas: [{ meter: 'requests', window: 'day', limit: ALLOWED, enforcement: 'hard' }] },
    code: 'insufficient_quota',
  },
])('concurrent requests over 3 instances for 100 a $window', ({ window, terms, code }) => {
  test.each(SEEDS)(
    'exactly 100 of 1,000 (of 300 after the first seed) are admitted: seed %i',
    async (seed) => {
      const trial = async (attempt: number): Promise<void> => {
        const { account, secret } = await fleet.tenant(`${window}-${seed}-${attempt}`, terms);
        expect(await burst(secret, seed)).toEqual({
          '200 ok': ALLOWED,
          [`429 ${code}`]: callsOf(seed) - ALLOWED,
        });
        const charges = chargesOf(await fleet.settledLog(), { meter: 'requests', account });
        expect(charges.at(-1)).toMatchObject({ settled: ALLOWED, held: 0 });
        expect(peakOf(charges)).toBe(ALLOWED);
        const [told] = (await fleet.usage(secret)).limits;
        expect(told).toMatchObject({ meter: 'requests', limit: ALLOWED, remaining: 0 });
        expect((told?.used ?? 0) + (told?.reserved ?? 0)).toBe(ALLOWED);
      };
      await (window === 'minute' ? withinOneMinute(BURST_MS, trial) : trial(1));
    },
  );
});

describe('the limit on concurrent requests', () => {
  test.each(SEEDS)(
    'is never exceeded over 3 instances, and what ends makes room at once: seed %i',
    async (seed) => {
      const limit = 5 + seed;
      const { account, secret } = await fleet.tenant(`concurrent-${seed}`, { concurrent_requests: limit });
      let admitted = 0;
      const caller = async (number: number): Promise<void> => {
        for (let turn = 0; turn < 12; turn += 1) {
          const body = {
            model: `s:tokens=4,every=${1 + ((number + turn) % 3)}ms`,
            stream: turn % 2 === 0,
            messages: HELLO,
          };
          const reply = await fleet.chat(number + turn, { key: secret, body });
          expect([200, 429]).toContain(reply.status);
          if (reply.status === 200) admitted += 1;
          else expect(errorCodeOf(reply)).toBe('rate_limit_exceeded');
        }
      };
      await Promise.all(Array.from({ length: limit * 3 }, (_, number) => caller(number)));
      const charges = chargesOf(await fleet.settledLog(), { meter: 'concurrent', account });
      expect(peakOf(charges)).toBe(limit);
      expect(admitted).toBeGreaterThan(limit);
      // All places are free again, wherever they are asked for.
      for (const instance of [0, 1, 2]) {
        const together = Array.from({ length: limit }, () =>
          fleet.chat(instance, { key: secret, body: { model: 's:tokens=2,head=20ms', messages: HELLO } }),
        );
        expect(counted((await Promise.all(together)).map(({ status }) => String(status)))).toEqual({
          '200': limit,
        });
        await fleet.settledLog();
      }
    },
  );

  test('admits an agent that makes two requests at a time where the limit is two', async () => {
    const { account, secret } = await fleet.tenant('agent', { concurrent_requests: 2 });
    // One call is the agent's own, beside it one after the other the small ones that name the session.
    const turns = async (instance: number, count: number, script: string): Promise<number[]> => {
      const statuses: number[] = [];
      for (let turn = 0; turn < count; turn += 1) {
        const reply = await fleet.chat(instance + turn, {
          key: secret,
          body: { model: `s:${script}`, stream: true, messages: HELLO },
        });
        statuses.push(reply.status ?? 0);
      }
      return statuses;
    };
    const statuses = await Promise.all([
      turns(0, 20, 'tokens=6,every=4ms'),
      turns(1, 40, 'tokens=3,every=2ms'),
    ]);
    expect(new Set(statuses.flat())).toEqual(new Set([200]));
    expect(peakOf(chargesOf(await fleet.settledLog(), { meter: 'concurrent', account }))).toBe(2);
  });
});
