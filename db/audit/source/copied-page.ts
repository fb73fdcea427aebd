import type { ClientBase, Connection, Submittable } from 'pg';
import { CopiedRows } from '#db/audit/source/copied-rows.ts';
import type { EventRow } from '#db/audit/source/lines.ts';
import { Chunks } from '#db/audit/source/chunks.ts';

/**
 * A page of rows by COPY, which costs Postgres half of what rows of text do. Each is looked at when it
 * comes, so that Postgres can go on; the page has to be small enough to be held.
 */
export class CopiedPage implements Submittable {
  /** Set by pg to end its own time-out, and so called exactly once. */
  callback: (error?: Error) => void = () => {};
  readonly #sql: string;
  readonly #outcome = Promise.withResolvers<EventRow[] | null>();
  readonly #rows = new CopiedRows();
  readonly #pieces = new Chunks();

  /** @param sql as {@link CopiedRows} takes it. */
  constructor(sql: string) {
    this.#sql = sql;
  }

  /** The rows; null where COPY leaves open what one of them is. */
  get result(): Promise<EventRow[] | null> {
    return this.#outcome.promise;
  }

  submit(connection: Connection): void {
    connection.query(this.#sql);
  }

  /** Called for each row. The bytes are copied, since pg writes over them with what comes next. */
  handleCopyData({ chunk }: { chunk: Buffer }): void {
    const pieces = this.#pieces;
    pieces.reserve(chunk.length);
    const start = pieces.filled;
    pieces.filled += chunk.copy(pieces.bytes, start);
    this.#rows.take(pieces.bytes, start, pieces.filled);
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.#outcome.resolve(this.#rows.isAmbiguous ? null : this.#rows.rows);
    this.callback();
  }

  handleError(error: Error): void {
    this.#outcome.reject(error);
    this.callback(error);
  }
}

/** Asks for a page. @throws {DatabaseError} of Postgres. */
export async function copiedRows(client: ClientBase, sql: string): Promise<EventRow[] | null> {
  const page = new CopiedPage(sql);
  client.query(page);
  return page.result;
}
