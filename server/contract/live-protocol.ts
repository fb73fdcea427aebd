/** Constants of the live feed's protocol that server and page share. Pure, and small enough for the page. */

/** The version of the frames; additions don't change it. */
export const LIVE_VERSION = 1;

/** The WebSocket subprotocol that a client may offer. */
export const LIVE_PROTOCOL = 'daybook.v1';

/** Close codes of the feed. After 4401 and 4403, don't reconnect. */
export const CLOSE_CODES = {
  /** The server is shutting down: reconnect with `after`. */
  going_away: 1001,
  /** The feed accepts no messages. */
  not_accepted: 1003,
  /** The key was revoked or has expired, or the session has ended. */
  not_authenticated: 4401,
  /** The key lost its permission for the feed, or its account is suspended. */
  not_permitted: 4403,
} as const;
