import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import type { Key } from '#db/fold/key.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { CONCURRENT_MAX, RUNNING_MAX } from '#server/limits/bounds.ts';
import { type OpenCall, OpenCalls } from '#server/limits/open-calls.ts';

const LIMITS = { process: 100, account: 50, key: 25 };
const key = (id: string, account = 'a'): Key => ({ id, account }) as Key;
const concurrent = (subject: string, cap: number): SubjectLimits =>
  ({ subject, limits: [{ meter: 'concurrent', cap }] }) as unknown as SubjectLimits;

function opened(calls: OpenCalls, owner: Key, subjects: SubjectLimits[] = []): OpenCall {
  const open = calls.open(owner, subjects);
  if (open instanceof ApiError) throw new Error(open.message);
  return open;
}

describe('bodies', () => {
  test('are limited for a key, an account and the process, each with its own error', () => {
    const calls = new OpenCalls(LIMITS);
    const hold = (owner: Key, bytes: number) => opened(calls, owner).holdBody(bytes);
    expect(hold(key('k1'), 25)).toBeNull();
    expect(hold(key('k1'), 1)).toMatchObject({ status: 429, code: 'buffer_limit_exceeded', retryAfterS: 1 });
    expect(hold(key('k1'), 1)?.message).toContain('of this key');
    expect(hold(key('k2'), 25)).toBeNull();
    expect(hold(key('k3'), 1)?.message).toContain('of this account');
    expect(hold(key('k4', 'b'), 25)).toBeNull();
    expect(hold(key('k5', 'c'), 25)).toBeNull();
    expect(hold(key('k6', 'd'), 1)).toMatchObject({ status: 503, code: 'relay_buffer_full', retryAfterS: 1 });
    expect(calls.bytes).toBe(100);
  });

  test('that are rejected hold nothing, and those that are released make room', () => {
    const calls = new OpenCalls(LIMITS);
    const first = opened(calls, key('k'));
    const second = opened(calls, key('k'));
    expect(first.holdBody(20)).toBeNull();
    expect(second.holdBody(6)).not.toBeNull();
    expect(calls.bytes).toBe(20);
    first.holdBody(0);
    expect(second.holdBody(6)).toBeNull();
    expect(calls.bytes).toBe(6);
  });
});

describe('concurrent requests', () => {
  test('are counted from the headers, by key and by account', () => {
    const calls = new OpenCalls(LIMITS);
    const ofKey = [concurrent('key/k1', 1), concurrent('account/a', 2)];
    const first = opened(calls, key('k1'), ofKey);
    expect(calls.open(key('k1'), ofKey)).toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      limit: { scope: 'key', meter: 'concurrent', limit: 1, reserved: 1, remaining: 0 },
    });
    const ofOther = [concurrent('account/a', 2)];
    opened(calls, key('k2'), ofOther);
    expect(calls.open(key('k2'), ofOther)).toMatchObject({ limit: { scope: 'account', limit: 2 } });
    first.close();
    first.close();
    opened(calls, key('k1'), ofKey);
    expect(calls.count).toBe(2);
  });

  test('of a process have a bound', () => {
    const calls = new OpenCalls(LIMITS);
    const all = Array.from({ length: RUNNING_MAX - 1 }, (_, index) => opened(calls, key(`k${index}`)));
    expect(calls.isFull).toBe(false);
    opened(calls, key('last'));
    expect(calls.isFull).toBe(true);
    all[0]?.close();
    expect(calls.isFull).toBe(false);
  });

  test('of a key without a limit have a bound all the same', () => {
    const calls = new OpenCalls(LIMITS);
    for (let count = 0; count < CONCURRENT_MAX; count++) opened(calls, key('k'));
    expect(calls.open(key('k'), [])).toMatchObject({ limit: { scope: 'key', limit: CONCURRENT_MAX } });
    expect(calls.open(key('k2'), [])).not.toBeInstanceOf(ApiError);
  });
});

