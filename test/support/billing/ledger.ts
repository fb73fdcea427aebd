import type { PricedPart } from '#db/pricing/parts.ts';
import type { BillKind } from '#db/reconcile/bill/line.ts';

/**
 * What a scripted provider's own books say: one entry per request, or per adjustment without a request. Costs
 * are nano-dollars of each part, exactly.
 */
export type LedgerEntry = {
  /** The provider's id of the request or generation; null: an adjustment. */
  requestId: string | null;
  at: Date;
  model: string;
  /** The provider's id or name of the API key. */
  credential: string;
  /** `batch` is the tier of batches. */
  serviceTier: string | null;
  parts: { readonly [Part in PricedPart]?: { quantity: bigint; cost: bigint } };
  /** Costs that belong to no part. Negative for discounts, refunds and credits. */
  adjustment?: { kind: Exclude<BillKind, 'usage'>; cost: bigint };
};

export const DAY_MS = 24 * 60 * 60 * 1_000;

/** The start of the day of a moment, where days begin `offsetMs` after midnight UTC. */
export const dayStart = (at: Date | number, offsetMs: number): number =>
  Math.floor((Number(at) - offsetMs) / DAY_MS) * DAY_MS + offsetMs;

/** All that an entry costs. */
export const costOf = ({ parts, adjustment }: LedgerEntry): bigint =>
  Object.values(parts).reduce((sum, { cost }) => sum + cost, adjustment?.cost ?? 0n);

export type PartEntry = [part: PricedPart, counted: { quantity: bigint; cost: bigint }];
export const partsOf = ({ parts }: LedgerEntry): PartEntry[] => Object.entries(parts) as PartEntry[];

/** The words by which providers describe an adjustment of a kind. */
export const DESCRIPTIONS = {
  discount: 'Volume discount',
  refund: 'Refund of failed requests',
  credit: 'Promotional credit',
  fee: 'Platform fee',
  tax: 'Sales tax',
} as const;

/** An exact decimal number as JSON text: `amount` in units of ten to the power of minus `digits`. */
export function decimal(amount: bigint, digits: number): string {
  const magnitude = String(amount < 0n ? -amount : amount).padStart(digits + 1, '0');
  const text = `${magnitude.slice(0, -digits)}.${magnitude.slice(-digits)}`.replace(/\.?0+$/, '');
  return amount < 0n ? `-${text}` : text;
}

/** A number of JSON that is written exactly as this text. */
export const rawNumber = (text: string): unknown =>
  (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text);

/** The items of a list by a key, in the order of their first. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  return [...Map.groupBy(items, keyOf).values()];
}
