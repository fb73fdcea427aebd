import { showTable } from '#db/command-line/table.ts';
import { formatBillionths } from '#db/reconcile/bill/decimal.ts';
import type { BillSum, BillSummary } from '#db/reconcile/bill/summary.ts';

/** Unsupported positions that are shown as text. JSON has all. */
const UNSUPPORTED_SHOWN = 20;

/** @param file the file that the bill was written to; null: it was not. */
export function showSummary({ file, ...bill }: BillSummary & { file: string | null }): string {
  const issuer = bill.provider === '' ? 'an unnamed issuer' : bill.provider;
  return [
    `Bill of ${issuer} (${bill.source}) from ${bill.from} until ${bill.to}, days in ${bill.time_zone}: ` +
      `${bill.lines} lines.`,
    table('KIND', bill.by_kind, ({ kind }) => kind),
    table('MODEL', bill.by_model, ({ model }) => model ?? '-'),
    table('DAY', bill.by_day, ({ day }) => day),
    ...bill.rounded.map(
      ({ currency, lines, remainder }) =>
        `Costs finer than a billionth of ${currency}, which are rounded: ${lines}, remainder ${remainder}.`,
    ),
    ...(bill.unsupported.length === 0 ? [] : [showUnsupported(bill)]),
    file === null ? 'Not written to a file. Add --out to compare it.' : `Written to ${file}.`,
  ].join('\n\n');
}

function table<T extends BillSum>(heading: string, sums: readonly T[], nameOf: (sum: T) => string): string {
  return showTable(
    [heading, 'COST', 'CURRENCY', 'REQUESTS'],
    sums.map((sum) => [
      nameOf(sum),
      formatBillionths(sum.cost_billionths),
      sum.currency,
      String(sum.requests),
    ]),
  );
}

function showUnsupported({ unsupported }: Pick<BillSummary, 'unsupported'>): string {
  const rest = unsupported.length - UNSUPPORTED_SHOWN;
  return [
    `Not represented in its lines (${unsupported.length}):`,
    ...unsupported.slice(0, UNSUPPORTED_SHOWN).map(({ place, reason }) => `  ${place}: ${reason}`),
    ...(rest > 0 ? [`  and ${rest} more; --json prints all.`] : []),
  ].join('\n');
}
