/** Connections for the places of stored responses; they are opened on demand. */
export const STORED_CONNECTIONS_MAX = 2;
export const STORED_IDLE_MS = 60_000;

/** How long a place waits for others, so that they share a transaction. */
export const PLACE_LINGER_MS = 20;
export const PLACES_BATCH_MAX = 500;
/** Places that wait while the database is not available; further ones are dropped and counted. */
export const PLACES_WAITING_MAX = 20_000;
/** After a failure the batch is written again. */
export const PLACES_RETRY_MS = 1_000;

/** An upstream's reply to a request for a stored response, from the request to its last byte. */
export const STORED_REPLY_MS = 60_000;
