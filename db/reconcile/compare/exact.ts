import type { BilledPart, Quantities } from '#db/reconcile/compare/attempts.ts';
import type { FullRate } from '#db/pricing/schedule.ts';

/** Exact products of quantities and prices. Pure. */

/**
 * A price per million is a multiple of a millionth of a nano-dollar, and a price per hour one of a
 * 3,600,000th per millisecond: in these fractions of a nano-dollar both are whole.
 */
export const FRACTIONS = 18_000_000n;
const OF_MILLION = FRACTIONS / 1_000_000n;
const OF_HOUR = FRACTIONS / 3_600_000n;

/** What one of a part costs, in fractions; null: no price is set. */
export function unitPrice(part: BilledPart, rate: FullRate): bigint | null {
  if (part === 'requests') return BigInt(rate.per_request) * FRACTIONS;
  const price = rate[part];
  if (price === null) return null;
  switch (part) {
    case 'media_hour':
      return BigInt(price) * OF_HOUR;
    case 'image':
    case 'web_search':
    case 'tool_call':
      return BigInt(price) * FRACTIONS;
    case 'characters':
    case 'input':
    case 'cache_read':
    case 'cache_write_5m':
    case 'cache_write_1h':
    case 'output':
    case 'reasoning':
    case 'audio_input':
    case 'audio_output':
    case 'image_input':
    case 'image_output':
      return BigInt(price) * OF_MILLION;
  }
}

/** The cost of quantities and requests at a rate, rounded once, half up; null: a part has no price. */
export function costAt(quantities: Quantities, rate: FullRate, requests: bigint): bigint | null {
  let sum = BigInt(rate.per_request) * requests * FRACTIONS;
  for (const [part, quantity] of quantities) {
    if (part === 'requests') continue;
    const price = unitPrice(part, rate);
    if (price === null && quantity !== 0n) return null;
    sum += quantity * (price ?? 0n);
  }
  return divideRound(sum, FRACTIONS);
}

/** A quotient rounded to the nearest, half away from zero. */
export function divideRound(value: bigint, by: bigint): bigint {
  const half = by / 2n;
  return value < 0n ? -((-value + half) / by) : (value + half) / by;
}

export const absolute = (value: bigint): bigint => (value < 0n ? -value : value);
