import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { randomFrom } from '../chaos/random.ts';
import { RECALL_WAIT_MS } from '#server/limits/bounds.ts';
import { chargesOf, mostCharged, peakOf } from '../support/identity/charges.ts';
import type { ChatReply } from '../support/client.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { withinOneMinute } from './moments.ts';
import { limitOf, needOf } from './refused.ts';
import { FEW_SEEDS, IS_LONG } from './seeds.ts';

let upstream: ScriptedUpstream;
let fleet: Fleet;

beforeAll(async () => {
  upstream = await startUpstream();
  upstream.script('quick', 'tokens=1,spread=20,batch=4,obey=yes');
  upstream.script('slow', 'tokens=10,spread=20,every=20ms,obey=yes');
  fleet = await startFleet({ upstreams: [upstream] });
  await warmUp();
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** The first calls of a process are slow, and so are its responses then. */
async function warmUp(): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) {
    await Promise.all(
      Array.from({ length: 30 }, (_, number) =>
        fleet.chat(number, { body: { model: 'quick', messages: MESSAGES, stream: number % 2 === 0 } }),
      ),
    );
  }
}

const MESSAGES = [{ role: 'user', content: 'Hello' }];
/** How far the times in the log and at the client may be from a decision, which reaches neither at once. */
const AROUND_MS = 250;
/** On an idle machine they are nearly always this close. */
const CLOSELY_MS = 20;
/** A decision passes through this many processes one after the other: client, server, PostgreSQL, server. */
const HOPS = 4;

/** The limit that many calls reach exactly: each of the callers makes its part. */
const CALLS = IS_LONG ? 300 : 150;
const CALLERS = 15;

type Rejected = { reply: ChatReply; atMs: number };

test.each(FEW_SEEDS)(
  'near the limit, 3 instances reject no call that the quota covers: seed %i',
  async (seed) => {
    const limit = 6_000;
    const tenant = await fleet.tenant(`near-${seed}`, {
      quotas: [{ meter: 'tokens', window: 'day', limit, enforcement: 'hard' }],
      reply_tokens_max: 300,
    });
    const random = randomFrom(seed);
    const rejected: Rejected[] = [];
    let admitted = 0;
    let undecided = 0;
    // On a busy machine every process is stopped for as long as this one.
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const caller = async (number: number): Promise<void> => {
      for (let turn = 0; ; turn += 1) {
        const body = {
          model: random.below(3) === 0 ? 'slow' : 'quick',
          messages: MESSAGES,
          stream: random.below(2) === 0,
        };
        const reply = await fleet.chat(number + turn, { key: tenant.secret, body });
        if (reply.status === 200) {
          admitted += 1;
          continue;
        }
        if (errorCodeOf(reply) === 'limit_unavailable') {
          undecided += 1;
          continue;
        }
        expect([reply.status, errorCodeOf(reply)]).toEqual([429, 'insufficient_quota']);
        rejected.push({ reply, atMs: Date.now() });
        // With no units reserved, none can come back.
        if (limitOf(reply).reserved === 0) return;
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, number) => caller(number)));
    delay.disable();
    const stalledMs = HOPS * (delay.max / 1e6);
    // Only an instance that does not respond for a second leaves a call undecided.
    if (stalledMs < RECALL_WAIT_MS) expect(undecided).toBe(0);
    const aroundMs = Math.max(AROUND_MS, stalledMs);
    const counted = { meter: 'tokens', account: tenant.account } as const;
    const events = await fleet.settledLog();
    expect(peakOf(chargesOf(events, counted))).toBeLessThanOrEqual(limit);
    expect(admitted).toBeGreaterThan(50);
    expect(rejected.length).toBeGreaterThan(20);
    for (const { reply, atMs } of rejected) {
      const figures = limitOf(reply);
      expect(figures).toMatchObject({ scope: 'account', meter: 'tokens', window: 'day', limit });
      expect(figures.used + figures.reserved + figures.remaining).toBe(limit);
      expect(figures.remaining).toBeLessThan(needOf(reply));
      expect(limit - mostCharged(events, counted, atMs, aroundMs)).toBeLessThan(needOf(reply));
    }
    const late = rejected.filter(
      ({ reply, atMs }) => limit - mostCharged(events, counted, atMs, CLOSELY_MS) >= needOf(reply),
    );
    if (IS_LONG) expect(late.length).toBeLessThan(rejected.length / 50);
  },
);

test.each([
  {
    window: 'a day',
    terms: {
      quotas: [
        {
          meter: 'requests' as const,
          window: 'day' as const,
          limit: CALLS,
          enforcement: 'soft' as const,
        },
      ],
    },
  },
  { window: 'a minute', terms: { requests_per_minute: CALLS } },
])('under a limit of requests $window every instance admits all up to it', async ({ window, terms }) => {
  const trial = async (attempt: number): Promise<void> => {
    const { secret } = await fleet.tenant(`${window.replace(' ', '-')}-${attempt}`, terms);
    const statuses: (number | null)[] = [];
    const caller = async (number: number): Promise<void> => {
      for (let turn = 0; turn < CALLS / CALLERS; turn += 1) {
        const reply = await fleet.chat(number * 2 + turn, {
          key: secret,
          body: { model: 'quick', messages: MESSAGES },
        });
        statuses.push(reply.status);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, (_, number) => caller(number)));
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    const further = await Promise.all(
      [0, 1, 2].map((instance) =>
        fleet.chat(instance, { key: secret, body: { model: 'quick', messages: MESSAGES } }),
      ),
    );
    expect(further.map(({ status }) => status)).toEqual([429, 429, 429]);
  };
  await (window === 'a minute' ? withinOneMinute(6_000, trial) : trial(1));
});
