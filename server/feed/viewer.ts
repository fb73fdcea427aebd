import type { WebSocket } from 'ws';
import { VIEWER_BUFFER_BYTES_MAX, VIEWER_STUCK_MS } from '#server/feed/bounds.ts';
import { type Audience, messageOf } from '#server/feed/audience.ts';
import type { Frame } from '#server/contract/frames.ts';
import { CLOSE_CODES } from '#server/contract/live-protocol.ts';
import type { ViewerPermission } from '#server/feed/viewer-permission.ts';

/**
 * One viewer of the live feed: its position, and its backpressure.
 *
 * - *catching up*: missed events are read from the log and sent; new ones are queued, within a bound, and
 * sent after them.
 * - *live*: new events are sent at once.
 * - *dropping*: it reads more slowly than events are sent. Nothing is queued until its buffer is empty; then
 * a `gap` makes it fetch its data again, and it is live.
 * - *closed*: nothing is sent any more.
 *
 * So a viewer costs at most its buffer, and delays no other.
 */
type Mode = 'catching up' | 'live' | 'dropping' | 'closed';

export class Viewer {
  readonly #socket: WebSocket;
  readonly right: ViewerPermission;
  /** Resolves when its connection is closed. */
  readonly closed: Promise<void>;
  audience: Audience;
  #mode: Mode = 'catching up';
  #position: number;
  /** While it catches up: queued messages, and whether they exceeded the buffer. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #hasMissed = false;
  /** Since when its connection has accepted no data. */
  #stuckSinceMs: number | null = null;
  #lastSentMs = 0;
  #hasAnswered = true;
  /** The newest ping without a pong. */
  #pingData: Buffer | null = null;

  constructor(socket: WebSocket, viewing: { right: ViewerPermission; audience: Audience; position: number }) {
    this.#socket = socket;
    this.right = viewing.right;
    this.audience = viewing.audience;
    this.#position = viewing.position;
    socket.on('pong', () => {
      this.#hasAnswered = true;
    });
    socket.on('ping', (data: Buffer) => this.#pong(data));
    socket.on('message', () => this.close(CLOSE_CODES.not_accepted, 'the feed takes no messages'));
    socket.on('error', () => socket.terminate());
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.#mode = 'closed';
        this.#waiting = [];
        resolve();
      });
    });
  }

  /** Every event up to here was sent, is queued, or is covered by a gap. */
  get position(): number {
    return this.#position;
  }

  /** Sends the first message. */
  sendHello(message: Buffer): void {
    this.#send(message);
  }

  /** The log has advanced to `upTo`; these are the viewer's messages since the last page. */
  receivePage(messages: readonly Buffer[], upTo: number): void {
    this.#position = upTo;
    if (this.#mode === 'catching up') return this.#keep(messages);
    if (this.#mode === 'dropping' && this.#socket.bufferedAmount === 0) return this.#sendGap();
    for (const message of messages) this.send(message);
  }

  /** Sends a message that isn't part of the log, or is due in its order. */
  send(message: Buffer): void {
    if (this.#mode !== 'live') return;
    if (this.#socket.bufferedAmount > VIEWER_BUFFER_BYTES_MAX) {
      this.#mode = 'dropping';
      this.#stuckSinceMs = performance.now();
      return;
    }
    this.#send(message);
  }

  /** Sends missed events; resolves when the connection has accepted them or is closed. */
  async sendMissed(message: Buffer): Promise<void> {
    if (this.#mode === 'closed') return;
    this.#stuckSinceMs = performance.now();
    await new Promise<void>((resolve) => this.#send(message, resolve));
    this.#stuckSinceMs = null;
  }

  /** @param hasAll false: some missed events couldn't be sent. */
  caughtUp(hasAll: boolean): void {
    if (this.#mode !== 'catching up') return;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (!hasAll || this.#hasMissed) return this.#sendGap();
    this.#mode = 'live';
    for (const message of waiting) this.send(message);
  }

  /** Its scope has changed, so its data is void: sends a gap. */
  changeAudience(audience: Audience): void {
    this.audience = audience;
    this.#hasMissed = true;
    if (this.#mode === 'live') this.#sendGap();
  }

  /** Checks whether it reads again, or has been stuck for too long. */
  check(nowMs: number): void {
    if (this.#stuckSinceMs === null) return;
    if (this.#mode === 'dropping' && this.#socket.bufferedAmount === 0) this.#sendGap();
    else if (nowMs - this.#stuckSinceMs > VIEWER_STUCK_MS) this.terminate();
  }

  /** Whether nothing was sent for this long. */
  isQuiet(nowMs: number, forMs: number): boolean {
    return nowMs - this.#lastSentMs >= forMs;
  }

  /** Sends a ping; terminates the viewer if the last one wasn't answered. */
  ping(): void {
    if (!this.#hasAnswered) return this.terminate();
    this.#hasAnswered = false;
    if (this.#mode !== 'closed') this.#socket.ping();
  }

  /**
   * Answers the newest of the pings that came at once, as RFC 6455 permits: a flood of them costs a pong. A
   * client that doesn't read would have its pongs buffered without a bound.
   */
  #pong(data: Buffer): void {
    if (this.#mode === 'closed') return;
    if (this.#socket.bufferedAmount > 2 * VIEWER_BUFFER_BYTES_MAX) return this.terminate();
    if (this.#pingData === null)
      setImmediate(() => {
        const newest = this.#pingData;
        this.#pingData = null;
        if (newest && this.#mode !== 'closed') this.#socket.pong(newest);
      });
    this.#pingData = data;
  }

  close(code: number, reason: string): void {
    this.#mode = 'closed';
    this.#waiting = [];
    this.#socket.close(code, reason);
  }

  terminate(): void {
    this.#mode = 'closed';
    this.#socket.terminate();
  }

  #keep(messages: readonly Buffer[]): void {
    if (this.#hasMissed) return;
    for (const message of messages) this.#waitingBytes += message.length;
    if (this.#waitingBytes <= VIEWER_BUFFER_BYTES_MAX) {
      this.#waiting.push(...messages);
      return;
    }
    this.#hasMissed = true;
    this.#waiting = [];
  }

  #sendGap(): void {
    this.#mode = 'live';
    this.#hasMissed = false;
    this.#stuckSinceMs = null;
    const position = this.#position;
    this.#send(
      messageOf({
        position,
        at: new Date().toISOString(),
        frames: [{ type: 'gap', position } satisfies Frame],
      }),
    );
  }

  #send(message: Buffer, written?: () => void): void {
    this.#lastSentMs = performance.now();
    this.#socket.send(message, { binary: false }, written && (() => written()));
  }
}
