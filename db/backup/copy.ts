import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import type { ClientBase, Connection, Submittable } from 'pg';

/**
 * COPY in and out, which `pg` does not provide: the rows of a table as text. Backpressure in both directions
 * keeps memory constant for a table of any size.
 */

/** Rows are passed on in chunks of this size: one message per row would cost more than the row. */
const CHUNK_BYTES = 64 * 1024;
/** Chunks buffered for the reader before Postgres is paused. */
const BUFFERED_CHUNKS_MAX = 4;

/** The methods for COPY that `pg` has and its types lack. */
type CopyConnection = Connection & {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
};

type Complete = { text: string };
const countIn = ({ text }: Complete): number => Number(text.split(' ')[1]);

/** The text of a `copy … to stdout`. */
export class CopyOut extends Readable implements Submittable {
  /** The number of rows; set at the end. */
  rows = 0;
  /** Set by pg to clear its own timeout; called exactly once. */
  callback: (error?: Error) => void = () => {};
  readonly #sql: string;
  #connection: Connection | null = null;
  #chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  #filled = 0;

  constructor(sql: string) {
    super({ highWaterMark: BUFFERED_CHUNKS_MAX * CHUNK_BYTES });
    this.#sql = sql;
  }

  submit(connection: Connection): void {
    this.#connection = connection;
    connection.query(this.#sql);
  }

  /** Called for each row. The bytes are copied, since pg reuses its buffer. */
  handleCopyData({ chunk }: { chunk: Buffer }): void {
    for (let from = 0; from < chunk.length;) {
      const copied = chunk.copy(this.#chunk, this.#filled, from);
      from += copied;
      this.#filled += copied;
      if (this.#filled === CHUNK_BYTES) this.#flush();
    }
  }

  handleCommandComplete(complete: Complete): void {
    this.rows = countIn(complete);
  }

  handleReadyForQuery(): void {
    this.#release();
    this.#flush();
    this.push(null);
    this.callback();
  }

  handleError(error: Error): void {
    this.#release();
    this.destroy(error);
    this.callback(error);
  }

  override _read(): void {
    this.#connection?.stream.resume();
  }

  /** A reader that stops early destroys the connection, which is still full of rows. */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection?.stream.destroy();
    done(error);
  }

  /** Returns the connection, which may be paused: the last rows may share a read with the end. */
  #release(): void {
    this.#connection?.stream.resume();
    this.#connection = null;
  }

  #flush(): void {
    if (this.#filled === 0) return;
    const filled = this.#chunk.subarray(0, this.#filled);
    this.#chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    this.#filled = 0;
    if (!this.push(filled)) this.#connection?.stream.pause();
  }
}

/** Starts a `copy … to stdout`. The connection is busy until it ends. */
export function copyOut(client: ClientBase, sql: string): CopyOut {
  return client.query(new CopyOut(sql));
}

/** The SHA-256 of the output of a `copy … to stdout`. */
export async function digestOf(client: ClientBase, sql: string): Promise<string> {
  const digest = createHash('sha256');
  for await (const chunk of copyOut(client, sql)) digest.update(chunk as Buffer);
  return digest.digest('hex');
}

/**
 * Runs a `copy … from stdin` with this text.
 * @returns the number of rows.
 * @throws {Error} of Postgres or of the text's source; no row is inserted then.
 */
export function copyIn(
  client: ClientBase,
  sql: string,
  text: AsyncIterable<Buffer> | Iterable<Buffer>,
): Promise<number> {
  return client.query(new CopyIn(sql, text)).result;
}

class CopyIn implements Submittable {
  callback: (error?: Error) => void = () => {};
  readonly #sql: string;
  readonly #text: AsyncIterable<Buffer> | Iterable<Buffer>;
  readonly #ended = new AbortController();
  readonly #outcome = Promise.withResolvers<number>();
  #rows = 0;
  /** The error of the text's source. */
  #cause: Error | null = null;

  constructor(sql: string, text: AsyncIterable<Buffer> | Iterable<Buffer>) {
    this.#sql = sql;
    this.#text = text;
  }

  get result(): Promise<number> {
    return this.#outcome.promise;
  }

  submit(connection: Connection): void {
    connection.query(this.#sql);
  }

  handleCopyInResponse(connection: CopyConnection): void {
    void this.#send(connection);
  }

  async #send(connection: CopyConnection): Promise<void> {
    const { signal } = this.#ended;
    try {
      for await (const chunk of this.#text) {
        if (signal.aborted) return;
        // Not after sending: the next chunk is made while PostgreSQL reads the last one.
        if (connection.stream.writableNeedDrain) await once(connection.stream, 'drain', { signal });
        connection.sendCopyFromChunk(chunk);
      }
      connection.endCopyFrom();
    } catch (error) {
      if (signal.aborted) return;
      this.#cause = error as Error;
      connection.sendCopyFail('the input was interrupted');
    }
  }

  handleCommandComplete(complete: Complete): void {
    this.#rows = countIn(complete);
  }

  handleReadyForQuery(): void {
    this.#outcome.resolve(this.#rows);
    this.callback();
  }

  handleError(error: Error): void {
    this.#ended.abort();
    this.#outcome.reject(this.#cause ?? error);
    this.callback(error);
  }
}
