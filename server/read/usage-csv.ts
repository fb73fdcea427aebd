import type { UsageFigures, UsageReport, UsageRow } from '#server/contract/usage.ts';
import { csvLine } from '#db/csv.ts';

/** A usage report as CSV: its rows or, where it is not taken apart, its totals as the only one. Pure. */
export function usageCsv({ bucket, group_by, totals, rows }: UsageReport): string {
  const figures = Object.keys(totals) as (keyof UsageFigures)[];
  const columns: (keyof UsageRow)[] = [
    ...(bucket === null ? [] : (['from'] as const)),
    ...group_by,
    ...figures,
  ];
  return [
    csvLine(columns),
    ...(rows ?? [totals as UsageRow]).map((row) => csvLine(columns.map((name) => row[name]))),
  ].join('');
}
