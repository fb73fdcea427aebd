import { namesByCode } from '#db/events/codes.ts';
import { EVENT_CODES, type Event, parseEvent } from '#db/events/events.ts';
import { AT } from '#db/log/columns.ts';
import type { LineReader } from '#db/log/line-reader.ts';
import { requestEvent } from '#db/log/request-line.ts';

/** From the fields of a line to its event. Pure. */

const TYPE_OF = namesByCode(EVENT_CODES);

/**
 * The event of a line that was read. The fields of request events are our own numbers and names; bodies are
 * text and are parsed with care.
 * @throws {Error} where it is not of the vocabulary.
 */
export function decode(line: LineReader): Event {
  return requestEvent(line) ?? decodeControl(line);
}

function decodeControl(line: LineReader): Event {
  const event = JSON.parse(line.cell(AT.body) ?? '{}') as Record<string, unknown>;
  event['type'] = TYPE_OF.get(line.integer(AT.type));
  if (line.has(AT.account)) event['account'] = line.name(AT.account);
  if (line.has(AT.key)) event['key'] = line.name(AT.key);
  return parseEvent(event);
}
