import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { EventOf } from '#db/events/events.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { DIFFERENCE_CLASSES, type DifferenceClass } from '#db/reconcile/classes.ts';
import type { Compared } from '#db/reconcile/compare/comparison.ts';
import type { Tolerance } from '#db/reconcile/compare/findings.ts';

/** The report of a comparison: what the digest in its event is of. Pure. */

const Amount = z.string().regex(/^-?\d{1,30}$/);
const CellShape = {
  /** In the time zone of the bill; empty: several days. */
  day: z.string(),
  model: z.string().nullable(),
  credential: z.string().nullable(),
  service_tier: z.string().nullable(),
};
const Delta = z.int().optional();
const Correction = z.strictObject({
  request: z.string(),
  upstream_cost_nanousd: z.int(),
  input_tokens: Delta,
  cache_read_tokens: Delta,
  cache_write_tokens: Delta,
  output_tokens: Delta,
  reasoning_tokens: Delta,
});

export const Report = z.strictObject({
  reconciliation: z.string(),
  provider: z.string(),
  source: z.string(),
  from: z.string(),
  to: z.string(),
  time_zone: z.string(),
  bill_digest: z.string(),
  lines: z.int(),
  up_to_position: z.int(),
  /** The upstreams whose calls were compared; empty: all. */
  upstreams: z.array(z.string()),
  /** Parts of the bill that were not compared, and why. */
  notes: z.array(z.string()),
  tolerance: z.strictObject({ nanousd: Amount, ppm: z.int() }),
  totals: z.strictObject({
    requests: z.int(),
    bill_nanousd: Amount,
    log_nanousd: Amount,
    charged_nanousd: Amount,
    differences_nanousd: Amount,
    /** The log's cost and all classed differences. */
    reconciled_nanousd: Amount,
    unexplained_nanousd: Amount,
    within_tolerance: z.int(),
    /** Amounts in currencies without an exchange rate, in billionths: in no other sum. */
    foreign: z.record(z.string(), Amount),
  }),
  differences: z.array(
    z.strictObject({
      id: z.int(),
      class: z.enum(DIFFERENCE_CLASSES),
      ...CellShape,
      is_within_tolerance: z.boolean(),
      count: z.int(),
      amount_nanousd: Amount,
      detail: z.string().nullable(),
      places: z.array(z.string()),
      requests: z.array(
        z.strictObject({ request: z.string().nullable(), provider_request: z.string().nullable() }),
      ),
      corrections: z.array(Correction),
    }),
  ),
  cells: z.array(
    z.strictObject({
      ...CellShape,
      requests: z.int(),
      bill_nanousd: Amount,
      log_nanousd: Amount,
      charged_nanousd: Amount,
    }),
  ),
});
export type Report = z.infer<typeof Report>;

export type ReportFacts = {
  reconciliation: string;
  bill: Bill;
  tolerance: Tolerance;
  upstreams: readonly string[];
  notes: readonly string[];
  upToPosition: number;
};

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** SHA-256 of the lines of a bill. */
export function digestBill({ lines }: Bill): string {
  const hash = createHash('sha256');
  for (const line of lines)
    hash.update(
      `${JSON.stringify(line, (_, value) => (typeof value === 'bigint' ? String(value) : value))}\n`,
    );
  return hash.digest('hex');
}

/** The report of a comparison. */
export function reportOf(
  { totals, differences, cells }: Compared,
  { reconciliation, bill, tolerance, upstreams, notes, upToPosition }: ReportFacts,
): Report {
  return {
    reconciliation,
    provider: bill.provider,
    source: bill.source,
    from: bill.from.toISOString(),
    to: bill.to.toISOString(),
    time_zone: bill.timeZone,
    bill_digest: digestBill(bill),
    lines: bill.lines.length,
    up_to_position: upToPosition,
    upstreams: [...upstreams],
    notes: [...notes],
    tolerance: { nanousd: String(tolerance.nanousd), ppm: tolerance.ppm },
    totals: {
      requests: totals.requests,
      bill_nanousd: String(totals.bill),
      log_nanousd: String(totals.log),
      charged_nanousd: String(totals.charged),
      differences_nanousd: String(totals.differences),
      reconciled_nanousd: String(totals.log + totals.differences),
      unexplained_nanousd: String(totals.unexplained),
      within_tolerance: differences.filter((each) => each.is_within_tolerance).length,
      foreign: Object.fromEntries([...totals.foreign].map(([name, amount]) => [name, String(amount)])),
    },
    differences,
    cells,
  };
}

/** A report as it is stored, and the digest of its text. */
export function encodeReport(report: Report): { text: string; digest: string } {
  const text = JSON.stringify(report);
  return { text, digest: sha256(text) };
}

/** A stored report that is not the recorded one. */
export class ReportDamageError extends Error {
  override name = 'ReportDamageError';
}

/** @throws {ReportDamageError} when the text doesn't have the digest. */
export function decodeReport(text: string, digest: string): Report {
  if (sha256(text) !== digest)
    throw new ReportDamageError(
      `the stored report was changed: its SHA-256 is ${sha256(text)}, and the log has ${digest}`,
    );
  return Report.parse(JSON.parse(text));
}

/** All differences of a class. */
export type ClassSum = { class: DifferenceClass; count: number; amount_nanousd: bigint };

export function sumsByClass({ differences }: Pick<Report, 'differences'>): ClassSum[] {
  return DIFFERENCE_CLASSES.flatMap((name) => {
    const own = differences.filter((each) => each.class === name);
    if (own.length === 0) return [];
    return [
      {
        class: name,
        count: own.reduce((sum, { count }) => sum + count, 0),
        amount_nanousd: own.reduce((sum, { amount_nanousd }) => sum + BigInt(amount_nanousd), 0n),
      },
    ];
  });
}

/** The event that records a report. @throws {RangeError} when an amount is no safe integer. */
export function reconciliationEvent(
  report: Report,
  digest: string,
  actor: string,
): EventOf<'reconciliation.recorded'> {
  const { totals, tolerance } = report;
  return {
    type: 'reconciliation.recorded',
    reconciliation: report.reconciliation,
    provider: report.provider.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 100),
    from: report.from,
    to: report.to,
    bill_digest: report.bill_digest,
    up_to_position: report.up_to_position,
    tolerance_nanousd: safe(tolerance.nanousd),
    tolerance_ppm: tolerance.ppm,
    bill_nanousd: safe(totals.bill_nanousd),
    log_nanousd: safe(totals.log_nanousd),
    charged_nanousd: safe(totals.charged_nanousd),
    unexplained_nanousd: safe(totals.unexplained_nanousd),
    differences: sumsByClass(report).map(({ amount_nanousd, ...rest }) => ({
      ...rest,
      amount_nanousd: safe(amount_nanousd),
    })),
    report_digest: digest,
    actor,
  };
}

function safe(amount: string | bigint): number {
  const value = Number(amount);
  if (!Number.isSafeInteger(value))
    throw new RangeError('an amount exceeds nine million dollars: compare a shorter period');
  return value;
}
