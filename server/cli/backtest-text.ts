import { showTable } from '#db/command-line/table.ts';
import { METERS } from '#db/limits/meters.ts';
import { formatDollars } from '#db/money.ts';
import type { BacktestReport, LimitHit } from '#server/contract/backtest.ts';

/** A back-test as text. Pure. */

export function showBacktest(report: BacktestReport): string {
  const { calls, cost, lines, from, to, abandoned, unpriced_after: unpriced } = report;
  const parts = [
    `Calls from ${from} until before ${to}: ${calls.admitted} admitted, ${calls.rejected} rejected.`,
    `Rejected instead: ${calls.newly_rejected}${codesOf(report)}. Shorter replies: ${calls.shortened}.`,
    `Admitted instead: ${calls.newly_admitted} of the rejected ones, at an estimated cost of ` +
      `${dollars(cost.newly_admitted_nanousd)} dollars.`,
  ];
  if (calls.newly_observed > 0)
    parts.push(`Would be rejected by observed limits, and are admitted: ${calls.newly_observed}.`);
  if (report.limits.length > 0) parts.push('', limitsTable(report.limits));
  if (report.accounts.length > 0) parts.push('', rejectedTable(report));
  if (lines.length > 0) parts.push('', costTable(report));
  parts.push('Charges in US dollars of requests that ended in the period, with their corrections.');
  if (unpriced > 0) parts.push(`${unpriced} requests have no price by the changes, and keep their charge.`);
  if (abandoned > 0) parts.push(`${abandoned} abandoned requests keep the charge of their reservations.`);
  if (calls.not_evaluated > 0)
    parts.push(`${calls.not_evaluated} rejected calls can't be decided again, and stay rejected.`);
  parts.push('Nothing was changed.');
  return parts.join('\n');
}

function codesOf({ error_codes: codes }: BacktestReport): string {
  const all = Object.entries(codes).map(([code, count]) => `${count} ${code}`);
  return all.length === 0 ? '' : ` (${all.join(', ')})`;
}

const dollars = (nanousd: string): string => formatDollars(BigInt(nanousd));

function limitText(meter: LimitHit['meter'], cap: number, window: string): string {
  const { format, name } = METERS[meter];
  return `${format === 'nanousd' ? `$${formatDollars(cap)}` : cap} ${name} / ${window}`;
}

function limitsTable(limits: readonly LimitHit[]): string {
  return showTable(
    ['LIMIT OF', 'LIMIT', 'ENFORCEMENT', 'SUBJECTS', 'REJECTED', 'FIRST', 'LAST'],
    limits.map(({ subject, meter, window, cap, enforcement, subjects, rejected, first, last }) => [
      subjects === 1 ? subject : subject.replace(/[^/]+$/, '*'),
      limitText(meter, cap, window),
      enforcement,
      String(subjects),
      String(rejected),
      first.at,
      last.at,
    ]),
  );
}

function rejectedTable({ accounts, keys }: BacktestReport): string {
  const rows = accounts.flatMap((account) => [
    [account.name ?? account.id, 'all', String(account.rejected), account.first.at, account.last.at],
    ...keys
      .filter((key) => key.account === account.id)
      .map((key) => ['', key.name ?? key.id, String(key.rejected), key.first.at, key.last.at]),
  ]);
  return showTable(['ACCOUNT', 'KEY', 'REJECTED', 'FIRST', 'LAST'], rows);
}

function costTable({ lines, cost }: BacktestReport): string {
  const row = (
    account: string,
    model: string,
    line: Omit<typeof cost, 'newly_admitted_nanousd'>,
  ): string[] => [
    account,
    model,
    String(line.requests),
    String(line.rejected),
    dollars(line.before_nanousd),
    dollars(line.after_nanousd),
    dollars(String(BigInt(line.after_nanousd) - BigInt(line.before_nanousd))),
    dollars(String(BigInt(line.upstream_after_nanousd) - BigInt(line.upstream_before_nanousd))),
  ];
  return showTable(
    ['ACCOUNT', 'MODEL', 'REQUESTS', 'REJECTED', 'RECORDED', 'BACK-TEST', 'DIFFERENCE', 'UPSTREAM'],
    [...lines.map((line) => row(line.name || 'others', line.model, line)), row('all', 'all', cost)],
  );
}
