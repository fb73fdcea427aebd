import { assertIncreasing } from '#db/assert-increasing.ts';
import { QUERY_TIMEOUT_MS } from '#db/bounds.ts';

/** Fixed bounds of signing in, each with its reason. */

/** Passwords hashed at the same time: half of the threads that also look up upstreams' names. */
export const PASSWORD_HASHES_AT_ONCE = 2;
/** Those that wait for one: about a second of them. */
export const PASSWORD_HASHES_WAITING_MAX = 50;
/** The delay of the first attempt after too many wrong passwords, and the longest one. */
export const ATTEMPT_DELAY_FIRST_MS = 250;
export const ATTEMPT_DELAY_MAX_MS = 15_000;
/** Delayed attempts that wait in a process, for one email from one address, and from one address. */
export const ATTEMPTS_DELAYED_AT_ONCE = { person: 2, address: 8 } as const;
/** Delayed attempts of strangers in a process, and those of known devices besides. */
export const ATTEMPTS_DELAYED_MAX = { strangers: 200, all: 300 } as const;
/**
 * Connections of a process that look up sessions and members: each such look takes less than a millisecond.
 */
export const SIGN_IN_CONNECTIONS_MAX = 3;
/** A separate connection for requests without a session, so that they can't delay signed-in members. */
export const ANONYMOUS_CONNECTIONS_MAX = 1;
/** Requests that wait for one of them. */
export const SIGN_IN_WAITING_MAX = 500;
/** Interval between deletions of expired sessions and links. */
export const ENDED_CHECK_MS = 60 * 60 * 1000;
/** Members and invitations of one list: more than people read. */
export const MEMBERS_LISTED_MAX = 1_000;
/**
 * Registrations are answered at multiples of this time, so that the duration doesn't reveal whether the email
 * was taken.
 */
export const REGISTRATION_STEP_MS = 250;
/**
 * How long a transaction of people may stand still: behind the lock of the log, which it takes last, all
 * calls wait for it.
 */
export const TRANSACTION_IDLE_MAX_MS = 500;
/** A mail server that is there answers within this. */
export const MAIL_TIMEOUT_MS = 10_000;
/** Mails under way; more than that is a flood. */
export const MAILS_AT_ONCE_MAX = 10;

assertIncreasing(
  { PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX, SIGN_IN_WAITING_MAX },
  'Hashing must turn sign-ins away before the queue of all requests is full.',
);
assertIncreasing(
  {
    person: ATTEMPTS_DELAYED_AT_ONCE.person,
    address: ATTEMPTS_DELAYED_AT_ONCE.address,
    strangers: ATTEMPTS_DELAYED_MAX.strangers,
    all: ATTEMPTS_DELAYED_MAX.all,
    SIGN_IN_WAITING_MAX,
  },
  'One person must not take the places of an address, nor an address those of a process.',
);
assertIncreasing({ ATTEMPT_DELAY_FIRST_MS, ATTEMPT_DELAY_MAX_MS }, 'Delays must grow.');
assertIncreasing(
  { ANONYMOUS_CONNECTIONS_MAX, SIGN_IN_CONNECTIONS_MAX },
  'Requests without a session must have fewer connections than those with one.',
);
assertIncreasing(
  { REGISTRATION_STEP_MS, TRANSACTION_IDLE_MAX_MS, QUERY_TIMEOUT_MS, MAIL_TIMEOUT_MS },
  'An idle transaction must end before others that wait for its locks time out.',
);
