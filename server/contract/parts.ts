import { z } from 'zod';

/** Parts that several contracts share: parameters of queries, and how recent the figures of a reply are. */

export const Id = z.string().regex(/^[0-9A-Za-z]{8}$/, 'must be an id of eight letters and digits');
export const Model = z.string().min(1).max(256);
/** An end user, a session or a tag, as lists and the log have it. */
export const PseudonymText = z.string().regex(/^[0-9A-Za-z]{16}$/, 'must be 16 letters and digits');

/** ISO 8601: a time with its zone, or a date, which is its midnight in UTC. */
export const Time = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], 'must be a time such as 2027-01-31T00:00:00Z')
  .transform((text) => new Date(text));
export const Format = z.enum(['json', 'csv']);

/** The point in time of the figures of a reply. */
export type Freshness = {
  /** ISO 8601: the time of the newest event in the figures; null before the first event. */
  as_of: string | null;
  /** The position of that event. Resume the live feed after it to miss and repeat nothing. */
  position: number;
  /** Events in the log that aren't projected yet. */
  behind: number;
  /** Events that failed to project and are missing from the figures. */
  parked: number;
};
