import { z } from 'zod';
import { END_REASONS, type EndReason, USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METERS, type Meter } from '#db/limits/meters.ts';

/** Parts that several contracts share: parameters of queries, and how recent the figures of a reply are. */

export const Id = z.string().regex(/^[0-9A-Za-z]{8}$/, 'must be an id of eight letters and digits');
export const Model = z.string().min(1).max(256);
/** An end user, a session or a tag, as lists and the log have it. */
export const PseudonymText = z.string().regex(/^[0-9A-Za-z]{16}$/, 'must be 16 letters and digits');

/** ISO 8601: a time with its zone, or a date, which is its midnight in UTC. */
export const Time = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], 'must be a time such as 2027-01-31T00:00:00Z')
  .transform((text) => new Date(text));
/** Names that other modules have as types. */
export const WindowName = z.enum(Object.keys(WINDOW_KINDS) as [WindowKind, ...WindowKind[]]);
export const MeterName = z.enum(Object.keys(METERS) as [Meter, ...Meter[]]);
export const EndReasonName = z.enum(Object.keys(END_REASONS) as [EndReason, ...EndReason[]]);
export const UsageSourceName = z.enum(Object.keys(USAGE_SOURCES) as [UsageSource, ...UsageSource[]]);

/** Part of every reply to a change: the event that it appended, the last of several; null: no change. */
export const ChangeReply = z.object({
  event: z.object({ type: z.string(), position: z.number() }).nullable(),
});

/** A list of all rows. */
export const listOf = <Row extends z.ZodType>(row: Row) =>
  z.object({ object: z.literal('list'), data: z.array(row) });
/** A list with a bound; `rows_omitted` counts the oldest rows, which are not included. */
export const longListOf = <Row extends z.ZodType>(row: Row) =>
  z.object({ object: z.literal('list'), data: z.array(row), rows_omitted: z.number() });
/** Rows of one page of accounts or keys, unless `limit` says fewer: more than people read. */
export const LISTED_MAX = 1_000;
/** A page of a list; `cursor` is `next` of the page before it. */
export const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(LISTED_MAX).default(LISTED_MAX),
  cursor: z.string().max(100).optional(),
});
export type PageQuery = z.infer<typeof PageQuery>;
/** Part of a page: the rows after it, and the cursor of the next page; null: this is the last. */
export const PageEnd = { rows_omitted: z.number(), next: z.string().nullable() };
/** A small reply that names its kind. */
export const objectReply = <Name extends string, Shape extends z.ZodRawShape = {}>(
  name: Name,
  shape: Shape = {} as Shape,
) => z.object({ object: z.literal(name), ...shape });

export const Format = z.enum(['json', 'csv']);

/** The point in time of the figures of a reply. */
export const Freshness = z.object({
  /** ISO 8601: the time of the newest event in the figures; null before the first event. */
  as_of: z.string().nullable(),
  /** The position of that event. Resume the live feed after it to miss and repeat nothing. */
  position: z.number(),
  /** Events in the log that aren't projected yet. */
  behind: z.number(),
  /** Events that failed to project and are missing from the figures. */
  parked: z.number(),
});
export type Freshness = z.infer<typeof Freshness>;
