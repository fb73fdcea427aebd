import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import type { ClientBase, Connection, Submittable } from 'pg';

/**
 * COPY over the wire, which `pg` leaves to others: a table's rows as text, out of Postgres and into it.
 * Neither side runs ahead of the other, so that a table of any size takes the same little memory.
 */

/** Rows are handed on in pieces of this size: a message for each row would cost more than the row. */
const PIECE_BYTES = 64 * 1024;
/** Pieces that wait for whoever takes them. Then Postgres waits, too. */
const WAITING_PIECES_MAX = 4;

/** What `pg` has for COPY and its types don't tell. */
type CopyConnection = Connection & {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
};

type Complete = { text: string };
const countIn = ({ text }: Complete): number => Number(text.split(' ')[1]);

/** The text of a `copy … to stdout`. */
export class CopyOut extends Readable implements Submittable {
  /** How many rows it was; known at the end. */
  rows = 0;
  /** Set by pg to end its own time-out, and so called exactly once. */
  callback: (error?: Error) => void = () => {};
  readonly #sql: string;
  #connection: Connection | null = null;
  #piece = Buffer.allocUnsafe(PIECE_BYTES);
  #filled = 0;

  constructor(sql: string) {
    super({ highWaterMark: WAITING_PIECES_MAX * PIECE_BYTES });
    this.#sql = sql;
  }

  submit(connection: Connection): void {
    this.#connection = connection;
    connection.query(this.#sql);
  }

  /** Called for each row. The bytes are copied, since pg writes over them with what comes next. */
  handleCopyData({ chunk }: { chunk: Buffer }): void {
    for (let from = 0; from < chunk.length;) {
      const copied = chunk.copy(this.#piece, this.#filled, from);
      from += copied;
      this.#filled += copied;
      if (this.#filled === PIECE_BYTES) this.#handOn();
    }
  }

  handleCommandComplete(complete: Complete): void {
    this.rows = countIn(complete);
  }

  handleReadyForQuery(): void {
    this.#connection = null;
    this.#handOn();
    this.push(null);
    this.callback();
  }

  handleError(error: Error): void {
    this.#connection = null;
    this.destroy(error);
    this.callback(error);
  }

  override _read(): void {
    this.#connection?.stream.resume();
  }

  /** Who stops before the end can't have the rest of the connection either: it is full of rows. */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection?.stream.destroy();
    done(error);
  }

  #handOn(): void {
    if (this.#filled === 0) return;
    const piece = this.#piece.subarray(0, this.#filled);
    this.#piece = Buffer.allocUnsafe(PIECE_BYTES);
    this.#filled = 0;
    if (!this.push(piece)) this.#connection?.stream.pause();
  }
}

/** Begins a `copy … to stdout`. Nothing else can be asked over the connection until it has ended. */
export function copyOut(client: ClientBase, sql: string): CopyOut {
  return client.query(new CopyOut(sql));
}

/**
 * What a `copy … to stdout` gives, as a digest: two tables of the same rows in the same order have the same.
 */
export async function digestOf(client: ClientBase, sql: string): Promise<string> {
  const digest = createHash('sha256');
  for await (const piece of copyOut(client, sql)) digest.update(piece as Buffer);
  return digest.digest('hex');
}

/**
 * A `copy … from stdin` of this text.
 * @returns how many rows it was.
 * @throws {Error} of Postgres, or of where the text comes from; no row of it is there then.
 */
export function copyIn(client: ClientBase, sql: string, text: AsyncIterable<Buffer>): Promise<number> {
  return client.query(new CopyIn(sql, text)).result;
}

class CopyIn implements Submittable {
  callback: (error?: Error) => void = () => {};
  readonly #sql: string;
  readonly #text: AsyncIterable<Buffer>;
  readonly #ended = new AbortController();
  readonly #outcome = Promise.withResolvers<number>();
  #rows = 0;
  /** Why there is no more text, where it is not over. */
  #cause: Error | null = null;

  constructor(sql: string, text: AsyncIterable<Buffer>) {
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
      for await (const piece of this.#text) {
        if (signal.aborted) return;
        connection.sendCopyFromChunk(piece);
        if (connection.stream.writableNeedDrain) await once(connection.stream, 'drain', { signal });
      }
      connection.endCopyFrom();
    } catch (error) {
      if (signal.aborted) return;
      this.#cause = error as Error;
      connection.sendCopyFail('the text has broken off');
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
