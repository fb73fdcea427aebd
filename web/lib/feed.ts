import type { Frame, LiveMessage } from '#server/contract/frames.ts';
import { CLOSE_CODES, LIVE_PROTOCOL } from '#server/contract/live-protocol.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import { api, queryString, tellSignedOut } from './api.ts';

/**
 * The live feed over a WebSocket, as one connection for the whole page.
 *
 * - `connecting`: none yet. `live`: frames come. `reconnecting`: it was lost, and is tried again by
 *   itself with the position that was seen, so that nothing is missed. `ended`: the server said that
 *   no attempt will fare better, or nobody wants it.
 * - What is missed beyond what the server can send again is a `gap` frame: whoever shows figures
 *   fetches them anew.
 */
export type FeedStatus = 'connecting' | 'live' | 'reconnecting' | 'ended';
export type FeedState = {
  status: FeedStatus;
  /** How far what was received lies behind the server's clock, in milliseconds, as far as it is known. */
  behindMs: number;
};

/** Told of each message, in the order of the log. Must be quick: hundreds may come in a second. */
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
  /** Whether this connection has told anything. */
  #hasTold = false;
  #retryMs = RETRY_FIRST_MS;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #heartbeatMs = HEARTBEAT_FIRST_MS;
  /** The least by which a message's time was before our own. */
  #leastMs = Number.POSITIVE_INFINITY;

  get state(): FeedState {
    return this.#state;
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
   * Opens the feed for these requests, or changes which they are.
   * @param after the position that the figures on the page were fetched at: the feed goes on behind it. Null:
   * from now on.
   */
  open(filter: RequestFilter, after: number | null): void {
    const isSame = this.#isWanted && JSON.stringify(filter) === JSON.stringify(this.#filter);
    if (isSame && (after === null || this.#position === null || after >= this.#position)) return;
    // Also where it is further on already: what came before somebody listened is missing on the page.
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
    const url = `/api/live${queryString({ ...this.#filter, after: this.#position })}`;
    const socket = new WebSocket(url, LIVE_PROTOCOL);
    this.#socket = socket;
    this.#hasTold = false;
    this.#listenForSilence();
    socket.addEventListener('message', ({ data }) => {
      if (socket === this.#socket) this.#take(JSON.parse(String(data)) as LiveMessage);
    });
    socket.addEventListener('close', ({ code }) => {
      if (socket === this.#socket) this.#lost(code);
    });
  }

  #take(message: LiveMessage): void {
    this.#hasTold = true;
    this.#retryMs = RETRY_FIRST_MS;
    for (const frame of message.frames) if (frame.type === 'hello') this.#heartbeatMs = frame.heartbeat_ms;
    this.#position = message.position;
    this.#listenForSilence();
    // The clocks of browser and server differ: the quickest message so far tells by how much.
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
      // Whoever signs out everywhere does so at every open page at once.
      if (code === CLOSE_CODES.not_authenticated) tellSignedOut();
      return;
    }
    // Browsers don't tell why a connection was refused. If the session has ended meanwhile, this finds out.
    if (!this.#hasTold) void api('GET', '/api/me').catch(() => {});
    this.#set({ status: 'reconnecting', behindMs: this.#state.behindMs });
    // Not all pages at the same moment, after a server has restarted.
    this.#retry = setTimeout(() => this.#connect(), this.#retryMs * (0.5 + Math.random() / 2));
    this.#retryMs = Math.min(RETRY_MAX_MS, this.#retryMs * 2);
  }

  /** A connection that says nothing for twice its heartbeat is lost, whatever the network makes of it. */
  #listenForSilence(): void {
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
    // The state is looked at for every change; tenths of a second are nothing to show.
    if (state.status === this.#state.status && Math.abs(state.behindMs - this.#state.behindMs) < 500) return;
    this.#state = state;
    for (const listener of this.#stateListeners) listener();
  }
}

/** The page's one feed. */
export const feed = new Feed();
