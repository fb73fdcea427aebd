import { z } from 'zod';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { RequestFilter } from '#server/contract/requests.ts';

/** Spend events as the read API returns them. Pure. */

/** The most spend events of one page. */
export const SPEND_PAGE_MAX = 1_000;

/**
 * `GET /v1/spend-events`: the filter of requests, without rejections, and the page. Payments match only a
 * filter by account.
 */
export const SpendEventsQuery = RequestFilter.omit({ error_code: true }).extend({
  /** The position behind which to begin: `next_after` of the page before. */
  after: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  limit: z.coerce.number().int().min(1).max(SPEND_PAGE_MAX).default(100),
});

/** Spend events in the order of the log. */
export const SpendEventPage = z.object({
  object: z.literal('list'),
  data: z.array(z.custom<SpendEvent>()),
  /** Where the next page begins. With a selective filter a page may be short, or empty, before the end. */
  next_after: z.number(),
  /** Whether there were positions behind this page when it was read. */
  has_more: z.boolean(),
});
export type SpendEventPage = z.infer<typeof SpendEventPage>;
