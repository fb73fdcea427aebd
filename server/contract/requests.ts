import { z } from 'zod';
import { PER_NAMES } from '#db/limits/subjects.ts';
import { UpstreamName } from '#db/events/parts.ts';
import { CorrectionDeltas, CorrectionReason, CorrectionReference } from '#db/events/usage-events.ts';
import { type CallFilter, STATUS_CLASSES } from '#db/fold/call-filter.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { OUTCOMES } from '#db/projections/outcomes.ts';
import {
  Freshness,
  EndReasonName,
  Format,
  Id,
  MeterName,
  WindowName,
  Model,
  PseudonymText,
  Time,
  UsageSourceName,
} from '#server/contract/parts.ts';

/**
 * Requests as the read API and the live feed return them, and the filter that lists, feed and exports share.
 * Pure, and shared with the dashboard. Field names are those of the log.
 */

/** The outcome of a request, coarse enough to group by. */
export const Outcome = z.enum(OUTCOMES);
export type Outcome = z.infer<typeof Outcome>;

/** The filter of requests as parameters of a query. `CallFilter` describes its fields. */
export const RequestFilter = z.strictObject({
  account: Id.optional(),
  key: Id.optional(),
  model: Model.optional(),
  route: z.enum(RELAYED_ROUTES).optional(),
  upstream: UpstreamName.optional(),
  end_user: PseudonymText.optional(),
  session: PseudonymText.optional(),
  tag: PseudonymText.optional(),
  /** `running`, or an outcome. */
  outcome: z.enum([...Outcome.options, 'running']).optional(),
  status: z
    .union(
      [z.enum(STATUS_CLASSES), z.coerce.number().int().min(100).max(599)],
      'must be an HTTP status such as 429, or a class such as 4xx',
    )
    .optional(),
  error_code: z
    .string()
    .regex(/^[a-z_]{1,64}$/, 'must be an error code')
    .optional(),
} satisfies Record<keyof CallFilter, z.ZodType>);
export type RequestFilter = CallFilter;

/** The most requests of one page. */
export const PAGE_LIMIT_MAX = 200;

/** `GET /v1/requests`: the filter, the range of acceptance times, and the page. */
export const RequestListQuery = RequestFilter.extend({
  /** Inclusive. Default: 24 hours before `to`, or before now. */
  from: Time.optional(),
  /** Exclusive. Default: no end. */
  to: Time.optional(),
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(50),
  /** `next` of the page before. */
  cursor: z.string().max(200).optional(),
  format: Format.optional(),
});
export type RequestListQuery = z.infer<typeof RequestListQuery>;

/** The figures of a request after its corrections. Tokens of usage are null for abandoned requests. */
export const CorrectedRow = z.object({
  corrections: z.number(),
  /** Of the newest correction. */
  position: z.number(),
  cost_nanousd: z.number(),
  /** Only in replies to administrators and auditors. */
  upstream_cost_nanousd: z.number().exactOptional(),
  input_tokens: z.number().nullable(),
  cache_read_tokens: z.number().nullable(),
  cache_write_tokens: z.number().nullable(),
  output_tokens: z.number().nullable(),
  reasoning_tokens: z.number().nullable(),
  /** Of an abandoned request. */
  hold_tokens: z.number().nullable(),
});
export type CorrectedRow = z.infer<typeof CorrectedRow>;

/** One request of a list. Null: not known yet, or not applicable. */
export const RequestRow = z.object({
  account: z.string(),
  key: z.string(),
  model: z.string().nullable(),
  route: z.enum(RELAYED_ROUTES).nullable(),
  upstream: z.string().nullable(),
  end_user: z.string().nullable(),
  session: z.string().nullable(),
  tags: z.array(z.string()).readonly(),
  outcome: z.enum([...OUTCOMES, 'running']),
  status: z.number().nullable(),
  error_code: z.string().nullable(),
  request: z.string(),
  accepted_at: z.string(),
  /** Null while the request is running. */
  ended_at: z.string().nullable(),
  end_reason: EndReasonName.nullable(),
  /** The number of identical rejections in this row. */
  rejected_count: z.number().nullable(),
  sse: z.boolean().nullable(),
  input_tokens: z.number().nullable(),
  cache_read_tokens: z.number().nullable(),
  cache_write_tokens: z.number().nullable(),
  output_tokens: z.number().nullable(),
  reasoning_tokens: z.number().nullable(),
  usage_source: UsageSourceName.nullable(),
  /** What the account is charged. */
  cost_nanousd: z.number().nullable(),
  /** What all attempts cost the operator. Only in replies to administrators and auditors. */
  upstream_cost_nanousd: z.number().nullable().exactOptional(),
  first_byte_ms: z.number().nullable(),
  duration_ms: z.number().nullable(),
  attempt_count: z.number().nullable(),
  retry_count: z.number().nullable(),
  /** The number of observed limits that would have rejected it; null: none. */
  observed: z.number().nullable(),
  /** The reservation, at its largest. */
  hold_tokens: z.number().nullable(),
  hold_cost_nanousd: z.number().nullable(),
  /** Positions of its first and last event in the log. */
  position: z.number(),
  end_position: z.number().nullable(),
  /** Null: it was never corrected. Its other figures are those that it ended with. */
  corrected: CorrectedRow.nullable(),
});
export type RequestRow = z.infer<typeof RequestRow>;

