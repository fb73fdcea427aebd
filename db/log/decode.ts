import { namesByCode } from '#db/events/codes.ts';
import { EVENT_CODES, type Event, parseEvent } from '#db/events/events.ts';
import { AT } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';
import { requestEvent } from '#db/log/request-line.ts';

/** From the fields of a line to its event. Pure. */

const TYPE_OF = namesByCode(EVENT_CODES);

/**
 * The event of a line. The fields of request events are our own numbers and names; bodies are text and are
 * parsed with care.
 * @throws {Error} where it is not of the vocabulary.
 */
export function decode(cells: Cells): Event {
  return requestEvent(cells) ?? decodeControl(cells);
}

function decodeControl(cells: Cells): Event {
  const event = JSON.parse(cells[AT.body] ?? '{}') as Record<string, unknown>;
  event['type'] = TYPE_OF.get(Number(cells[AT.type]));
  if (cells[AT.account] != null) event['account'] = cells[AT.account];
  if (cells[AT.key] != null) event['key'] = cells[AT.key];
  return parseEvent(event);
}
