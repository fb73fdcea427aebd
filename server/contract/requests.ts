import { z } from 'zod';
import type { EndReason, UsageSource } from '#db/events/endings.ts';
import { UpstreamName } from '#db/events/parts.ts';
import {
  type CorrectedFigure,
  CorrectionDeltas,
  CorrectionReason,
  CorrectionReference,
} from '#db/events/usage-events.ts';
import { type CallFilter, type FilteredCall, STATUS_CLASSES } from '#db/fold/call-filter.ts';
import { RELAYED_ROUTES, type WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';
import type { SubjectKind } from '#db/limits/subjects.ts';
import { OUTCOMES } from '#db/projections/outcomes.ts';
import { Id, Model, PseudonymText, Time, Format, type Freshness } from '#server/contract/parts.ts';

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

/** One request of a list. Null: not known yet, or not applicable. */
export type RequestRow = FilteredCall & {
  request: string;
  accepted_at: string;
  /** Null while the request is running. */
  ended_at: string | null;
  end_reason: EndReason | null;
  /** The number of identical rejections in this row. */
  rejected_count: number | null;
  sse: boolean | null;
  input_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  output_tokens: number | null;
  reasoning_tokens: number | null;
  usage_source: UsageSource | null;
  /** What the account is charged. */
  cost_nanousd: number | null;
  /** What all attempts cost the operator. Only in replies to administrators and auditors. */
  upstream_cost_nanousd?: number | null;
  first_byte_ms: number | null;
  duration_ms: number | null;
  attempt_count: number | null;
  retry_count: number | null;
  /** The number of observed limits that would have rejected it; null: none. */
  observed: number | null;
  /** The reservation, at its largest. */
  hold_tokens: number | null;
  hold_cost_nanousd: number | null;
  /** Positions of its first and last event in the log. */
  position: number;
  end_position: number | null;
  /** Null: it was never corrected. Its other figures are those that it ended with. */
  corrected: CorrectedRow | null;
};

/** The figures of a request after its corrections. Tokens of usage are null for abandoned requests. */
export type CorrectedRow = {
  corrections: number;
  /** Of the newest correction. */
  position: number;
  cost_nanousd: number;
  /** Only in replies to administrators and auditors. */
  upstream_cost_nanousd?: number;
  input_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  output_tokens: number | null;
  reasoning_tokens: number | null;
  /** Of an abandoned request. */
  hold_tokens: number | null;
};

/** A correction: the amounts that it adds, each absent where it adds none. */
export type RequestCorrection = {
  position: number;
  at: string;
  reference: string;
  reason: string;
  adjusted_by: string;
} & { [Figure in CorrectedFigure]?: number };

/** One in {@link CorrectionList}, with its request. */
export type AccountCorrection = RequestCorrection & { request: string };
/** `GET /api/v1/accounts/:account/corrections`, newest first. Auditors may read it. */
export type CorrectionList = {
  object: 'list';
  data: AccountCorrection[];
  /** Whether there are older ones. */
  has_more: boolean;
};

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
export type RequestPage = Freshness & {
  object: 'list';
  data: RequestRow[];
  /** The cursor of the next page; null on the last one. */
  next: string | null;
  from: string;
  /** Null: no end. */
  to: string | null;
  /**
   * The oldest time that this page scanned. With a selective filter a page may hold fewer rows than its limit
   * and still have a next page.
   */
  scanned_from: string;
};

/** One event of a request: its fields as in the log, and its position. */
export type RequestEvent = { position: number; at: string; type: string } & Record<string, unknown>;

/** A quota window that the request was charged to. */
export type RequestQuota = {
  /** Whose usage the quota counts. */
  scope: SubjectKind;
  meter: Meter;
  window: WindowKind;
  from: string;
  /** Null: the window never ends. */
  to: string | null;
  limit: number;
  used: number;
  reserved: number;
};

/** `GET /v1/requests/{id}` */
export type RequestDetail = Freshness &
  Omit<RequestRow, 'position'> & {
    object: 'request';
    start_position: number;
    body_bytes: number | null;
    /** The server instance that ran it, by its number in the log. */
    instance: number;
    /** The minute that selects its quota windows. */
    admitted_minute: string | null;
    /** The newest control event that its limits came from. */
    terms_position: number | null;
    price_version: number | null;
    /** In the order of the log. */
    corrections: RequestCorrection[];
    events: RequestEvent[];
    /** False if its first and last event are too far apart to search between them. */
    has_all_events: boolean;
    quotas: RequestQuota[];
  };
