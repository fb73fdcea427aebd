import { z } from 'zod';
import type { EndReason, UsageSource } from '#db/events/events.ts';
import type { WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';
import { OUTCOMES } from '#db/projections/outcomes.ts';
import { Id, Model, Time, Format, type Freshness } from '#server/contract/parts.ts';

/**
 * What the read API and the live feed speak: shapes of replies and frames, and the one filter that
 * drives lists, feed and exports alike. Pure, and shared with the dashboard. Field names are those
 * of the log.
 */

/** How a request ended, in a few words that people group by. */
export const Outcome = z.enum(OUTCOMES);
export type Outcome = z.infer<typeof Outcome>;

/** Which requests are meant; what is absent does not narrow. */
export const RequestFilter = z.strictObject({
  account: Id.optional(),
  key: Id.optional(),
  model: Model.optional(),
  /** `running`, or how it ended. */
  outcome: z.enum([...Outcome.options, 'running']).optional(),
  /** The HTTP status that the client was given. */
  status: z.coerce.number().int().min(100).max(599).optional(),
});
export type RequestFilter = z.infer<typeof RequestFilter>;

/** The most requests of one page. */
export const PAGE_LIMIT_MAX = 200;

/** `GET /v1/requests`: the filter, the time in which they were accepted, and the page. */
export const RequestListQuery = RequestFilter.extend({
  /** From this moment on; a day before `to`, or before now, where it is absent. */
  from: Time.optional(),
  /** Before this moment; without end where it is absent. */
  to: Time.optional(),
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(50),
  /** `next` of the page before. */
  cursor: z.string().max(200).optional(),
  format: Format.optional(),
});
export type RequestListQuery = z.infer<typeof RequestListQuery>;

/** One request of a list. Null is what is not known (yet), or does not apply. */
export type RequestRow = {
  request: string;
  accepted_at: string;
  /** Null while it runs. */
  ended_at: string | null;
  account: string;
  key: string;
  model: string | null;
  upstream: string | null;
  outcome: Outcome | 'running';
  end_reason: EndReason | null;
  /** The code of the refusal, and how many alike this row stands for. */
  refusal: string | null;
  refused_count: number | null;
  status: number | null;
  sse: boolean | null;
  input_tokens: number | null;
  cached_tokens: number | null;
  output_tokens: number | null;
  reasoning_tokens: number | null;
  usage_source: UsageSource | null;
  cost_microusd: number | null;
  first_byte_ms: number | null;
  duration_ms: number | null;
  attempts: number | null;
  retry_count: number | null;
  /** What it may spend, or might have spent until it ended. */
  hold_tokens: number | null;
  hold_cost_microusd: number | null;
  /** Where its first event and its ending are in the log. */
  position: number;
  end_position: number | null;
};

/** `GET /v1/requests`, newest first. */
export type RequestPage = Freshness & {
  object: 'list';
  data: RequestRow[];
  /** The cursor of the page after this one; null where there is none. */
  next: string | null;
  from: string;
  /** Null: without end. */
  to: string | null;
  /**
   * How far back this page has looked: where few fit a filter, a page may hold less than its limit, and go
   * on.
   */
  scanned_from: string;
};

/** One event of a request's story: its own fields as in the log, beside what places it. */
export type RequestEvent = { position: number; at: string; type: string } & Record<string, unknown>;

/** A window that the request was charged to. */
export type RequestQuota = {
  scope: 'account' | 'key';
  meter: Meter;
  window: WindowKind;
  from: string;
  to: string;
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
    /** The server process that ran it, by its number in the log. */
    instance: number;
    /** The minute by which its windows are chosen. */
    admitted_minute: string | null;
    /** The newest control event that its limits came from. */
    terms_position: number | null;
    price_version: number | null;
    events: RequestEvent[];
    /** False where its beginning and its ending are too far apart to look for all that lies between. */
    has_all_events: boolean;
    quotas: RequestQuota[];
  };
