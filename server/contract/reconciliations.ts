import { z } from 'zod';
import { UpstreamName } from '#db/events/parts.ts';
import { BILL_FORMATS } from '#db/reconcile/bill/read-bill.ts';
import type { DifferenceClass } from '#db/reconcile/classes.ts';

/** Contract for comparisons of providers' bills with the log. Amounts are nano-dollars. Pure. */

/** Of the files of one comparison as JSON: larger bills are compared by the command line. */
export const BILL_UPLOAD_BYTES_MAX = 12 * 1024 * 1024;
const FILES_MAX = 16;
const MAPPED_MAX = 200;
const NAME_CHARACTERS_MAX = 200;

const Name = z.string().min(1).max(NAME_CHARACTERS_MAX);
const Day = z.iso.date();
const mapped = z.record(Name, Name).refine((names) => Object.keys(names).length <= MAPPED_MAX, 'is too long');

/** The sums of a class. */
export type ClassRow = {
  class: DifferenceClass;
  name: string;
  meaning: string;
  /** What an operator does about it. */
  action: string;
  count: number;
  amount_nanousd: string;
};

/** One in `GET /api/v1/reconciliations`, newest first; for administrators and auditors. */
export type ReconciliationRow = {
  id: string;
  recorded_at: string;
  position: number;
  provider: string;
  /** The interval of the bill, its end excluded. */
  from: string;
  to: string;
  bill_nanousd: number;
  log_nanousd: number;
  charged_nanousd: number;
  unexplained_nanousd: number;
  /** Differences of all classes. */
  differences: number;
};

/** `GET /api/v1/reconciliations` */
export type ReconciliationList = {
  object: 'list';
  data: ReconciliationRow[];
  /** The task that runs on this server process. */
  running: { kind: 'compare' | 'apply'; done: number; of: number } | null;
};

/** The amounts of one day, model, credential and service tier; an empty day: the sum of all others. */
export type ReconciledCell = {
  day: string;
  model: string | null;
  credential: string | null;
  service_tier: string | null;
  requests: number;
  bill_nanousd: string;
  log_nanousd: string;
  charged_nanousd: string;
};

export type ReconciledDifference = Pick<ReconciledCell, 'day' | 'model' | 'credential' | 'service_tier'> & {
  id: number;
  class: DifferenceClass;
  is_within_tolerance: boolean;
  count: number;
  /** The bill's amount minus the log's. */
  amount_nanousd: string;
  detail: string | null;
  /** Lines of the bill, and requests, some. */
  places: string[];
  requests: { request: string | null; provider_request: string | null }[];
  /** Requests that can be corrected to the bill; 0: there is nothing to apply. */
  correctable: number;
  /** Those of them that were corrected with the reference of this difference. */
  corrected: number;
};

/** `GET /api/v1/reconciliations/:reconciliation`, for administrators and auditors. */
export type ReconciliationReport = Omit<ReconciliationRow, 'differences'> & {
  object: 'reconciliation';
  /** SHA-256 of the stored report, as the log has it. */
  report_digest: string;
  recorded_by: string;
  time_zone: string;
  /** Lines of the bill, and attempts of the log. */
  lines: number;
  attempts: number;
  up_to_position: number;
  /** Empty: calls of all upstreams. */
  upstreams: string[];
  notes: string[];
  tolerance_nanousd: number;
  tolerance_ppm: number;
  differences_nanousd: string;
  /** The log's cost plus all differences. */
  reconciled_nanousd: string;
  within_tolerance: number;
  /** Amounts in currencies without an exchange rate, in billionths: in no other sum. */
  foreign: Record<string, string>;
  classes: ClassRow[];
  differences: ReconciledDifference[];
  differences_omitted: number;
  /** Those that differ most, by day. */
  cells: ReconciledCell[];
  cells_omitted: number;
};

/** `GET /api/v1/reconciliations/:reconciliation/report?format=…`, for administrators and auditors. */
export const ReportQuery = z.strictObject({ format: z.enum(['text', 'differences', 'days']) });
export type ReportQuery = z.output<typeof ReportQuery>;

const Uploaded = z.strictObject({
  from: z.literal('files'),
  files: z
    .array(z.strictObject({ name: Name, format: z.enum(BILL_FORMATS), text: z.string() }))
    .min(1)
    .max(FILES_MAX),
  /** Of bills in FOCUS and CSV. */
  provider: Name.optional(),
  /** Of bills in CSV. */
  time_zone: Name.optional(),
});
const Fetched = z.strictObject({
  from: z.literal('api'),
  upstream: UpstreamName,
  /** Days of UTC, the second excluded. */
  since: Day,
  until: Day,
});

/**
 * `POST /api/v1/reconciliations` → lines of JSON while it runs, each a {@link ReconciliationLine}; for
 * administrators. Closing the connection cancels it.
 */
export const StartReconciliation = z.strictObject({
  bill: z.discriminatedUnion('from', [Uploaded, Fetched]),
  /** Empty: the calls of all upstreams. */
  upstreams: z.array(UpstreamName).max(50),
  /** Names of the bill, and those of the log. */
  models: mapped,
  credentials: mapped,
  /** Currencies, and what one unit is in dollars, such as `1.0837`. */
  rates: mapped,
  tolerance_nanousd: z.int().min(0).max(1_000_000_000_000),
  tolerance_ppm: z.int().min(0).max(10_000),
});
export type StartReconciliation = z.output<typeof StartReconciliation>;

/**
 * `POST /api/v1/reconciliations/:reconciliation/apply` → lines of JSON, each a {@link ReconciliationLine}:
 * corrects the requests of reviewed differences, each once; for administrators.
 */
export const ApplyDifferences = z.strictObject({
  differences: z.array(z.int().positive()).min(1).max(5_000),
  reason: z.string().min(1).max(200),
});
export type ApplyDifferences = z.output<typeof ApplyDifferences>;

export type ReconciliationLine =
  | { done: number; of: number }
  /** The comparison that was recorded or applied, and the number of corrected requests. */
  | { result: { id: string; corrected: number; repeated: number } }
  /** Why it failed, for the operator. */
  | { error: string };
