import { showTable } from '#db/command-line/table.ts';
import { formatDollars } from '#db/money.ts';
import { describeClass } from '#db/reconcile/classes.ts';
import { type Report, sumsByClass } from '#db/reconcile/report/report.ts';

const ROWS_SHOWN = 200;
const dollars = (nanousd: string | bigint): string => formatDollars(BigInt(nanousd));

/** A report as text; amounts in US dollars. Pure. */
export function reportText(report: Report): string {
  const { totals, tolerance, differences } = report;
  const shown = differences.slice(0, ROWS_SHOWN);
  const classes = sumsByClass(report);
  return [
    `Reconciliation ${report.reconciliation}: ${report.provider}, ` +
      `${report.from} until before ${report.to}, days of ${report.time_zone}`,
    `Log up to position ${report.up_to_position}; ${totals.requests} attempts, ` +
      `${report.lines} lines of the bill.`,
    `Tolerance: $${dollars(tolerance.nanousd)} or ${tolerance.ppm} ppm; ${totals.within_tolerance} ` +
      'differences are within it, and in all sums.',
    ...report.notes,
    '',
    showTable(
      ['TOTAL', 'US DOLLARS'],
      [
        ['log', dollars(totals.log_nanousd)],
        ['differences', dollars(totals.differences_nanousd)],
        ['reconciled', dollars(totals.reconciled_nanousd)],
        ['bill', dollars(totals.bill_nanousd)],
        ['unexplained', dollars(totals.unexplained_nanousd)],
        ['charged to accounts', dollars(totals.charged_nanousd)],
        ...Object.entries(totals.foreign).map(([currency, amount]) => [
          `billed in ${currency}`,
          `${dollars(amount)} ${currency}`,
        ]),
      ],
    ),
    ...(differences.length === 0
      ? ['', 'Bill and log agree.']
      : [
          '',
          showTable(
            ['CLASS', 'COUNT', 'AMOUNT', 'MEANING'],
            classes.map((each) => [
              each.class,
              String(each.count),
              dollars(each.amount_nanousd),
              describeClass(each.class).meaning,
            ]),
          ),
          '',
          showTable(
            ['DIFFERENCE', 'CLASS', 'DAY', 'MODEL', 'CREDENTIAL', 'TIER', 'COUNT', 'AMOUNT', 'DETAIL'],
            shown.map((each) => [
              String(each.id),
              each.class,
              each.day || 'several',
              each.model ?? '',
              each.credential ?? '',
              each.service_tier ?? '',
              String(each.count),
              dollars(each.amount_nanousd),
              each.detail ?? '',
            ]),
          ),
          ...(differences.length > shown.length
            ? [`${differences.length - shown.length} more: add --csv or --json.`]
            : []),
        ]),
  ].join('\n');
}
