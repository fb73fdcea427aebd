import type { BillKind } from '#db/reconcile/bill/line.ts';

/** Words by which providers describe what isn't usage. */
const WORDS: readonly (readonly [RegExp, BillKind])[] = [
  [/\brefund/i, 'refund'],
  [/\bdiscount/i, 'discount'],
  [/\b(?:tax|vat|gst)\b/i, 'tax'],
  [/\bcredit|\bgrant/i, 'credit'],
  [/\bfees?\b|\bsubscription/i, 'fee'],
];

/**
 * The kind of a position by its description, where the source has no field for it. A negative amount that
 * no word describes is a credit.
 */
export function kindOf(description: string, cost: bigint): BillKind {
  const found = WORDS.find(([words]) => words.test(description));
  return found?.[1] ?? (cost < 0n ? 'credit' : 'usage');
}
