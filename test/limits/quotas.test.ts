import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PlanTerms } from '#db/events/events.ts';
import { randomFrom } from '../chaos/random.ts';
import { chargesOf, peakOf } from '../support/identity/charges.ts';
import type { ChatReply } from '../support/client.ts';
import { errorCodeOf, settledOf } from '../support/faults.ts';
import { type Fleet, startFleet, type Tenant } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { limitOf, needOf } from './refused.ts';
import { FEW_SEEDS, IS_LONG } from './seeds.ts';

let upstream: ScriptedUpstream;
let fleet: Fleet;

/** Replies of 1 to 61 tokens for each choice, unless the request wants them shorter. */
const VARIED = 'varied';
/** They fail, or break off. */
const BROKEN = ['s:status=500', 's:tokens=20,end=cut@2'];
const PRICES = { base: { input: 1_000_000, cache_read: 500_000, output: 4_000_000 } };
const HELLO = [{ role: 'user', content: 'Hello' }];
const CALLERS = 24;
/** The long form spends quotas that take thousands of calls. */
const SIZE = IS_LONG ? 8 : 1;

beforeAll(async () => {
  upstream = await startUpstream();
  upstream.script(VARIED, 'tokens=1,spread=60,batch=4,obey=yes');
  upstream.script('endless', 'tokens=20000,batch=50,usage=never');
  fleet = await startFleet({ upstreams: [upstream] });
  for (const model of [VARIED, 's:*']) await fleet.control((control) => control.setPrice(model, PRICES));
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const exact = (meter: 'tokens' | 'cost_nanousd', limit: number): PlanTerms => ({
  quotas: [{ meter, window: 'day', limit, enforcement: 'hard' }],
  reply_tokens_max: 200,
});

/** Any body: JSON or SSE, with a limit of its own or none, one choice or several. */
function anyBody(random: { below(bound: number): number }): object {
  const limits = [
    {},
    {},
    { max_tokens: 1 + random.below(80) },
    { max_completion_tokens: 1 + random.below(300) },
  ];
  return {
    model: VARIED,
    messages: [{ role: 'user', content: 'x'.repeat(random.below(400)) }],
    stream: random.below(2) === 0,
    ...limits[random.below(limits.length)],
    ...(random.below(4) === 0 ? { n: 1 + random.below(3) } : {}),
  };
}

/**
 * What a server says that a busy machine kept from its store or its peers for a moment: its client comes
 * again.
 */
const isPutOff = (reply: ChatReply): boolean =>
  reply.status === 503 && ['store_unavailable', 'limit_unavailable'].includes(errorCodeOf(reply) ?? '');

/** Calls from all sides until every caller was refused with nothing held any more. @returns the replies. */
async function spendAll({ secret }: Tenant, seed: number): Promise<ChatReply[]> {
  const random = randomFrom(seed);
  const replies: ChatReply[] = [];
  const caller = async (number: number): Promise<void> => {
    for (let turn = 0; ; turn += 1) {
      // Some calls fail, and some callers leave: before the answer, or in the middle of it.
      const departure = [{ abortAt: 'sent' as const }, { abortAfterTokens: 2 }, {}, {}, {}, {}, {}, {}][
        random.below(8)
      ];
      const body = { ...anyBody(random), ...(random.below(8) === 0 ? { model: BROKEN[turn % 2] } : {}) };
      const reply = await fleet.chat(number + turn, { key: secret, body, ...departure });
      if (!reply.aborted && !isPutOff(reply)) replies.push(reply);
      if (reply.status === 429 && limitOf(reply).reserved === 0) return;
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, number) => caller(number)));
  // The smallest call there is takes what is left, if it can.
  for (;;) {
    const reply = await fleet.chat(0, {
      key: secret,
      body: { model: VARIED, messages: HELLO, max_tokens: 1 },
    });
    if (!isPutOff(reply)) replies.push(reply);
    if (reply.status === 429) return replies;
  }
}

test('the reservation of a long stream grows ahead of the relayed tokens', async () => {
  const tenant = await fleet.tenant('growing', {
    quotas: [{ meter: 'tokens', window: 'day', limit: 1_000_000, enforcement: 'soft' }],
  });
  const user = 'grown';
  const call = fleet.chat(1, {
    key: tenant.secret,
    body: { model: 's:tokens=3000,batch=8,every=2ms', stream: true, user, messages: HELLO },
  });
  let isOver = false;
  void call.then(() => void (isOver = true));
  const short: string[] = [];
  while (!isOver) {
    const relayed = upstream.attemptsOf(user)[0]?.tokensSent ?? 0;
    const charges = chargesOf(await fleet.readLog(), { meter: 'tokens', account: tenant.account });
    const held = charges.at(-1)?.held ?? 0;
    if (!isOver && held < relayed * 0.75) short.push(`${relayed} relayed, ${held} held`);
    await wait(10);
  }
  expect((await call).tokens).toBe(3_000);
  expect(short).toEqual([]);
  const events = await fleet.settledLog();
  expect(
    events.filter(({ event }) => event.type === 'request.extended' && event.account === tenant.account)
      .length,
  ).toBeGreaterThan(1);
});

describe.each<{ meter: 'tokens' | 'cost_nanousd'; limit: number }>([
  { meter: 'tokens', limit: 30_000 * SIZE },
  { meter: 'cost_nanousd', limit: 50_000 * SIZE },
])('a hard quota of $meter', ({ meter, limit }) => {
  test.each(FEW_SEEDS)('is used up and never exceeded, whatever the replies are: seed %i', async (seed) => {
    const tenant = await fleet.tenant(`${meter.slice(0, 4)}-${seed}`, exact(meter, limit));
    const replies = await spendAll(tenant, seed);
    expect(new Set(replies.map((reply) => `${reply.status} ${errorCodeOf(reply) ?? 'ok'}`))).toEqual(
      new Set([
        '200 ok',
        '429 insufficient_quota',
        '502 upstream_error',
        '502 upstream_disconnected',
        '200 upstream_disconnected',
      ]),
    );
    const charges = chargesOf(await fleet.settledLog(), { meter, account: tenant.account });
    expect(peakOf(charges)).toBeLessThanOrEqual(limit);
    const used = charges.at(-1)?.settled ?? 0;
    expect(used).toBeGreaterThan(limit * 0.95);
    // Nothing is left with an instance that nobody can reach.
    for (const instance of [0, 1, 2]) {
      const { limits } = await fleet.settledUsage(tenant.secret, instance);
      expect(limits).toMatchObject([{ meter, limit, used, reserved: 0, remaining: limit - used }]);
    }
    const last = replies.at(-1) as ChatReply;
    expect(needOf(last)).toBeGreaterThan(limit - used);
  });
});

test('an upstream that ignores max_tokens is cut off, within the reservation', async () => {
  const tenant = await fleet.tenant('cut', exact('tokens', 10_000));
  const replies = await Promise.all(
    Array.from({ length: 6 }, (_, number) =>
      fleet.chat(number, { key: tenant.secret, body: { model: 'endless', stream: true, messages: HELLO } }),
    ),
  );
  const events = await fleet.settledLog();
  const admitted = replies.filter(({ status }) => status === 200);
  expect(admitted.length).toBeGreaterThan(0);
  for (const reply of admitted) {
    expect(errorCodeOf(reply)).toBe('insufficient_quota');
    expect(reply.sawDone).toBe(false);
    expect(settledOf(events, reply.requestId)).toMatchObject({
      end_reason: 'quota_exceeded',
      usage_source: 'counted',
      output_tokens: 200,
    });
  }
  expect(peakOf(chargesOf(events, { meter: 'tokens', account: tenant.account }))).toBeLessThanOrEqual(10_000);
});

describe('a soft quota', () => {
  test.each(FEW_SEEDS)('ends within its declared overdraft, and cuts no reply: seed %i', async (seed) => {
    const limit = 30_000;
    const long = `long-${seed}`;
    upstream.script(long, `tokens=1,spread=1998,batch=20,seed=${seed}`);
    const tenant = await fleet.tenant(long, {
      quotas: [{ meter: 'tokens', window: 'day', limit, enforcement: 'soft' }],
      concurrent_requests: 8,
      reply_tokens_max: 2_000,
    });
    const replies: ChatReply[] = [];
    const caller = async (number: number): Promise<void> => {
      for (let turn = 0; ; turn += 1) {
        const reply = await fleet.chat(number + turn, {
          key: tenant.secret,
          body: { model: long, stream: (number + turn) % 3 > 0, messages: HELLO },
        });
        replies.push(reply);
        if (
          reply.status === 429 &&
          errorCodeOf(reply) === 'insufficient_quota' &&
          limitOf(reply).reserved === 0
        )
          return;
      }
    };
    await Promise.all(Array.from({ length: 10 }, (_, number) => caller(number)));
    const { limits } = await fleet.usage(tenant.secret);
    const overdraft = limits.find(({ meter }) => meter === 'tokens')?.overdraft_max ?? 0;
    expect(overdraft).toBe(8 * 2_000);
    const events = await fleet.settledLog();
    const charges = chargesOf(events, { meter: 'tokens', account: tenant.account });
    expect(peakOf(charges)).toBeLessThanOrEqual(limit + overdraft);
    expect(charges.at(-1)?.settled).toBeGreaterThan(limit * 0.95);
    for (const reply of replies.filter(({ status }) => status === 200)) {
      expect(errorCodeOf(reply)).toBeNull();
      expect(settledOf(events, reply.requestId)).toMatchObject({
        end_reason: 'completed',
        usage_source: 'provider',
        output_tokens: reply.tokens,
      });
    }
  });
});
