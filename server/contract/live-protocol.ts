/** What both ends of the live feed know besides its frames. Pure, and so light that a page can have it. */

/** The version of its vocabulary; what is only added does not change it. */
export const LIVE_VERSION = 1;

/** The WebSocket subprotocol, which a viewer may name. */
export const LIVE_PROTOCOL = 'daybook.v1';

/** The codes with which the feed closes a connection. After 4401 and 4403 another attempt fares no better. */
export const CLOSE_CODES = {
  /** The server is ending: connect again, with `after`. */
  going_away: 1001,
  /** The feed takes no messages. */
  not_accepted: 1003,
  /** The key was revoked or has expired, or the session has ended. */
  not_authenticated: 4401,
  /** The key may not use the feed any more, or its account is suspended. */
  not_permitted: 4403,
} as const;
