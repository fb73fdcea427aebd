import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { LeaseLineResponse } from '#db/limits/leases.ts';
import { type Limit, limitsOf } from '#db/limits/limits.ts';
import { Counter } from '#server/limits/counter.ts';
import { type Amounts, isByUsage, METER_NAMES, unitsReserved } from '#db/limits/meters.ts';
import { Reservation } from '#server/limits/reservation.ts';
import { expectedSettled } from '../../support/meters.ts';

const TOKENS: Limit = { meter: 'tokens', window: 'day', cap: 1_000, enforcement: 'soft', reset: 0 };
const NOTHING = { returned: 0, used: 0, overdrawn: 0 };

/** A lease, and how often it pressed. */
function leaseOf(limit: Partial<Limit> = {}): { counter: Counter; presses: () => number } {
  let count = 0;
  return {
    counter: new Counter('account/Account1', { ...TOKENS, ...limit }, 0, 5, () => count++),
    presses: () => count,
  };
}

function answer(granted: number, changes: Partial<LeaseLineResponse> = {}): LeaseLineResponse {
  return {
    allowance: 1,
    cap: 1_000,
    granted,
    free: 1_000 - granted,
    near: false,
    used: 0,
    held: 0,
    recallable: false,
    own: NOTHING,
    ...changes,
  };
}

const amount = fc.nat(60);
const operation = fc.oneof(
  fc.record({ kind: fc.constant('take' as const), amount }),
  fc.record({ kind: fc.constant('settle' as const), spent: amount }),
  fc.record({ kind: fc.constant('release' as const) }),
  fc.record({
    kind: fc.constant('report' as const),
    grant: amount,
    near: fc.boolean(),
    isLost: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('recall' as const) }),
);

describe('a lease', () => {
  test('is scarce near its limit, and where its free units are few calls or moments of demand', () => {
    const { counter } = leaseOf();
    counter.applyResponse(answer(1_000));
    counter.reserve(10);
    expect(counter.isScarce).toBe(false);
    // Four calls of 200.
    counter.reserve(200);
    expect(counter.isScarce).toBe(true);
    counter.release(210);
    counter.reserve(10);
    expect(counter.isScarce).toBe(false);
    counter.recall();
    expect(counter.isScarce).toBe(true);
  });

  test('accounts for every granted unit as returned, used, held or free, over random operations', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
        const { counter } = leaseOf();
        const holds: number[] = [];
        let granted = 0;
        let spentInAll = 0;
        const totals = { returned: 0, used: 0, overdrawn: 0 };
        for (const each of operations) {
          if (each.kind === 'take') {
            const before = counter.free;
            expect(counter.reserve(each.amount)).toBe(each.amount <= before);
            if (each.amount <= before) holds.push(each.amount);
          } else if (each.kind === 'settle') {
            const hold = holds.shift();
            if (hold === undefined) continue;
            counter.settle(hold, each.spent);
            spentInAll += each.spent;
          } else if (each.kind === 'release') {
            const hold = holds.pop();
            if (hold !== undefined) counter.release(hold);
          } else if (each.kind === 'recall') counter.recall();
          else {
            const line = counter.report(null);
            for (const total of ['returned', 'used', 'overdrawn'] as const) {
              expect(line[total]).toBeGreaterThanOrEqual(totals[total]);
              totals[total] = line[total];
            }
            granted += each.grant;
            if (each.isLost) counter.reportSoon();
            else counter.applyResponse(answer(granted, { near: each.near }));
          }
          expect(counter.free).toBeGreaterThanOrEqual(0);
          expect(counter.held).toBe(holds.reduce((sum, hold) => sum + hold, 0));
        }
        counter.report(null);
        counter.applyResponse(answer(granted));
        const line = counter.report(null);
        expect(granted).toBe(line.returned + line.used + line.held + counter.free);
        expect(line.used + line.overdrawn).toBe(spentInAll);
      }),
    );
  });

  test('in strict mode returns all free units with its next report, and keeps reserved ones', () => {
    const { counter } = leaseOf();
    counter.applyResponse(answer(100));
    counter.reserve(30);
    counter.recall();
    expect(counter.report(null)).toMatchObject({ strict: true, stock: 0, returned: 70, held: 30 });
    expect(counter.free).toBe(0);
  });

  test('dropped while idle continues from the totals of the store', () => {
    const { counter } = leaseOf();
    counter.settle(0, 7);
    expect(counter.report(null)).toMatchObject({ returned: 0, used: 0, overdrawn: 0 });
    counter.applyResponse(answer(100, { own: { returned: 40, used: 50, overdrawn: 3 } }));
    expect(counter.free).toBe(10);
    expect(counter.unreported).toBe(true);
    expect(counter.report(null)).toMatchObject({ returned: 40, used: 50, overdrawn: 10 });
  });

  test('stays strict until reported, after a new cap or a recall during a pending response', () => {
    for (const change of [
      (counter: Counter) => counter.setCap(500, 6),
      (counter: Counter) => counter.setCap(5_000, 6),
      (counter: Counter) => counter.recall(),
    ]) {
      const { counter, presses } = leaseOf();
      counter.report(null);
      change(counter);
      const before = presses();
      counter.applyResponse(answer(100));
      expect(counter.strict).toBe(true);
      expect(presses()).toBeGreaterThan(before);
      expect(counter.report(null)).toMatchObject({ strict: true, returned: 100 });
      counter.applyResponse(answer(100));
      expect(counter.strict).toBe(false);
    }
  });

  test('in strict mode sends no extra report on recall, so that waiting instances pause', () => {
    const { counter, presses } = leaseOf();
    counter.applyResponse(answer(0, { near: true }));
    counter.report(null);
    const before = presses();
    counter.recall();
    counter.recall();
    expect(presses()).toBe(before);
  });

  test('reports an overdraft at once', () => {
    const { counter, presses } = leaseOf();
    counter.applyResponse(answer(10));
    counter.reserve(10);
    counter.settle(10, 25);
    expect(presses()).toBe(1);
    expect(counter.report(null)).toMatchObject({ used: 10, overdrawn: 15 });
  });

  test('accepts only newer terms, and remembers the oldest that a request was charged under', () => {
    const { counter } = leaseOf();
    counter.setCap(2_000, 9);
    counter.setCap(1, 3);
    expect(counter.report(null)).toMatchObject({ cap: 2_000, terms: 9, since: 3 });
  });
});

