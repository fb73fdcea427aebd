/** The fixed ceilings of signing in, each with its reason; server/bounds.ts has the others. */

/** Passwords hashed at the same time: half of the threads that also look up upstreams' names. */
export const PASSWORD_HASHES_AT_ONCE = 2;
/** Those that wait for one: about a second of them. */
export const PASSWORD_HASHES_WAITING_MAX = 50;
/** Connections of a process that look up sessions and members: each such look takes less than a millisecond. */
export const SIGN_IN_CONNECTIONS_MAX = 3;
/** Requests that wait for one of them. */
export const SIGN_IN_WAITING_MAX = 500;
/** A registration is answered at a multiple of this after it came, so that its duration does not tell whether the address was taken. */
export const REGISTRATION_STEP_MS = 250;
/** How long a change by people waits for this process to hear of it by the log, before it is answered all the same. */
export const HEARD_WAIT_MS = 2_000;
export const HEARD_POLL_MS = 2;
/** A mail server that is there answers within this. */
export const MAIL_TIMEOUT_MS = 10_000;
/** Mails under way; more than that is a flood. */
export const MAILS_AT_ONCE_MAX = 10;
