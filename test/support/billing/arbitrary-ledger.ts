import fc from 'fast-check';
import type { PricedPart } from '#db/pricing/parts.ts';
import { DAY_MS, type LedgerEntry } from './ledger.ts';

export const LEDGER_FROM = new Date('2026-10-01T00:00:00Z');
export const LEDGER_DAYS = 9;

const counted = fc.record({
  quantity: fc.bigInt({ min: 1n, max: 10n ** 9n }),
  cost: fc.bigInt({ min: 0n, max: 10n ** 13n }),
});

/** Entries of nine days from {@link LEDGER_FROM}, with these parts, and with adjustments where allowed. */
export function arbitraryLedger(
  parts: readonly PricedPart[],
  { adjustments }: { adjustments: boolean },
): fc.Arbitrary<LedgerEntry[]> {
  const at = fc.integer({ min: 0, max: LEDGER_DAYS * DAY_MS - 1 }).map((ms) => new Date(+LEDGER_FROM + ms));
  const common = {
    at,
    model: fc.constantFrom('model-a', 'model-b, large', 'model-c'),
    credential: fc.constantFrom('key_1', 'key_2'),
    serviceTier: fc.constantFrom(null, 'default', 'priority', 'batch'),
  };
  const request = fc.record({
    ...common,
    requestId: fc.uuid(),
    parts: fc.record(Object.fromEntries(parts.map((part) => [part, counted])), { requiredKeys: [] }),
  });
  const adjustment = fc.record({
    ...common,
    requestId: fc.constant(null),
    parts: fc.constant({}),
    adjustment: fc.record({
      kind: fc.constantFrom('discount', 'refund', 'credit', 'fee', 'tax'),
      cost: fc.bigInt({ min: -(10n ** 12n), max: 10n ** 12n }),
    }),
  });
  const entry: fc.Arbitrary<LedgerEntry> = adjustments ? fc.oneof(request, adjustment) : request;
  return fc.array(entry, { maxLength: 40 });
}
