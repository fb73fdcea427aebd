import type { ClientBase } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import { callAppend } from '#db/log/append.ts';
import { LineWriter } from '#db/log/line-writer.ts';
import { writeRequestLine } from '#db/log/request-line.ts';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';

const line = new LineWriter();
const APPEND = 'select daybook.append_corrections($1, $2, $3, $4)';

/**
 * Appends corrections of ended requests and changes the windows that their requests were charged to, in one
 * transaction. Repeating a call with the same instance and batch number is safe: it returns the first result.
 * @param seen the head of the log up to which the corrections of these requests were known.
 * @param events at most one of each request.
 * @returns the position of the last event.
 * @throws {ConflictError} when a request was corrected since, or with the same reference before; nothing is
 *   written.
 * @throws {FencedError} when the instance is no longer live.
 */
export async function appendCorrections(
  client: ClientBase,
  instance: number,
  batchNo: number,
  seen: number,
  events: readonly EventOf<'usage.adjusted'>[],
): Promise<number> {
  const lines = events.map((event) => {
    writeRequestLine(line, event);
    return line.bytes.toString('latin1', 0, line.length);
  });
  const values = [instance, batchNo, seen, lines];
  return retryTransaction(() => callAppend(client, 'append_corrections', APPEND, values));
}