describe('a reservation', () => {
  const holding = (amounts: Amounts): { hold: Reservation; counters: Counter[] } => {
    const counters = METER_NAMES.map((meter) => leaseOf({ meter }).counter);
    for (const counter of counters) {
      counter.applyResponse(answer(1_000));
      counter.reserve(unitsReserved(counter.meter, amounts));
    }
    return {
      hold: new Reservation(
        counters,
        METER_NAMES.map((meter) => unitsReserved(meter, amounts)),
        amounts,
        0,
      ),
      counters,
    };
  };
  const amounts = fc.record({ tokens: amount, cost: amount });
  const usage = fc.record({ input_tokens: amount, output_tokens: amount, cost_nanousd: amount });
  const WHOLE = { input_tokens: 100, output_tokens: 100, cost_nanousd: 100 };

  test('settles once: nothing stays reserved, the usage is charged, and later calls have no effect', () => {
    fc.assert(
      fc.property(amounts, usage, fc.array(fc.boolean(), { maxLength: 3 }), (reserved, spent, again) => {
        const { hold, counters } = holding(reserved);
        hold.settle(spent);
        for (const isRelease of again)
          if (isRelease) hold.release();
          else hold.settle(WHOLE);
        expect(counters.map((counter) => counter.held)).toEqual(counters.map(() => 0));
        expect(counters.map((counter) => 1_000 - counter.free)).toEqual(
          counters.map(({ meter }) => expectedSettled(meter, spent)),
        );
      }),
    );
  });

  test('released for a request that was never recorded charges nothing', () => {
    fc.assert(
      fc.property(amounts, (held) => {
        const { hold, counters } = holding(held);
        hold.release();
        hold.settle(WHOLE);
        expect(counters.map((counter) => counter.free)).toEqual(counters.map(() => 1_000));
      }),
    );
  });

  test('that has grown releases its growth, too', () => {
    fc.assert(
      fc.property(amounts, amounts, (held, more) => {
        const { hold, counters } = holding(held);
        const grown = counters.filter(({ meter }) => isByUsage(meter));
        for (const counter of grown) counter.reserve(unitsReserved(counter.meter, more));
        hold.extend(grown, more);
        expect([hold.tokens, hold.cost]).toEqual([held.tokens + more.tokens, held.cost + more.cost]);
        hold.settle({ input_tokens: 0, output_tokens: 0 });
        expect(counters.map((counter) => counter.held)).toEqual(counters.map(() => 0));
      }),
    );
  });
});

describe('the limits of terms', () => {
  const cap = fc.option(fc.nat(1_000), { nil: undefined });
  const terms = fc.record({
    requests_per_minute: cap,
    tokens_per_minute: cap,
    concurrent_requests: cap,
    quotas: fc.uniqueArray(
      fc.record({
        meter: fc.constantFrom('requests' as const, 'tokens' as const, 'cost_nanousd' as const),
        window: fc.constantFrom('hour' as const, 'day' as const, 'week' as const, 'month' as const),
        limit: fc.nat(1_000),
        enforcement: fc.constantFrom('soft' as const, 'hard' as const),
      }),
      { selector: ({ meter, window }) => `${meter} ${window}` },
    ),
  });

  test('are exactly those that the terms name, at most one per meter and window', () => {
    fc.assert(
      fc.property(terms, fc.nat(), (each, reset) => {
        const limits = limitsOf(each, reset);
        const rates = [each.requests_per_minute, each.tokens_per_minute, each.concurrent_requests].filter(
          (rate) => rate !== undefined,
        );
        expect(limits).toHaveLength(rates.length + each.quotas.length);
        expect(new Set(limits.map(({ meter, window }) => `${meter} ${window}`)).size).toBe(limits.length);
        expect(limits.reduce((sum, limit) => sum + limit.cap, 0)).toBe(
          [...rates, ...each.quotas.map(({ limit }) => limit)].reduce((sum, limit) => sum + limit, 0),
        );
      }),
    );
    expect(limitsOf({}, 7)).toEqual([]);
  });

  test('restart at a reset, except the concurrency limit', () => {
    fc.assert(
      fc.property(terms, fc.nat(), (each, reset) => {
        for (const limit of limitsOf(each, reset))
          expect(limit.reset).toBe(limit.window === 'none' ? 0 : reset);
      }),
    );
  });
});
