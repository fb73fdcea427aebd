import { z } from 'zod';
import { UpstreamName } from '#db/events/parts.ts';
import { BILL_FORMATS } from '#db/reconcile/bill/read-bill.ts';
import { DIFFERENCE_CLASSES } from '#db/reconcile/classes.ts';

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
export const ClassRow = z.object({
  class: z.enum(DIFFERENCE_CLASSES),
  name: z.string(),
  meaning: z.string(),
  /** What an operator does about it. */
  action: z.string(),
  count: z.number(),
  amount_nanousd: z.string(),
});
export type ClassRow = z.infer<typeof ClassRow>;

/** One in `GET /api/v1/reconciliations`, newest first; for administrators and auditors. */
export const ReconciliationRow = z.object({
  id: z.string(),
  recorded_at: z.string(),
  position: z.number(),
  provider: z.string(),
  /** The interval of the bill, its end excluded. */
  from: z.string(),
  to: z.string(),
  bill_nanousd: z.number(),
  log_nanousd: z.number(),
  charged_nanousd: z.number(),
  unexplained_nanousd: z.number(),
  /** Differences of all classes. */
  differences: z.number(),
});
export type ReconciliationRow = z.infer<typeof ReconciliationRow>;

/** `GET /api/v1/reconciliations` */
export const ReconciliationList = z.object({
  object: z.literal('list'),
  data: z.array(ReconciliationRow),
  /** The task that runs on this server process. */
  running: z.object({ kind: z.enum(['compare', 'apply']), done: z.number(), of: z.number() }).nullable(),
});
export type ReconciliationList = z.infer<typeof ReconciliationList>;

/** The amounts of one day, model, credential and service tier; an empty day: the sum of all others. */
export const ReconciledCell = z.object({
  day: z.string(),
  model: z.string().nullable(),
  credential: z.string().nullable(),
  service_tier: z.string().nullable(),
  requests: z.number(),
  bill_nanousd: z.string(),
  log_nanousd: z.string(),
  charged_nanousd: z.string(),
});
export type ReconciledCell = z.infer<typeof ReconciledCell>;

export const ReconciledDifference = z.object({
  ...ReconciledCell.pick({ day: true, model: true, credential: true, service_tier: true }).shape,
  id: z.number(),
  class: z.enum(DIFFERENCE_CLASSES),
  is_within_tolerance: z.boolean(),
  count: z.number(),
  /** The bill's amount minus the log's. */
  amount_nanousd: z.string(),
  detail: z.string().nullable(),
  /** Lines of the bill, and requests, some. */
  places: z.array(z.string()),
  requests: z.array(z.object({ request: z.string().nullable(), provider_request: z.string().nullable() })),
  /** Requests that can be corrected to the bill; 0: there is nothing to apply. */
  correctable: z.number(),
  /** Those of them that were corrected with the reference of this difference. */
  corrected: z.number(),
});
export type ReconciledDifference = z.infer<typeof ReconciledDifference>;

/** `GET /api/v1/reconciliations/:reconciliation`, for administrators and auditors. */
export const ReconciliationReport = z.object({
  ...ReconciliationRow.omit({ differences: true }).shape,
  object: z.literal('reconciliation'),
  /** SHA-256 of the stored report, as the log has it. */
  report_digest: z.string(),
  recorded_by: z.string(),
  time_zone: z.string(),
  /** Lines of the bill, and attempts of the log. */
  lines: z.number(),
  attempts: z.number(),
  up_to_position: z.number(),
  /** Empty: calls of all upstreams. */
  upstreams: z.array(z.string()),
  notes: z.array(z.string()),
  tolerance_nanousd: z.number(),
  tolerance_ppm: z.number(),
  differences_nanousd: z.string(),
  /** The log's cost plus all differences. */
  reconciled_nanousd: z.string(),
  within_tolerance: z.number(),
  /** Amounts in currencies without an exchange rate, in billionths: in no other sum. */
  foreign: z.record(z.string(), z.string()),
  classes: z.array(ClassRow),
  differences: z.array(ReconciledDifference),
  differences_omitted: z.number(),
  /** Those that differ most, by day. */
  cells: z.array(ReconciledCell),
  cells_omitted: z.number(),
});
export type ReconciliationReport = z.infer<typeof ReconciliationReport>;

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

export const ReconciliationLine = z.union([
  z.object({ done: z.number(), of: z.number() }),
  z.object({ result: z.object({ id: z.string(), corrected: z.number(), repeated: z.number() }) }),
  z.object({ error: z.string() }),
]);
export type ReconciliationLine = z.infer<typeof ReconciliationLine>;
