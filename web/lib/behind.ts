/** A lag of fewer events is caught up within moments and not shown. */
export const BEHIND_SHOWN_MIN = 1_000;