describe('replies', () => {
  test('wait for memory in their order, and one of them at a time may exceed the limit', () => {
    const calls = new OpenCalls(LIMITS);
    const resumed: string[] = [];
    const replying = (name: string): OpenCall => {
      const call = opened(calls, key('k'));
      if (call.holdReply(20, () => resumed.push(name))) resumed.push(`${name} goes on`);
      return call;
    };
    const [first, second, third] = ['first', 'second', 'third'].map(replying) as [
      OpenCall,
      OpenCall,
      OpenCall,
    ];
    // The second exceeds the limit, and goes on so that not all wait; the third waits for both.
    expect(resumed).toEqual(['first goes on', 'second', 'second goes on']);
    expect([second, third].map((call) => call.waitMs(0) !== null)).toEqual([false, true]);
    first.close();
    expect(resumed).toHaveLength(3);
    second.close();
    expect(resumed.at(-1)).toBe('third');
    expect([third.waitMs(0), calls.bytes]).toEqual([null, 20]);
  });

  test('wait for no exempt call of another key, unless the process has no memory', () => {
    const calls = new OpenCalls(LIMITS);
    const exempt = opened(calls, key('k1'));
    exempt.holdReply(26, () => {});
    expect(exempt.waitMs(0)).toBeNull();
    const other = opened(calls, key('k2', 'b'));
    other.holdReply(27, () => {});
    expect(other.waitMs(0)).toBeNull();
    // 103 bytes of 100: one of the two may go on.
    const third = opened(calls, key('k3', 'c'));
    third.holdReply(50, () => {});
    expect(third.waitMs(0)).toBeNull();
    other.holdReply(28, () => {});
    expect(other.waitMs(0)).not.toBeNull();
    third.close();
    expect(other.waitMs(0)).toBeNull();
  });

  test('of the exempt calls of a key and of its account do not wait for each other', () => {
    const calls = new OpenCalls(LIMITS);
    const body = opened(calls, key('k2'));
    body.holdBody(25);
    opened(calls, key('k3')).holdBody(6);
    const ofAccount = opened(calls, key('k1'));
    ofAccount.holdReply(20, () => {});
    const ofKey = opened(calls, key('k1'));
    ofKey.holdReply(6, () => {});
    body.holdBody(0);
    expect(body.holdBody(18)).toBeNull();
    ofKey.holdReply(7, () => {});
    ofAccount.holdReply(21, () => {});
    expect([ofAccount, ofKey].map((call) => call.waitMs(0) !== null)).toEqual([false, true]);
    ofAccount.close();
    expect(ofKey.waitMs(0)).toBeNull();
  });

  test('have waited for the sum of their waits, however often they got memory for a part', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      const calls = new OpenCalls(LIMITS);
      const [exempt, other, reply] = [1, 2, 3].map(() => opened(calls, key('k')));
      exempt?.holdReply(26, () => {});
      other?.holdReply(20, () => {});
      for (const bytes of [1, 2]) {
        other?.holdBody(20);
        expect(reply?.holdReply(bytes, () => {})).toBe(false);
        vi.advanceTimersByTime(40_000);
        expect(reply?.waitMs(performance.now())).toBe(bytes * 40_000);
        exempt?.holdReply(0, () => {});
        other?.holdReply(0, () => {});
        other?.holdBody(0);
        expect(reply?.waitMs(performance.now())).toBeNull();
        exempt?.holdReply(26, () => {});
      }
    } finally {
      vi.useRealTimers();
    }
  });

  test('of one key that wait do not make those of another key wait', () => {
    const calls = new OpenCalls(LIMITS);
    for (let count = 0; count < 3; count++) opened(calls, key('k')).holdReply(20, () => {});
    const other = opened(calls, key('k2', 'b'));
    expect(other.holdReply(20, () => {})).toBe(true);
  });
});

test('the sums are those of the open calls, which never all wait for one another', () => {
  const step = fc.record({
    call: fc.nat(7),
    what: fc.constantFrom('body', 'reply', 'close'),
    bytes: fc.nat(60),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const calls = new OpenCalls(LIMITS);
      const open = new Map<number, { call: OpenCall; body: number; reply: number }>();
      for (const { call: index, what, bytes } of steps) {
        const owner = key(`k${index % 3}`, `a${index % 2}`);
        const one = open.get(index) ?? { call: opened(calls, owner), body: 0, reply: 0 };
        open.set(index, one);
        if (what === 'body' && one.call.holdBody(bytes) === null) one.body = bytes;
        if (what === 'reply' && one.call.waitMs(0) === null) {
          one.reply = Math.max(one.reply, bytes);
          one.call.holdReply(one.reply, () => {});
        }
        if (what === 'close') {
          one.call.close();
          open.delete(index);
        }
        const all = [...open.values()];
        expect(all.length > 0 && all.every(({ call }) => call.waitMs(0) !== null)).toBe(false);
        expect(calls.bytes).toBe(all.reduce((sum, { body, reply }) => sum + body + reply, 0));
        expect(calls.count).toBe(all.length);
      }
      const [last, ...others] = [...open.values()];
      for (const { call } of others) call.close();
      expect(last?.call.waitMs(0) ?? null).toBeNull();
      last?.call.close();
      expect([calls.bytes, calls.count]).toEqual([0, 0]);
    }),
  );
});
