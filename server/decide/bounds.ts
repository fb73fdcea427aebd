import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds that decisions enforce, whichever way a change is made. Each has its reason. */

/** Active keys of an account: each is in the memory of every server. */
export const KEYS_ACTIVE_MAX = 1_000;
/** Keys that an account ever has, ended ones included. */
export const KEYS_EVER_MAX = 10_000;
/** Identity providers: each is a button of the sign-in page. */
export const IDENTITY_PROVIDERS_MAX = 10;
/** Short-lived keys of one workload at the same time: each has a row until its token has expired, too. */
export const EXCHANGES_LIVE_MAX = 10_000;
/** Active management keys of one account, or of the installation: all are in the memory of every server. */
export const MANAGEMENT_KEYS_ACTIVE_MAX = 100;
/** The longest time that an old secret may be valid beside its successor. */
export const OVERLAP_MAX_MS = 30 * 24 * 60 * 60 * 1000;

/** Credentials of one upstream: more accounts than anyone keeps at one provider. All are held in memory. */
export const CREDENTIALS_MAX = 32;
/** Keys have some hundred characters, and the account files of some clouds a few thousand. */
export const SECRET_CHARACTERS_MAX = 16_384;
/** The log shows the end of a credential's secret, and nothing of one shorter than this. */
export const SECRET_SHOWN_MIN = 20;

assertIncreasing({ KEYS_ACTIVE_MAX, KEYS_EVER_MAX }, 'Ended keys count among all keys of an account.');
assertIncreasing(
  { SECRET_SHOWN_MIN, SECRET_CHARACTERS_MAX },
  'The shortest secret of which a part is shown must be a valid one.',
);