/** A correction: the amounts that it adds, each absent where it adds none. */
export const RequestCorrection = z.object({
  position: z.number(),
  at: z.string(),
  reference: z.string(),
  reason: z.string(),
  adjusted_by: z.string(),
  ...CorrectionDeltas,
});
export type RequestCorrection = z.infer<typeof RequestCorrection>;

/** One in {@link CorrectionList}, with its request. */
export const AccountCorrection = z.object({ ...RequestCorrection.shape, request: z.string() });
export type AccountCorrection = z.infer<typeof AccountCorrection>;
/** `GET /api/v1/accounts/:account/corrections`, newest first. Auditors may read it. */
export const CorrectionList = z.object({
  object: z.literal('list'),
  data: z.array(AccountCorrection),
  /** Whether there are older ones. */
  has_more: z.boolean(),
});
export type CorrectionList = z.infer<typeof CorrectionList>;

/**
 * `POST /api/v1/requests/{id}/corrections` corrects an ended request, once for each reference (409
 * `already_done`). Amounts are added to its figures; without one for the upstream cost, that of the charge is
 * added to both.
 */
export const CorrectRequest = z.strictObject({
  ...CorrectionDeltas,
  reference: CorrectionReference,
  reason: CorrectionReason,
});

/** `GET /v1/requests`, newest first. */
export const RequestPage = z.object({
  ...Freshness.shape,
  object: z.literal('list'),
  data: z.array(RequestRow),
  /** The cursor of the next page; null on the last one. */
  next: z.string().nullable(),
  from: z.string(),
  /** Null: no end. */
  to: z.string().nullable(),
  /**
   * The oldest time that this page scanned. With a selective filter a page may hold fewer rows than its limit
   * and still have a next page.
   */
  scanned_from: z.string(),
});
export type RequestPage = z.infer<typeof RequestPage>;

/** One event of a request: its fields as in the log, and its position. */
export const RequestEvent = z.looseObject({
  position: z.number(),
  at: z.string(),
  type: z.string(),
});
export type RequestEvent = z.infer<typeof RequestEvent>;

/** A quota window that the request was charged to. */
export const RequestQuota = z.object({
  /** Whose usage the quota counts. */
  scope: z.enum(['account', 'key', ...PER_NAMES]),
  meter: MeterName,
  window: WindowName,
  from: z.string(),
  /** Null: the window never ends. */
  to: z.string().nullable(),
  limit: z.number(),
  used: z.number(),
  reserved: z.number(),
});
export type RequestQuota = z.infer<typeof RequestQuota>;

/** `GET /v1/requests/{id}` */
export const RequestDetail = z.object({
  ...Freshness.shape,
  ...RequestRow.omit({ position: true }).shape,
  object: z.literal('request'),
  start_position: z.number(),
  body_bytes: z.number().nullable(),
  /** The server instance that ran it, by its number in the log. */
  instance: z.number(),
  /** The minute that selects its quota windows. */
  admitted_minute: z.string().nullable(),
  /** The newest control event that its limits came from. */
  terms_position: z.number().nullable(),
  price_version: z.number().nullable(),
  /** In the order of the log. */
  corrections: z.array(RequestCorrection),
  events: z.array(RequestEvent),
  /** False if its first and last event are too far apart to search between them. */
  has_all_events: z.boolean(),
  quotas: z.array(RequestQuota),
});
export type RequestDetail = z.infer<typeof RequestDetail>;
