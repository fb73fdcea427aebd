/** Connections for the places of stored responses; they are opened on demand. */
export const STORED_CONNECTIONS_MAX = 2;
export const STORED_IDLE_MS = 60_000;

/** How long a place waits for others, so that they share a transaction. */
export const PLACE_LINGER_MS = 20;
/** When a place is looked up again that is not found: the server that has seen its id may be writing it. */
export const PLACE_LOOK_AFTER_MS: readonly number[] = [0, 50, 200];
export const PLACES_BATCH_MAX = 500;
/** Places that wait while the database is not available; further ones are dropped and counted. */
export const PLACES_WAITING_MAX = 20_000;
/** After a failure the batch is written again. */
export const PLACES_RETRY_MS = 1_000;

/** An upstream's reply to a request for a stored response, from the request to its last byte. */
export const STORED_REPLY_MS = 60_000;

/** How often each server looks for background responses that are due: */
export const BACKGROUND_LOOK_MS = 1_000;
/** while it has seen none for a time: those of a server that was killed can wait, and others look, too. */
export const BACKGROUND_IDLE_LOOK_MS = 5_000;
export const BACKGROUND_ACTIVE_MS = 60_000;
/** Requests for background responses that a server has open at the same time. */
export const POLLS_MAX = 32;
/** A response that a server has taken is left to it for so long: longer than its reply may take. */
export const POLL_TAKEN_MS = 90_000;
/** A provider is asked again after a tenth of the response's age, within these bounds. */
export const POLL_EVERY_MIN_MS = 1_000;
export const POLL_EVERY_MAX_MS = 30_000;
/** From this age on a response that its provider doesn't know is lost, and from the second age on any. */
export const UNKNOWN_IS_LOST_MS = 60_000;
export const BACKGROUND_MAX_MS = 24 * 3_600_000;
