import type { Bill, BillKind, BillLine, RoundedCosts, UnsupportedLine } from '#db/reconcile/bill/line.ts';

/** Sums of a bill, by which its reader checks that it was imported as the provider shows it. Pure. */

/** What lines cost, in billionths of the currency, and how many requests they state. */
export type BillSum = { currency: string; cost_billionths: bigint; requests: bigint };

export type BillSummary = {
  source: string;
  provider: string;
  from: string;
  to: string;
  time_zone: string;
  lines: number;
  by_kind: ({ kind: BillKind } & BillSum)[];
  by_model: ({ model: string | null } & BillSum)[];
  /** Days of the bill's time zone, by the start of the lines. */
  by_day: ({ day: string } & BillSum)[];
  unsupported: readonly UnsupportedLine[];
  rounded: readonly RoundedCosts[];
};

export function summarizeBill(bill: Bill): BillSummary {
  const { source, provider, from, to, timeZone, lines, unsupported, rounded } = bill;
  return {
    source,
    provider,
    from: from.toISOString(),
    to: to.toISOString(),
    time_zone: timeZone,
    lines: lines.length,
    by_kind: sumBy(lines, ({ kind }) => kind).map(([kind, sum]) => ({ kind, ...sum })),
    by_model: sumBy(lines, ({ model }) => model).map(([model, sum]) => ({ model, ...sum })),
    by_day: sumBy(lines, dayIn(timeZone)).map(([day, sum]) => ({ day, ...sum })),
    unsupported,
    rounded,
  };
}

/** The sums of lines by a key and their currency, in the order of the keys. */
function sumBy<K extends string | null>(
  lines: readonly BillLine[],
  keyOf: (line: BillLine) => K,
): [K, BillSum][] {
  const sums = new Map<string, [K, BillSum]>();
  for (const line of lines) {
    const key = keyOf(line);
    const id = JSON.stringify([key, line.currency]);
    const [, sum] = sums.get(id) ?? [key, { currency: line.currency, cost_billionths: 0n, requests: 0n }];
    sum.cost_billionths += line.cost ?? 0n;
    sum.requests += line.requests ?? 0n;
    sums.set(id, [key, sum]);
  }
  return [...sums].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, sum]) => sum);
}

/** The day of a line in a time zone; each moment is converted once. */
function dayIn(timeZone: string): (line: BillLine) => string {
  const known = new Map<number, string>();
  return ({ from }) => {
    const before = known.get(+from);
    if (before !== undefined) return before;
    const at = Temporal.Instant.fromEpochMilliseconds(+from).toZonedDateTimeISO(timeZone);
    const day = at.toPlainDate().toString();
    known.set(+from, day);
    return day;
  };
}
