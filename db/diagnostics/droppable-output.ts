import {
  LAST_LINES_MS,
  QUEUED_CHARACTERS_MAX,
  WRITE_BYTES_MAX,
  WRITE_RETRY_FIRST_MS,
  WRITE_RETRY_MAX_MS,
} from '#db/diagnostics/bounds.ts';

/**
 * Once it has dropped a line, an output takes no more until so much of its queue is left: one report, not
 * many.
 */
const RESUME_AT_CHARACTERS = QUEUED_CHARACTERS_MAX / 2;

/** Turns of the event loop in which the end of a write is reported after the time for it is over. */
const LAST_TURNS = 3;

/** Where an output writes to. Both functions write some of the bytes, and fail like `fs.write`. */
export type OutputTarget = {
  write(bytes: Buffer, done: (error: NodeJS.ErrnoException | null, written: number) => void): void;
  writeSync(bytes: Buffer): number;
  /** Whether a write may wait for its reader for any time. */
  mayBlock: boolean;
};

/** The health of an output, for the status of the service. */
export type OutputStatus = {
  /** Lines dropped since the process started. */
  dropped: number;
  /** The code of the error that the output fails with; null: the last write succeeded. */
  failure: string | null;
};

/**
 * An output for lines that may be lost: a write never throws, never waits and never fills the memory. One
 * write is under way at a time. Lines that the target doesn't take (terminal gone, disk full, reader stopped)
 * wait in a bounded queue, the write is retried with a growing pause, and lines that don't fit into the queue
 * are dropped and counted. When the target takes lines again, one line says how many were dropped, at the
 * place where they are missing.
 */
export class DroppableOutput {
  readonly #open: () => OutputTarget;
  #target: OutputTarget | null = null;
  #lines: string[] = [];
  #queued = 0;
  /** What the write under way, or the next one, still has to write. */
  #chunk: Buffer | null = null;
  #isWriting = false;
  #retry: NodeJS.Timeout | undefined;
  #retryMs = WRITE_RETRY_FIRST_MS;
  #dropped = 0;
  /** Lines dropped since the last line that said so. */
  #unreported = 0;
  #failure: string | null = null;
  /** The latest reason for which lines had to wait. */
  #reason: string | null = null;
  #waiting: (() => void)[] = [];
  /** The line that reports dropped lines. */
  describeDropped: (dropped: number, reason: string | null) => string = (dropped, reason) =>
    `${dropped} diagnostic lines dropped${reason === null ? '' : ` (${reason})`}\n`;

  /** @param open opens the target, before the first write. */
  constructor(open: () => OutputTarget) {
    this.#open = open;
  }

  get status(): OutputStatus {
    return { dropped: this.#dropped, failure: this.#failure };
  }

  /** Whether a write is under way, and whether it may wait for its reader for any time. */
  get underWay(): 'nothing' | 'write' | 'blocking write' {
    if (!this.#isWriting) return 'nothing';
    return this.#target?.mayBlock === true ? 'blocking write' : 'write';
  }

  /** Queues text of whole lines, or drops it. */
  write(text: string): void {
    if (this.#unreported > 0 && this.#queued <= RESUME_AT_CHARACTERS) this.#reportDropped();
    if (this.#unreported > 0 || this.#queued + text.length > QUEUED_CHARACTERS_MAX) {
      this.#dropped++;
      this.#unreported++;
      return;
    }
    this.#push(text);
    if (!this.#isWriting && this.#retry === undefined) this.#next();
  }

  /**
   * Resolves when everything has been written, or when the time is over.
   * @param maxMs milliseconds.
   */
  async flush(maxMs: number = LAST_LINES_MS): Promise<void> {
    if (this.#isIdle) return;
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, maxMs);
    });
    await Promise.race([over, new Promise<void>((resolve) => this.#waiting.push(resolve))]);
    clearTimeout(timer);
    // A process that was busy all the time hears of the timer before it hears of the write's end.
    for (let turn = 0; turn < LAST_TURNS && this.#isWriting; turn++)
      await new Promise((resolve) => setImmediate(resolve));
  }

  /**
   * Writes the queued lines as far as that takes no waiting, for a process that is about to end. Never
   * throws.
   */
  flushSync(): void {
    if (this.#isWriting || this.#isIdle) return;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    try {
      this.#target ??= this.#open();
      if (this.#target.mayBlock) return;
      while (this.#fill()) this.#took(this.#target.writeSync(this.#chunk as Buffer));
    } catch (error) {
      this.#failed(error as NodeJS.ErrnoException);
    }
  }

  get #isIdle(): boolean {
    return this.#lines.length === 0 && this.#chunk === null && this.#unreported === 0;
  }

  #push(text: string): void {
    this.#lines.push(text);
    this.#queued += text.length;
  }

  #reportDropped(): void {
    const line = this.describeDropped(this.#unreported, this.#reason);
    this.#unreported = 0;
    this.#push(line);
  }

  /** Takes whole lines for one write. @returns false: there is nothing to write. */
  #fill(): boolean {
    if (this.#chunk !== null) return true;
    if (this.#lines.length === 0 && this.#unreported > 0) this.#reportDropped();
    let count = 0;
    let bytes = 0;
    for (; count < this.#lines.length; count++) {
      const line = this.#lines[count] as string;
      const size = Buffer.byteLength(line);
      if (count > 0 && bytes + size > WRITE_BYTES_MAX) break;
      bytes += size;
      this.#queued -= line.length;
    }
    if (count === 0) return false;
    this.#chunk = Buffer.from(this.#lines.splice(0, count).join(''));
    return true;
  }

  #next(): void {
    if (!this.#fill()) {
      for (const done of this.#waiting.splice(0)) done();
      return;
    }
    this.#isWriting = true;
    try {
      this.#target ??= this.#open();
      this.#target.write(this.#chunk as Buffer, (error, written) => {
        this.#isWriting = false;
        if (error) return this.#failed(error);
        this.#took(written);
        this.#next();
      });
    } catch (error) {
      this.#isWriting = false;
      this.#failed(error as NodeJS.ErrnoException);
    }
  }

  #took(written: number): void {
    const chunk = this.#chunk as Buffer;
    this.#chunk = written < chunk.length ? chunk.subarray(written) : null;
    this.#failure = null;
    this.#retryMs = WRITE_RETRY_FIRST_MS;
  }

  #failed({ code = 'unknown' }: NodeJS.ErrnoException): void {
    this.#failure = code;
    this.#reason = code;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#next();
    }, this.#retryMs);
    // An output that takes nothing keeps no process alive.
    this.#retry.unref();
    this.#retryMs = Math.min(this.#retryMs * 2, WRITE_RETRY_MAX_MS);
  }
}
