import type { ClientBase, Connection, Submittable } from 'pg';
import { CopyRows } from '#db/audit/source/copy-rows.ts';
import type { EventRow } from '#db/audit/source/event-row.ts';
import { Arena } from '#db/audit/source/arena.ts';

/**
 * A page of rows read by COPY, which costs Postgres half as much as rows of text. Each row is parsed when it
 * is received. The page must fit in memory.
 */
export class CopyPage implements Submittable {
  /** Set by pg to clear its own timeout; called exactly once. */
  callback: (error?: Error) => void = () => {};
  readonly #sql: string;
  readonly #outcome = Promise.withResolvers<EventRow[] | null>();
  readonly #rows = new CopyRows();
  readonly #arena = new Arena();

  /** @param sql as {@link CopyRows} takes it. */
  constructor(sql: string) {
    this.#sql = sql;
  }

  /** The rows; null if COPY's output is ambiguous for one of them. */
  get result(): Promise<EventRow[] | null> {
    return this.#outcome.promise;
  }

  submit(connection: Connection): void {
    connection.query(this.#sql);
  }

  /** Called for each row. The bytes are copied, since pg reuses its buffer. */
  handleCopyData({ chunk }: { chunk: Buffer }): void {
    const arena = this.#arena;
    arena.reserve(chunk.length);
    const start = arena.filled;
    arena.filled += chunk.copy(arena.bytes, start);
    this.#rows.addRow(arena.bytes, start, arena.filled);
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

/** Reads a page. @throws {DatabaseError} */
export async function readCopyPage(client: ClientBase, sql: string): Promise<EventRow[] | null> {
  const page = new CopyPage(sql);
  client.query(page);
  return page.result;
}

/**
 * The same connection for concurrent callers: each query is sent once the one before it was answered, as pg
 * requires.
 */
export function serialized(client: ClientBase): ClientBase {
  let last: Promise<unknown> = Promise.resolve();
  const query = (...question: unknown[]): Promise<unknown> => {
    const answer = last.then(() => {
      const asked = (client.query as (...asked: unknown[]) => unknown).apply(client, question);
      return asked instanceof CopyPage ? asked.result.then(() => asked) : asked;
    });
    last = answer.catch(() => undefined);
    return answer;
  };
  return { query } as unknown as ClientBase;
}
