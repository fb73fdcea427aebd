import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Event, Placed } from '#db/events/events.ts';
import { displayAmount } from '#db/statement/currency.ts';
import { canonicalJson, firstDifference } from '#db/statement/canonical.ts';
import type { StatementParameters } from '#db/statement/document.ts';
import { foldStatement } from '#db/statement/fold.ts';
import { stretchesOf } from '#db/statement/request-entries.ts';
import { joinedHash, subtreeHash, subtreesOf } from '#db/tlog/merkle.ts';
import { isIncluded, readMultiProof } from '#db/tlog/multi-proof.ts';
import { accepted, settled } from '../../support/log/log-writer.ts';

const FROM = '2026-10-01T00:00:00.000Z';
const TO = '2026-11-01T00:00:00.000Z';
const PARAMETERS: StatementParameters = {
  log: 'log',
  account: 'Account1',
  key: null,
  end_user: null,
  from: FROM,
  to: TO,
  corrections: null,
  group_by: [],
  as_of: 1_000_000,
  is_final: true,
  opening_balance_nanousd: null,
};

const place = (event: Event, position: number, at = '2026-10-15T12:00:00.000Z'): Placed => {
  const common = { shard: 0, position, at: new Date(at), instance: 1 };
  return 'actor' in event
    ? { ...common, event, stream: 'account/Account1', version: position }
    : { ...common, event, stream: null, version: null };
};

const call = (cost: number | undefined, changes: object = {}): Event =>
  settled(accepted(), { ...(cost === undefined ? {} : { cost_nanousd: cost }), ...changes });

test('the lines of any calls add up to the total, to the nano-dollar, beyond 2^53', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          cost: fc.option(fc.maxSafeInteger().map(Math.abs), { nil: undefined }),
          model: fc.constantFrom('a', 'b', 'c'),
          at: fc.constantFrom('2026-09-30T23:59:59.999Z', FROM, '2026-10-31T23:59:59.999Z', TO),
          correction: fc.boolean(),
        }),
        { maxLength: 60 },
      ),
      fc.subarray(['day', 'key', 'end_user'] as const),
      (calls, groups) => {
        const events = calls.map(({ cost, model, at, correction }, index) => {
          const event = call(cost, { model });
          if (!correction) return place(event, index + 1, at);
          const { request, account, key } = event as { request: string; account: string; key: string };
          return place(
            {
              type: 'usage.adjusted',
              ...{ request, account, key, model },
              end_reason: 'completed',
              cost_nanousd: -(cost ?? 0),
              reference: 'bill',
              reason: 'billed less',
              adjusted_by: 'test',
            },
            index + 1,
            at,
          );
        });
        const { lines, totals } = foldStatement({ ...PARAMETERS, group_by: groups }, events);
        const inside = calls.filter(({ at }) => at >= FROM && at < TO);
        const exact = inside.reduce(
          (sum, { cost = 0, correction }) => sum + (correction ? -BigInt(cost) : BigInt(cost)),
          0n,
        );
        expect(BigInt(totals.cost_nanousd)).toBe(exact);
        expect(lines.reduce((sum, line) => sum + BigInt(line.cost_nanousd), 0n)).toBe(exact);
        expect(totals.requests).toBe(inside.filter(({ correction }) => !correction).length);
        expect(lines.reduce((sum, line) => sum + line.input_tokens, 0)).toBe(totals.input_tokens);
      },
    ),
  );
});

test('the balance is opening + top-ups − charges of prepaid calls + adjustments', () => {
  const control = { actor: 'test' };
  const events = [
    place(
      { type: 'account.registered', account: 'Account1', name: 'Ana', ...control },
      1,
      '2026-08-01T00:00:00Z',
    ),
    place(
      {
        type: 'account.terms_overridden',
        account: 'Account1',
        terms: { prepaid: true },
        windows: 'keep',
        ...control,
      },
      2,
      '2026-09-01T00:00:00Z',
    ),
    place(
      { type: 'account.topped_up', account: 'Account1', amount_nanousd: 100, reference: 'a', ...control },
      3,
    ),
    place(call(7, { terms_position: 1 }), 4),
    place(call(30, { terms_position: 3 }), 5),
    place(
      {
        type: 'quota.adjusted',
        account: 'Account1',
        meter: 'cost_nanousd',
        amount: -5,
        window: 'lifetime',
        window_start: 0,
        reset_position: 0,
        reason: 'goodwill',
        ...control,
      },
      6,
    ),
    place(
      { type: 'account.topped_up', account: 'Account1', amount_nanousd: 1, reference: 'b', ...control },
      7,
      TO,
    ),
  ];
  const statement = foldStatement({ ...PARAMETERS, opening_balance_nanousd: '11' }, events);
  expect(statement.balance).toEqual({
    opening_nanousd: '11',
    top_ups_nanousd: '100',
    charges_nanousd: '30',
    adjustments_nanousd: '5',
    closing_nanousd: '86',
  });
  expect(statement.totals.cost_nanousd).toBe('37');
  expect(statement.top_ups.map(({ reference }) => reference)).toEqual(['a']);
  expect(statement.adjustments).toMatchObject([{ reason: 'goodwill', balance_nanousd: '5' }]);
});

