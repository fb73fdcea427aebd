import type { WebSocket } from 'ws';
import { VIEWER_BUFFER_BYTES_MAX, VIEWER_STUCK_MS } from '#server/feed/bounds.ts';
import { type Audience, messageOf } from '#server/feed/audience.ts';
import type { Frame } from '#server/contract/frames.ts';
import { CLOSE_CODES } from '#server/contract/live-protocol.ts';
import type { ViewerPermission } from '#server/feed/viewer-permission.ts';

/**
 * One viewer of the live feed: what it has been sent, and how fast it reads.
 *
 * - *catching up*: what it missed is being read from the log and sent; what is new waits, within a
 *   bound, and is sent after it.
 * - *live*: what is new goes out at once.
 * - *dropping*: it reads more slowly than events come. Nothing is kept for it until all that was
 *   sent has gone; then one `gap` tells it to fetch what it shows anew, and it is live again.
 * - *closed*: nothing is sent any more.
 *
 * So a viewer costs its buffer at most, and nobody waits for it.
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
  /** While it catches up: what is new, and whether that was too much to keep. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #hasMissed = false;
  /** Since when its connection has taken nothing, as far as that was looked at. */
  #stuckSinceMs: number | null = null;
  #lastSentMs = 0;
  #hasAnswered = true;

  constructor(socket: WebSocket, viewing: { right: ViewerPermission; audience: Audience; position: number }) {
    this.#socket = socket;
    this.right = viewing.right;
    this.audience = viewing.audience;
    this.#position = viewing.position;
    socket.on('pong', () => {
      this.#hasAnswered = true;
    });
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

  /** Every event up to here was sent, waits to be sent, or is told of as left out. */
  get position(): number {
    return this.#position;
  }

  /** Says what this connection is: the first message. */
  sendHello(message: Buffer): void {
    this.#send(message);
  }

  /** The log has come to `upTo`, and these messages are what it holds for this viewer since the last. */
  receivePage(messages: readonly Buffer[], upTo: number): void {
    this.#position = upTo;
    if (this.#mode === 'catching up') return this.#keep(messages);
    if (this.#mode === 'dropping' && this.#socket.bufferedAmount === 0) return this.#sendGap();
    for (const message of messages) this.send(message);
  }

  /** Sends what is of the moment and no part of the log, or has its turn in it. */
  send(message: Buffer): void {
    if (this.#mode !== 'live') return;
    if (this.#socket.bufferedAmount > VIEWER_BUFFER_BYTES_MAX) {
      this.#mode = 'dropping';
      this.#stuckSinceMs = performance.now();
      return;
    }
    this.#send(message);
  }

  /** Sends a part of what it missed; resolves when its connection has taken that, or is closed. */
  async sendMissed(message: Buffer): Promise<void> {
    if (this.#mode === 'closed') return;
    this.#stuckSinceMs = performance.now();
    await new Promise<void>((resolve) => this.#send(message, resolve));
    this.#stuckSinceMs = null;
  }

  /** @param hasAll false: some of what it missed could not be sent. */
  caughtUp(hasAll: boolean): void {
    if (this.#mode !== 'catching up') return;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (!hasAll || this.#hasMissed) return this.#sendGap();
    this.#mode = 'live';
    for (const message of waiting) this.send(message);
  }

  /** What it may see has changed: from here on it is sent that, and what it shows is void. */
  changeAudience(audience: Audience): void {
    this.audience = audience;
    this.#hasMissed = true;
    if (this.#mode === 'live') this.#sendGap();
  }

  /** Looks whether it reads again, or has not for too long. */
  check(nowMs: number): void {
    if (this.#stuckSinceMs === null) return;
    if (this.#mode === 'dropping' && this.#socket.bufferedAmount === 0) this.#sendGap();
    else if (nowMs - this.#stuckSinceMs > VIEWER_STUCK_MS) this.terminate();
  }

  /** Whether nothing was sent to it for this long. */
  isQuiet(nowMs: number, forMs: number): boolean {
    return nowMs - this.#lastSentMs >= forMs;
  }

  /** Asks whether anybody is there; ends it when the last such question was not answered. */
  ping(): void {
    if (!this.#hasAnswered) return this.terminate();
    this.#hasAnswered = false;
    if (this.#mode !== 'closed') this.#socket.ping();
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
