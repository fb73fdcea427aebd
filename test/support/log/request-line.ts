import type { RequestEvent } from '#db/events/events.ts';
import { LineWriter } from '#db/log/line-writer.ts';
import { writeRequestLine } from '#db/log/request-line.ts';

const line = new LineWriter();

/** The line of a request event. @throws {RangeError} where the log can't hold a value. */
export function requestLine(event: RequestEvent): string {
  writeRequestLine(line, event);
  return line.bytes.toString('latin1', 0, line.length);
}