test('a currency rounds half away from zero, once, from exact products', () => {
  const euro = { code: 'EUR', rate: '0.92', digits: 2 };
  expect(displayAmount(1_000_000_000n, euro)).toBe('0.92');
  expect(displayAmount(-1_000_000_000n, euro)).toBe('-0.92');
  expect(displayAmount(5_000_000n, { ...euro, rate: '1' })).toBe('0.01');
  expect(displayAmount(4_999_999n, { ...euro, rate: '1' })).toBe('0.00');
  expect(displayAmount(-4_999_999n, { ...euro, rate: '1' })).toBe('0.00');
  expect(displayAmount(10n ** 30n, { ...euro, rate: '149.5', digits: 0 })).toBe(`1495${'0'.repeat(20)}`);
});

test('canonical JSON does not depend on the order of keys, and a difference has its path', () => {
  expect(canonicalJson({ b: [{ d: 1, c: '2' }], a: null })).toBe('{"a":null,"b":[{"c":"2","d":1}]}');
  expect(firstDifference({ a: [{ b: 1 }] }, { a: [{ b: 1 }] })).toBeNull();
  expect(firstDifference({ a: [{ b: 1 }] }, { a: [{ b: 2 }] })).toBe('a[0].b');
  expect(firstDifference({ a: [] }, { a: [{ b: 2 }] })).toBe('a[0]');
  expect(firstDifference({ a: 1 }, { a: 1, z: 1 })).toBe('z');
});

test('one proof covers any set of leaves, and no other leaf, place, hash or order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 300 }).chain((size) =>
        fc.record({
          size: fc.constant(size),
          chosen: fc.uniqueArray(fc.integer({ min: 0, max: size - 1 }), { minLength: 1, maxLength: 40 }),
        }),
      ),
      fc.nat(),
      async ({ size, chosen }, seed) => {
        const leaves = Array.from({ length: size }, (_, at) => hash('sha256', `leaf ${at}`, 'buffer'));
        const root = joinedHash(
          subtreesOf(0, size).map(({ level, number }) =>
            subtreeHash(leaves.slice(number * 2 ** level, (number + 1) * 2 ** level)),
          ),
        );
        const indexes = chosen.toSorted((one, other) => one - other);
        const proof = await readMultiProof(
          indexes,
          size,
          () => async (subtrees) =>
            subtrees.map(({ level, number }) =>
              subtreeHash(leaves.slice(number * 2 ** level, (number + 1) * 2 ** level)),
            ),
        );
        const own = indexes.map((index) => ({ index, hash: leaves[index] as Buffer }));
        expect(isIncluded(own, { size, root }, proof)).toBe(true);
        const at = seed % own.length;
        const wrong = own.map((leaf, each) => (each === at ? { ...leaf, hash: root } : leaf));
        if (size > 1) expect(isIncluded(wrong, { size, root }, proof)).toBe(false);
        expect(isIncluded(own, { size, root }, [...proof, root])).toBe(false);
        expect(isIncluded([...own, ...own], { size, root }, proof)).toBe(false);
        expect(isIncluded([], { size, root }, proof)).toBe(false);
        if (proof.length > 0) {
          expect(isIncluded(own, { size, root }, proof.slice(1))).toBe(false);
          const changed = proof.map((each, index) => (index === seed % proof.length ? root : each));
          expect(isIncluded(own, { size, root }, changed)).toBe(false);
        }
      },
    ),
    { numRuns: 60 },
  );
});

test('stretches of the log cover each position once, in order, and join positions that are near', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 20_000 }), { maxLength: 60 }), (chosen) => {
      const positions = chosen.toSorted((one, other) => one - other);
      const stretches = stretchesOf(positions);
      for (const position of positions)
        expect(stretches.filter(({ after, upTo }) => position > after && position <= upTo)).toHaveLength(1);
      for (const [index, { after, upTo }] of stretches.entries()) {
        expect(positions).toContain(after + 1);
        expect(positions).toContain(upTo);
        expect(after).toBeGreaterThan((stretches[index - 1]?.upTo ?? -201) + 199);
      }
    }),
  );
  expect(stretchesOf([5, 6, 9, 5_000])).toEqual([
    { after: 4, upTo: 9 },
    { after: 4_999, upTo: 5_000 },
  ]);
});
