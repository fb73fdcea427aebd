/** Bounds of a comparison and of its report. */

/** Calls that started or ended this long outside the bill's interval are matched with its request ids. */
export const MARGIN_MS = 48 * 3_600_000;
/** Clocks of provider and relay differ, and a provider may book a call when it starts or when it ends. */
export const CLOCK_SKEW_MS = 5 * 60_000;
/** Time zones differ by less than this from UTC. Usage that is booked later is late. */
export const ZONE_MAX_MS = 15 * 3_600_000;
/** Calls without their line on a bill with request ids that are kept each; further ones are summed. */
export const UNMATCHED_MAX = 200_000;
/** Rows of differences in a report; further ones are merged into one row for each class. */
export const DIFFERENCES_MAX = 5_000;
/** Days × models × credentials × tiers in a report; further ones are summed. */
export const CELLS_MAX = 5_000;
/** Requests that a row of differences names. */
export const EXAMPLES_MAX = 20;
/** Corrections that a report keeps, for its rows to be applied. */
export const CORRECTIONS_MAX = 20_000;
/** Largest report that is stored. */
export const REPORT_BYTES_MAX = 16 * 1024 ** 2;
