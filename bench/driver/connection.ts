import { connect, type Socket } from 'node:net';
import { monotonicUs } from '../machine/clock.ts';
import { HELD_SIGN, MARK_DIGITS, readMark, SENT_SIGN } from '../upstream/marks.ts';
import { ReplyReader } from './reply-reader.ts';

/** What a right reply is; anything else is an error. */
export type Expectation = {
  status: number;
  sse: boolean;
  /** Content chunks of an SSE reply; null for one that goes on until the client leaves. */
  chunks: number | null;
  /** The exact size of a JSON reply; null where the target words it. */
  replyBytes: number | null;
  /** Whether the client asked for the usage chunk; it must get it then, and only then. */
  usageChunk: boolean;
};

/** One request and its reply, as seen by the client. Times by `monotonicUs`. */
export type Exchange = {
  sentUs: number;
  firstByteUs: number;
  endUs: number;
  /** How long the upstream held the request, by its own account. 0 when it was never asked. */
  heldUs: number;
  status: number;
  bodyBytes: number;
  chunks: number;
  /** What was wrong with the reply; null when it was right. */
  error: string | null;
};

export type ConnectionOptions = {
  port: number;
  request: Buffer;
  expect: Expectation;
  /** Called for each content chunk with the time and its one-way delay from the upstream. */
  onChunk: (nowUs: number, delayUs: number) => void;
  /** Called at the end of each exchange, right or wrong, and never for one that was cancelled. */
  onEnd: (connection: Connection, exchange: Exchange) => void;
};

const SENT_BYTE = SENT_SIGN.charCodeAt(0);
const HELD_BYTE = HELD_SIGN.charCodeAt(0);

/** How many of the last pieces of a reply are kept, to look for its end: `[DONE]` comes in one or two. */
const KEPT_PIECES = 4;

/** A keep-alive connection that carries one exchange at a time. */
export class Connection {
  private readonly options: ConnectionOptions;
  private readonly socket: Socket;
  private readonly reader: ReplyReader;
  private exchange: Exchange | null = null;
  private cutMark: Buffer | null = null;
  private kept: Buffer[] = [];
  private closed = false;

  constructor(options: ConnectionOptions) {
    this.options = options;
    this.reader = new ReplyReader({
      onHead: (status) => {
        if (this.exchange) this.exchange.status = status;
      },
      onBody: (bytes) => this.takeBody(bytes),
      onEnd: (closing) => {
        if (closing) this.close();
        this.finish(null);
      },
    });
    this.socket = connect({ port: options.port, host: '127.0.0.1', noDelay: true });
    this.socket.on('data', (bytes) => {
      if (typeof bytes !== 'string') this.takeBytes(bytes);
    });
    this.socket.on('error', (error) => this.lose(error.message));
    this.socket.on('close', () => this.lose('the connection was closed in the middle'));
  }

  /** Whether it may carry another exchange. */
  get isUsable(): boolean {
    return !this.closed;
  }

  send(): void {
    const sentUs = monotonicUs();
    this.exchange = {
      sentUs,
      firstByteUs: 0,
      endUs: 0,
      heldUs: 0,
      status: 0,
      bodyBytes: 0,
      chunks: 0,
      error: null,
    };
    this.socket.write(this.options.request);
  }

  /** Drops the connection; an exchange on it ends without being told. */
  cancel(): void {
    this.exchange = null;
    this.close();
  }

  private close(): void {
    this.closed = true;
    this.socket.destroy();
  }

  private lose(reason: string): void {
    this.close();
    this.finish(reason);
  }

  private takeBytes(bytes: Buffer): void {
    if (this.exchange) this.exchange.firstByteUs ||= monotonicUs();
    try {
      this.reader.feed(bytes);
    } catch (error) {
      this.lose(error instanceof Error ? error.message : String(error));
    }
  }

  private takeBody(bytes: Buffer): void {
    const exchange = this.exchange;
    if (!exchange) return;
    exchange.bodyBytes += bytes.length;
    if (this.kept.length === KEPT_PIECES) this.kept.shift();
    this.kept.push(bytes);
    const piece = this.cutMark ? Buffer.concat([this.cutMark, bytes]) : bytes;
    this.cutMark = null;
    if (exchange.heldUs === 0 && exchange.status === 200) {
      const at = piece.indexOf(HELD_BYTE);
      if (at >= 0 && this.isWhole(piece, at)) exchange.heldUs = Math.max(1, readMark(piece, at + 1));
    }
    if (this.options.expect.sse) this.countChunks(exchange, piece);
  }

  private countChunks(exchange: Exchange, piece: Buffer): void {
    const nowUs = monotonicUs();
    for (let at = piece.indexOf(SENT_BYTE); at >= 0; at = piece.indexOf(SENT_BYTE, at + 1 + MARK_DIGITS)) {
      if (!this.isWhole(piece, at)) return;
      exchange.chunks++;
      this.options.onChunk(nowUs, nowUs - readMark(piece, at + 1));
    }
  }

  /** Keeps the rest of the piece for the next one when the mark at `at` goes on there. */
  private isWhole(piece: Buffer, at: number): boolean {
    if (at + 1 + MARK_DIGITS <= piece.length) return true;
    this.cutMark = piece.subarray(at);
    return false;
  }

  private finish(error: string | null): void {
    const { exchange } = this;
    if (!exchange) return;
    exchange.endUs = monotonicUs();
    exchange.error = error ?? this.findFault(exchange);
    this.exchange = null;
    this.kept = [];
    this.cutMark = null;
    this.options.onEnd(this, exchange);
  }

  private findFault(exchange: Exchange): string | null {
    const { expect } = this.options;
    const end = Buffer.concat(this.kept).toString('latin1');
    if (exchange.status !== expect.status) return `status ${exchange.status}`;
    if (expect.status !== 200) return end.includes('"error"') ? null : 'a refusal without an error object';
    if (exchange.heldUs === 0) return "not the upstream's reply";
    if (!expect.sse)
      return expect.replyBytes === null || exchange.bodyBytes === expect.replyBytes
        ? null
        : `${exchange.bodyBytes} bytes of ${expect.replyBytes}`;
    if (exchange.chunks !== expect.chunks) return `${exchange.chunks} chunks of ${expect.chunks}`;
    if (!end.endsWith('data: [DONE]\n\n')) return 'no [DONE] at the end';
    if (end.includes('"choices":[]') !== expect.usageChunk)
      return expect.usageChunk ? 'no usage chunk' : 'a usage chunk that nobody asked for';
    return null;
  }
}
