import { BILL_LINES_MAX, UNSUPPORTED_LINES_MAX } from '#db/reconcile/bill/bounds.ts';
import { formatRest, parseCost } from '#db/reconcile/bill/decimal.ts';
import { BillFormatError, quoted } from '#db/reconcile/bill/format-error.ts';
import type { Bill, BillLine, UnsupportedLine } from '#db/reconcile/bill/line.ts';

/** A line of usage alone, to be completed by each parser. */
export const EMPTY_LINE = {
  kind: 'usage',
  model: null,
  credential: null,
  serviceTier: null,
  requestId: null,
  part: null,
  quantity: null,
  requests: null,
  cost: null,
  currency: 'USD',
} as const satisfies Omit<BillLine, 'place' | 'from' | 'to'>;

/** Collects the lines of a bill while it is parsed. */
export class BillCollector {
  readonly #lines: BillLine[] = [];
  readonly #unsupported: UnsupportedLine[] = [];
  #from = Infinity;
  #to = -Infinity;
  readonly #rests = new Map<string, { lines: number; rest: bigint }>();

  /** @throws {BillFormatError} when there are too many lines. */
  add(line: BillLine): void {
    if (this.#lines.length >= BILL_LINES_MAX)
      throw new BillFormatError(
        line.place,
        `The bill has more than ${BILL_LINES_MAX} lines. Import a shorter interval.`,
      );
    this.cover(line.place, line);
    this.#lines.push(line);
  }

  /** Includes an interval in that of the bill, whether it has lines or not. */
  cover(place: string, { from, to }: Pick<BillLine, 'from' | 'to'>): void {
    if (!(from <= to)) throw new BillFormatError(place, 'It ends before it begins.');
    this.#from = Math.min(this.#from, +from);
    this.#to = Math.max(this.#to, +to);
  }

  /** States a position, or a part of one, that no line represents. */
  unsupported(place: string, reason: string): void {
    if (this.#unsupported.length >= UNSUPPORTED_LINES_MAX)
      throw new BillFormatError(
        place,
        `More than ${UNSUPPORTED_LINES_MAX} positions are not supported. Is the format correct? ${reason}`,
      );
    this.#unsupported.push({ place, reason });
  }

  /**
   * A cost in billionths. Where the source has a finer one, the difference is added to the bill's remainder.
   * @param shift the power of ten of its unit: −2 for cents.
   */
  cost(place: string, text: string, currency: string, shift = 0): bigint {
    const cost = parseCost(text, shift);
    if (cost === null)
      throw new BillFormatError(place, `The cost ${quoted(text)} is not a decimal number of money.`);
    if (cost.rest !== 0n) {
      const sum = this.#rests.get(currency) ?? { lines: 0, rest: 0n };
      this.#rests.set(currency, { lines: sum.lines + 1, rest: sum.rest + cost.rest });
    }
    return cost.billionths;
  }

  /**
   * The bill.
   * @param interval null: the one that was covered.
   * @throws {BillFormatError} when nothing was.
   */
  bill(
    about: Pick<Bill, 'source' | 'provider' | 'timeZone'>,
    interval: Pick<Bill, 'from' | 'to'> | null = null,
  ): Bill {
    if (interval === null && this.#from === Infinity)
      throw new BillFormatError('The bill', 'It has no lines, so its interval is not known.');
    return {
      ...about,
      from: interval?.from ?? new Date(this.#from),
      to: interval?.to ?? new Date(this.#to),
      lines: this.#lines,
      unsupported: this.#unsupported,
      rounded: [...this.#rests].map(([currency, { lines: count, rest }]) => ({
        currency,
        lines: count,
        remainder: formatRest(rest),
      })),
    };
  }
}

/** @throws {BillFormatError} unless it is the code of a currency, such as `usd`. */
export function currencyOf(place: string, text: string): string {
  if (!/^[A-Za-z]{3}$/.test(text))
    throw new BillFormatError(place, `The currency ${quoted(text)} is not a code of ISO 4217.`);
  return text.toUpperCase();
}
