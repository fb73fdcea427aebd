/**
 * Fewer events than this, which figures may be behind the log, are taken in before anybody could read of
 * them.
 */
export const BEHIND_TOLD_MIN = 1_000;
