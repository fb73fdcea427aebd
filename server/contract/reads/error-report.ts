import { z } from 'zod';
import { END_REASONS, type EndReason } from '#db/events/endings.ts';
import { Freshness, Time } from '#server/contract/parts.ts';
import { RequestFilter } from '#server/contract/requests.ts';

/** Contract for the report of errors and rejections. Pure. */

/** What errors are grouped by beside their code. */
export const ERROR_GROUPS = ['model', 'key', 'account', 'end_user', 'upstream', 'route'] as const;
export type ErrorGroup = (typeof ERROR_GROUPS)[number];

/** Rows of a report: more than people read. */
export const ERROR_ROWS_MAX = 200;

/** `GET /api/v1/errors`: rejected and failed requests by their code, by the time they were accepted. */
export const ErrorReportQuery = RequestFilter.extend({
  /** Inclusive. Default: 24 hours before `to`, or before now. */
  from: Time.optional(),
  /** Exclusive. Default: no end. */
  to: Time.optional(),
  group_by: z.enum(ERROR_GROUPS).optional(),
});
export type ErrorReportQuery = z.output<typeof ErrorReportQuery>;

export const ErrorRow = z.object({
  /** `rejected`: by the relay, before an upstream was called. `failed`: while it was carried out. */
  kind: z.enum(['rejected', 'failed']),
  /** The error code of a rejection, or the end reason of a failure. */
  code: z.union([z.string(), z.enum(Object.keys(END_REASONS) as [EndReason, ...EndReason[]])]),
  /** The outcome and, of a rejection, the code: the filter of these very requests. */
  outcome: z.enum(['refused', 'upstream_failed', 'cut_short', 'relay_failed']),
  /** The group's value; null: not known, or not grouped. */
  group: z.string().nullable(),
  /** The account of the group's pseudonym or key, where it is one of several. */
  account: z.string().nullable(),
  requests: z.number(),
  first_at: z.string(),
  last_at: z.string(),
  /** The newest request, as a sample, and its HTTP status. */
  request: z.string(),
  status: z.number().nullable(),
});
export type ErrorRow = z.infer<typeof ErrorRow>;

export const ErrorReport = z.object({
  ...Freshness.shape,
  object: z.literal('list'),
  /** The most frequent first. */
  data: z.array(ErrorRow),
  rows_omitted: z.number(),
  from: z.string(),
  to: z.string().nullable(),
  /** The time of the oldest request that was looked at; later than `from` if there were too many. */
  scanned_from: z.string(),
});
export type ErrorReport = z.infer<typeof ErrorReport>;
