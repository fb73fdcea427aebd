import type { Frame, LiveMessage } from '#server/contract/frames.ts';
import { CLOSE_CODES, LIVE_PROTOCOL } from '#server/contract/live-protocol.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import { api, queryString, notifySignedOut } from '../api/api.ts';

/**
 * The live feed: one WebSocket for the whole page.
 * - `connecting`: first connection. `live`: receiving frames. `reconnecting`: lost, and retried from the last
 *   position, so that nothing is missed. `ended`: closed by the page, or the server rejected the session.
 * - A `gap` frame replaces frames that the server can't send again. Pages then refetch their figures.
 */
export type FeedStatus = 'connecting' | 'live' | 'reconnecting' | 'ended';
export type FeedState = {
  status: FeedStatus;
  /** The estimated delay of received messages in milliseconds. */
  behindMs: number;
};

/** Called for each message in log order. Must be fast: there may be hundreds per second. */
export type FeedListener = (frames: readonly Frame[], message: LiveMessage) => void;

const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 5_000;
const HEARTBEAT_FIRST_MS = 5_000;

class Feed {
  readonly #listeners = new Set<FeedListener>();
  readonly #stateListeners = new Set<() => void>();
  #state: FeedState = { status: 'ended', behindMs: 0 };
  #socket: WebSocket | null = null;
  #filter: RequestFilter = {};
  #position: number | null = null;
  #isWanted = false;
  /** Whether this connection has received a message. */
  #hasReceived = false;
  #startsAtHead = false;
  #retryMs = RETRY_FIRST_MS;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #heartbeatMs = HEARTBEAT_FIRST_MS;
  /** The smallest difference between this clock and a message's time. */
  #leastMs = Number.POSITIVE_INFINITY;

  get state(): FeedState {
    return this.#state;
  }

  /** Whether the connection began with new events: those between a fetch and its `hello` were not sent. */
  get startsAtHead(): boolean {
    return this.#startsAtHead;
  }

  onState = (listener: () => void): (() => void) => {
    this.#stateListeners.add(listener);
    return () => this.#stateListeners.delete(listener);
  };

  listen(listener: FeedListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Opens the feed with a filter, or changes the filter.
   * @param after the position of the fetched figures: the feed continues from there. Null for new events
   * only.
   */
  open(filter: RequestFilter, after: number | null): void {
    const isSame = this.#isWanted && JSON.stringify(filter) === JSON.stringify(this.#filter);
    if (isSame && (after === null || this.#position === null || after >= this.#position)) return;
    // Also if the feed is already ahead: the page misses the events in between.
    this.#position = after;
    this.#filter = filter;
    this.#isWanted = true;
    this.#drop();
    this.#connect();
  }

  close(): void {
    this.#isWanted = false;
    this.#drop();
    this.#set({ status: 'ended', behindMs: 0 });
  }

  #connect(): void {
    this.#set({
      status: this.#state.status === 'ended' ? 'connecting' : 'reconnecting',
      behindMs: this.#state.behindMs,
    });
    const url = `/api/v1/live${queryString({ ...this.#filter, after: this.#position })}`;
    const socket = new WebSocket(url, LIVE_PROTOCOL);
    this.#socket = socket;
    this.#hasReceived = false;
    this.#startsAtHead = this.#position === null;
    this.#watchHeartbeat();
    socket.addEventListener('message', ({ data }) => {
      if (socket === this.#socket) this.#receive(JSON.parse(String(data)) as LiveMessage);
    });
    socket.addEventListener('close', ({ code }) => {
      if (socket === this.#socket) this.#lost(code);
    });
  }

  #receive(message: LiveMessage): void {
    this.#hasReceived = true;
    this.#retryMs = RETRY_FIRST_MS;
    for (const frame of message.frames) if (frame.type === 'hello') this.#heartbeatMs = frame.heartbeat_ms;
    this.#position = message.position;
    this.#watchHeartbeat();
    // The fastest message so far gives the offset between the clocks of browser and server.
    const lateMs = Date.now() - Date.parse(message.at);
    this.#leastMs = Math.min(this.#leastMs, lateMs);
    this.#set({ status: 'live', behindMs: lateMs - this.#leastMs });
    for (const listener of this.#listeners) listener(message.frames, message);
  }

  #lost(code: number): void {
    this.#drop();
    if (!this.#isWanted) return;
    if (code === CLOSE_CODES.not_authenticated || code === CLOSE_CODES.not_permitted) {
      this.#isWanted = false;
      this.#set({ status: 'ended', behindMs: 0 });
      // Signing out everywhere ends every open page.
      if (code === CLOSE_CODES.not_authenticated) notifySignedOut();
      return;
    }
    // Browsers don't report why a connection failed. This request finds out whether the session ended.
    if (!this.#hasReceived) void api('GET', '/api/v1/me').catch(() => {});
    this.#set({ status: 'reconnecting', behindMs: this.#state.behindMs });
    // Jitter, so that not all pages reconnect at once after a restart.
    this.#retry = setTimeout(() => this.#connect(), this.#retryMs * (0.5 + Math.random() / 2));
    this.#retryMs = Math.min(RETRY_MAX_MS, this.#retryMs * 2);
  }

  /** A connection without messages for two heartbeat intervals is considered lost. */
  #watchHeartbeat(): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lost(0), this.#heartbeatMs * 2);
  }

  #drop(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #set(state: FeedState): void {
    // Differences below half a second are not reported.
    if (state.status === this.#state.status && Math.abs(state.behindMs - this.#state.behindMs) < 500) return;
    this.#state = state;
    for (const listener of this.#stateListeners) listener();
  }
}

/** The page's feed. */
export const feed = new Feed();
