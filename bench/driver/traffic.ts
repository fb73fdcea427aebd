import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, type ConnectionOptions, type Exchange } from './connection.ts';
import { Histogram, type Quantiles } from './histogram.ts';

/** What was seen in the measured time; errors also before and after it. */
export type Seen = {
  /** Right replies that ended in it. */
  requests: number;
  /** Content chunks that arrived in it. */
  chunks: number;
  /** Wrong replies, by what was wrong. */
  errors: Record<string, number>;
  /** From the request to the reply's last byte; to its first byte for SSE. */
  latencyUs: Quantiles;
  /** The same without the time for which the upstream held the request. */
  overheadUs: Quantiles;
  chunkDelayUs: Quantiles;
};

/** A target that closes the connection with each error must not turn the driver into a busy loop. */
const PAUSE_AFTER_ERROR_MS = 5;

/** Makes exchanges over as few connections as are needed at a time, and records them. */
export class Traffic {
  private readonly options: Pick<ConnectionOptions, 'port' | 'request' | 'expect'>;
  private readonly idle: Connection[] = [];
  private readonly busy = new Set<Connection>();
  private readonly errors: Record<string, number> = {};
  private readonly latency = new Histogram();
  private readonly overhead = new Histogram();
  private readonly chunkDelay = new Histogram();
  private requests = 0;
  private chunks = 0;
  /** The measured time by `monotonicUs`; open while `untilUs` is infinite. */
  private fromUs = Infinity;
  private untilUs = Infinity;
  private onQuiet = (): void => {};

  /** Called after each exchange; a closed loop makes its next one here. */
  afterEach = (): void => {};

  constructor(options: Pick<ConnectionOptions, 'port' | 'request' | 'expect'>) {
    this.options = options;
  }

  get inFlight(): number {
    return this.busy.size;
  }

  /** Makes one exchange, on a connection that was used last, or on a new one. */
  fire(): void {
    let connection = this.idle.pop();
    while (connection && !connection.isUsable) connection = this.idle.pop();
    connection ??= new Connection({
      ...this.options,
      onChunk: (nowUs, delayUs) => this.recordChunk(nowUs, delayUs),
      onEnd: (ended, exchange) => this.end(ended, exchange),
    });
    this.busy.add(connection);
    connection.send();
  }

  /** From this moment of `monotonicUs` on, what is seen counts. */
  measureFrom(us: number): void {
    this.fromUs = us;
  }

  measureUntil(us: number): void {
    this.untilUs = us;
  }

  /** Lets what is under way come to its end, and counts what does not within `secs` as an error. */
  async windDown(secs: number): Promise<void> {
    this.afterEach = () => {};
    if (this.busy.size === 0) return;
    const quiet = new Promise<void>((resolve) => {
      this.onQuiet = resolve;
    });
    await Promise.race([quiet, sleep(secs * 1000, undefined, { ref: false })]);
    for (const _ of this.busy) this.countError('no end in time');
  }

  /** Drops what is under way, as clients that leave do. */
  cancelAll(): void {
    this.afterEach = () => {};
    for (const connection of this.busy) connection.cancel();
    this.busy.clear();
  }

  countError(reason: string): void {
    this.errors[reason] = (this.errors[reason] ?? 0) + 1;
  }

  seen(): Seen {
    return {
      requests: this.requests,
      chunks: this.chunks,
      errors: this.errors,
      latencyUs: this.latency.quantiles(),
      overheadUs: this.overhead.quantiles(),
      chunkDelayUs: this.chunkDelay.quantiles(),
    };
  }

  private isMeasured(us: number): boolean {
    return us >= this.fromUs && us < this.untilUs;
  }

  private recordChunk(nowUs: number, delayUs: number): void {
    if (!this.isMeasured(nowUs)) return;
    this.chunks++;
    this.chunkDelay.add(delayUs);
  }

  private end(connection: Connection, exchange: Exchange): void {
    this.busy.delete(connection);
    if (connection.isUsable) this.idle.push(connection);
    if (exchange.error === null) {
      if (this.isMeasured(exchange.endUs)) this.record(exchange);
      this.afterEach();
    } else {
      this.countError(exchange.error);
      setTimeout(() => this.afterEach(), PAUSE_AFTER_ERROR_MS);
    }
    if (this.busy.size === 0) this.onQuiet();
  }

  private record(exchange: Exchange): void {
    this.requests++;
    const { sse } = this.options.expect;
    // What was sent before may have waited while /proc was read; a stream's first byte had not.
    if (!sse && exchange.sentUs < this.fromUs) return;
    const us = (sse ? exchange.firstByteUs : exchange.endUs) - exchange.sentUs;
    this.latency.add(us);
    this.overhead.add(us - exchange.heldUs);
  }
}
