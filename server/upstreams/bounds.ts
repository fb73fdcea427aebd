/** The fixed ceilings of dispatch, each with its reason. Those of one reply are in server/bounds.ts. */

/** No try of a call begins later than this: most clients give a silent reply up after 300 s. */
export const NEW_TRY_WITHIN_MS = 240_000;
/**
 * What was changed or removed takes calls for so long, and not one that comes after: those admitted before
 * know no other, and wait for their admission.
 */
export const LEFT_AFTER_MS = NEW_TRY_WITHIN_MS + 30_000;
/** The pause before the first retry at the same upstream, doubled for each further one. */
export const RETRY_PAUSE_MS = 250;
/**
 * An upstream that asks to be left alone for longer is not waited for: the client is told when, and waits
 * itself.
 */
export const RETRY_WAIT_MAX_MS = 10_000;
/**
 * A streamed reply's head is kept back for so long while another upstream could take over, since it may be
 * all that comes.
 */
export const HEAD_KEPT_MS = 3_000;

/** Failures in a row before an upstream or a credential is ejected: two or three happen to everybody. */
export const EJECT_AFTER_FAILURES = 5;
/** For how long, the first time; each further time doubles it. */
export const EJECTION_MS = 10_000;
/** Nothing is forgotten for longer, so that what was mended is found. */
export const EJECTION_MAX_MS = 300_000;
/** A credential that was refused stays so until somebody mends it. */
export const WRONG_CREDENTIAL_MS = 60_000;
/** One that is over its limit and did not say for how long. */
export const BUSY_CREDENTIAL_MS = 5_000;
/** Longer waits than this are not believed: some providers tell of the end of the month. */
export const RETRY_AFTER_MAX_MS = 60_000;
