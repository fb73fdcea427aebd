import { z } from 'zod';

/** Parts that several contracts share: parameters of queries, and how recent the figures of a reply are. */

export const Id = z.string().regex(/^[0-9A-Za-z]{8}$/, 'must be an id of eight letters and digits');
export const Model = z.string().min(1).max(256);

/** ISO 8601: a time with its zone, or a date, which is its midnight in UTC. */
export const Time = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], 'must be a time such as 2027-01-31T00:00:00Z')
  .transform((text) => new Date(text));
export const Format = z.enum(['json', 'csv']);

/** Of what moment the figures of a reply are. */
export type Freshness = {
  /** ISO 8601: the time of the newest event in the figures; null before the first. */
  as_of: string | null;
  /** That event's position: a feed that is resumed after it misses nothing and repeats nothing. */
  position: number;
  /** Events in the log that are not in the figures yet. */
  behind: number;
  /** Events that could not be taken in and are missing from the figures. */
  parked: number;
};
