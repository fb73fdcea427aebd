import { z } from 'zod';
import { ACCOUNT_LEVELS, Count, Id } from '#db/events/parts.ts';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METER_NAMES, type Meter } from '#db/limits/meters.ts';

/** An observed limit that would have rejected a call, had it been enforced. The call isn't charged to it. */
export const ObservedRejection = z.strictObject({
  /** Whose limit it is; see db/limits/subjects.ts. */
  subject: z.string().regex(/^[\x21-\x7e]{1,128}$/),
  meter: z.enum(METER_NAMES as [Meter, ...Meter[]]),
  window: z.enum(Object.keys(WINDOW_KINDS) as [WindowKind, ...WindowKind[]]),
  /** At the decision, in units of the meter: the limit, those that the call needed, and those free. */
  limit: Count,
  needed: Count,
  /** Absent: the limit couldn't decide. Had it been enforced, the reply would have been 503. */
  free: Count.optional(),
});
export type ObservedRejection = z.infer<typeof ObservedRejection>;

/** Twelve quotas of eight tags and three rates, of an account, its two parents and its key. */
const OBSERVED_MAX = 400;
export const ObservedRejections = z.array(ObservedRejection).min(1).max(OBSERVED_MAX);

/** The fields that link a request to its limits. */
export const Admission = {
  /** The UTC minute of its admission, in minutes since 1970: it is charged to the windows with it. */
  admitted_minute: Count.optional(),
  /** The position of the newest control event that its terms come from, or 0. */
  terms_position: Count.optional(),
  /** The parent of its account, and that one's: the call is charged to them, too. */
  parents: z
    .array(Id)
    .min(1)
    .max(ACCOUNT_LEVELS - 1)
    .optional(),
  /** The observed limits that would have rejected it. It is charged to all of its limits but these. */
  observed: ObservedRejections.optional(),
};

/** Whether a call isn't charged to a limit, since that one would have rejected it. */
export function isUncharged(
  { observed }: { observed?: readonly ObservedRejection[] | undefined },
  subject: string,
  { meter, window }: Pick<ObservedRejection, 'meter' | 'window'>,
): boolean {
  return (
    observed !== undefined &&
    observed.some((each) => each.subject === subject && each.meter === meter && each.window === window)
  );
}
