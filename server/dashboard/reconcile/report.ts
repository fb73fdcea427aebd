import type { ClientBase } from 'pg';
import { readCorrected } from '#db/log/read-corrections.ts';
import { describeClass } from '#db/reconcile/classes.ts';
import { type Report, sumsByClass } from '#db/reconcile/report/report.ts';
import type { RecordedReconciliation } from '#db/reconcile/report/store.ts';
import { referenceOf } from '#server/control/reconcile/apply.ts';
import type {
  ReconciledCell,
  ReconciledDifference,
  ReconciliationReport,
  ReconciliationRow,
} from '#server/contract/reconciliations.ts';

/** Rows of a page; the downloads have all. */
const DIFFERENCES_SHOWN_MAX = 500;
const CELLS_SHOWN_MAX = 500;
/** Requests whose corrections are read by one query. */
const CORRECTIONS_PAGE = 5_000;

/** A row of the list. */
export function reconciliationRow({ at, position, event }: RecordedReconciliation): ReconciliationRow {
  return {
    id: event.reconciliation,
    recorded_at: at.toISOString(),
    position,
    provider: event.provider,
    from: event.from,
    to: event.to,
    bill_nanousd: event.bill_nanousd,
    log_nanousd: event.log_nanousd,
    charged_nanousd: event.charged_nanousd,
    unexplained_nanousd: event.unexplained_nanousd,
    differences: event.differences.reduce((sum, { count }) => sum + count, 0),
  };
}

/** A report as the page shows it, with the state of review of each difference. */
export async function reconciliationReport(
  client: ClientBase,
  recorded: RecordedReconciliation & { report: Report },
): Promise<ReconciliationReport> {
  const { event, report } = recorded;
  const { totals } = report;
  const shown = report.differences.slice(0, DIFFERENCES_SHOWN_MAX);
  const corrected = await correctedIn(client, report.reconciliation, shown);
  const cells = largestCells(report.cells);
  return {
    object: 'reconciliation',
    ...reconciliationRow(recorded),
    report_digest: event.report_digest,
    recorded_by: event.actor,
    time_zone: report.time_zone,
    lines: report.lines,
    attempts: totals.requests,
    up_to_position: report.up_to_position,
    upstreams: report.upstreams,
    notes: report.notes,
    tolerance_nanousd: event.tolerance_nanousd,
    tolerance_ppm: event.tolerance_ppm,
    differences_nanousd: totals.differences_nanousd,
    reconciled_nanousd: totals.reconciled_nanousd,
    within_tolerance: totals.within_tolerance,
    foreign: totals.foreign,
    classes: sumsByClass(report).map(({ amount_nanousd, ...sum }) => ({
      ...sum,
      ...describeClass(sum.class),
      amount_nanousd: String(amount_nanousd),
    })),
    differences: shown.map(({ corrections, ...difference }): ReconciledDifference => ({
      ...difference,
      correctable: corrections.length,
      corrected: corrected.get(difference.id) ?? 0,
    })),
    differences_omitted: report.differences.length - shown.length,
    cells,
    cells_omitted: report.cells.length - cells.length,
  };
}

/** By difference: how many of its requests were corrected with its reference. */
async function correctedIn(
  client: ClientBase,
  reconciliation: string,
  differences: Report['differences'],
): Promise<Map<number, number>> {
  const all = differences.flatMap(({ id, corrections }) =>
    corrections.map(({ request }) => ({ id, request, reference: referenceOf(reconciliation, id) })),
  );
  const corrected = new Map<number, number>();
  for (let at = 0; at < all.length; at += CORRECTIONS_PAGE) {
    const page = all.slice(at, at + CORRECTIONS_PAGE);
    const found = await readCorrected(
      client,
      page.map(({ request }) => request),
    );
    for (const { id, request, reference } of page)
      if (found.get(request)?.references.includes(reference) === true)
        corrected.set(id, (corrected.get(id) ?? 0) + 1);
  }
  return corrected;
}

/** The cells that differ most, in their order. */
function largestCells(cells: Report['cells']): ReconciledCell[] {
  if (cells.length <= CELLS_SHOWN_MAX) return cells;
  const apart = ({ bill_nanousd, log_nanousd }: Report['cells'][number]): number =>
    Math.abs(Number(BigInt(bill_nanousd) - BigInt(log_nanousd)));
  const largest = new Set(cells.toSorted((a, b) => apart(b) - apart(a)).slice(0, CELLS_SHOWN_MAX));
  return cells.filter((cell) => largest.has(cell));
}
