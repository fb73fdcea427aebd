import { afterAll, beforeAll, expect, test } from 'vitest';
import { chargesOf } from '../support/identity/charges.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { limitOf } from './refused.ts';

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

const BODY = { model: 's:tokens=3', messages: [{ role: 'user', content: 'Hello' }] };
const daily = (limit: number) => ({
  quotas: [{ meter: 'requests' as const, window: 'day' as const, limit, enforcement: 'hard' as const }],
});

/** Makes so many calls at once, round the instances. @returns how many were admitted. */
async function admitted(secret: string, calls: number): Promise<number> {
  const replies = await Promise.all(
    Array.from({ length: calls }, (_, number) => fleet.chat(number, { key: secret, body: BODY })),
  );
  for (const reply of replies)
    expect([null, 'insufficient_quota', 'rate_limit_exceeded']).toContain(errorCodeOf(reply));
  return replies.filter(({ status }) => status === 200).length;
}

test('a plan changed while in use keeps its usage or resets it, as requested', async () => {
  const { secret, account } = await fleet.tenant('changing', daily(10));
  expect(await admitted(secret, 20)).toBe(10);
  await fleet.control((control) => control.definePlan('changing', daily(14), 'keep'));
  expect(await admitted(secret, 20)).toBe(4);
  // Lower than the usage: nothing remains, and each instance reports that.
  await fleet.control((control) => control.definePlan('changing', daily(5), 'keep'));
  expect(await admitted(secret, 6)).toBe(0);
  for (const instance of [0, 1, 2]) {
    expect((await fleet.settledUsage(secret, instance)).limits).toMatchObject([
      { limit: 5, used: 14, reserved: 0, remaining: 0 },
    ]);
  }
  await fleet.control((control) => control.definePlan('changing', daily(6), 'reset'));
  expect(await admitted(secret, 20)).toBe(6);
  expect((await fleet.settledUsage(secret)).limits).toMatchObject([{ limit: 6, used: 6, remaining: 0 }]);
  expect(chargesOf(await fleet.settledLog(), { meter: 'requests', account }).at(-1)?.settled).toBe(20);
});

test('a plan change under load stays within the larger limit, and ends at the new one', async () => {
  const { secret, account } = await fleet.tenant('loaded', daily(60));
  let isOver = false;
  let count = 0;
  const caller = async (number: number): Promise<void> => {
    for (let turn = 0; !isOver; turn += 1) {
      const reply = await fleet.chat(number + turn, { key: secret, body: BODY });
      expect([200, 429]).toContain(reply.status);
      if (reply.status === 200) count += 1;
      // From here on each rejection comes from the newest plan.
      if (reply.status === 429 && count >= 90) return;
    }
  };
  const callers = Promise.all(Array.from({ length: 6 }, (_, number) => caller(number)));
  await fleet.control((control) => control.definePlan('loaded', daily(40), 'keep'));
  await fleet.control((control) => control.definePlan('loaded', daily(90), 'keep'));
  await callers;
  isOver = true;
  const charges = chargesOf(await fleet.settledLog(), { meter: 'requests', account });
  expect(charges.at(-1)).toMatchObject({ settled: 90, held: 0 });
});

test("assigning another plan or an override replaces the account's limits", async () => {
  const { secret } = await fleet.tenant('moved', daily(3));
  expect(await admitted(secret, 6)).toBe(3);
  await fleet.control(async (control) => {
    await control.definePlan('wider', { ...daily(8), concurrent_requests: 4 }, 'keep');
    await control.setPlan('moved', 'wider', 'keep');
  });
  expect(await admitted(secret, 4)).toBe(4);
  await fleet.control((control) => control.overrideTerms('moved', daily(9), 'keep'));
  // The override's quota replaces the plan's; fields that it doesn't set stay the plan's.
  expect((await fleet.settledUsage(secret)).limits.map(({ meter, limit }) => [meter, limit])).toEqual([
    ['concurrent', 4],
    ['requests', 9],
  ]);
  expect(await admitted(secret, 3)).toBe(2);
  await fleet.control((control) => control.setPlan('moved', null, 'keep'));
  await fleet.control((control) => control.overrideTerms('moved', {}, 'keep'));
  expect((await fleet.settledUsage(secret)).limits).toEqual([]);
  expect(await admitted(secret, 12)).toBe(12);
});

test("a request is charged to its key's limits and to its account's", async () => {
  const { secret, key } = await fleet.tenant('both', daily(10));
  const { secret: free } = await fleet.createKey({ account: 'both' });
  await fleet.control((control) =>
    control.restrictKey(key, {
      set: daily(4),
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  expect(await admitted(secret, 9)).toBe(4);
  const refused = await fleet.chat(0, { key: secret, body: BODY });
  expect(limitOf(refused)).toMatchObject({ scope: 'key', limit: 4, remaining: 0 });
  const ofKey = (await fleet.usage(secret)).limits.find(({ scope }) => scope === 'key');
  expect(ofKey).toMatchObject({ limit: 4, remaining: 0 });
  // What one key has left over another may use, up to the account's own limit.
  expect(await admitted(free, 12)).toBe(6);
  expect(limitOf(await fleet.chat(1, { key: free, body: BODY }))).toMatchObject({
    scope: 'account',
    limit: 10,
    remaining: 0,
  });
  const both = (await fleet.settledUsage(secret)).limits.map(({ scope, limit, used, remaining: left }) => [
    scope,
    limit,
    used,
    left,
  ]);
  expect(both).toEqual([
    ['account', 10, 10, 0],
    ['key', 4, 4, 0],
  ]);
});

test('a suspended account spends nothing, and keeps its usage when it is resumed', async () => {
  const { secret } = await fleet.tenant('paused', daily(5));
  expect(await admitted(secret, 2)).toBe(2);
  await fleet.control((control) => control.suspendAccount('paused'));
  for (const instance of [0, 1, 2]) {
    const reply = await fleet.chat(instance, { key: secret, body: BODY });
    expect([reply.status, errorCodeOf(reply)]).toEqual([403, 'account_disabled']);
  }
  await fleet.control((control) => control.reinstateAccount('paused'));
  expect(await admitted(secret, 10)).toBe(3);
});
