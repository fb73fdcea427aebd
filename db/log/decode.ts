import { namesByCode } from '#db/events/codes.ts';
import { EVENT_CODES, type Event, parseEvent } from '#db/events/events.ts';
import { AT, type Row } from '#db/log/columns.ts';
import { decodeRequest } from '#db/log/request-rows.ts';

/** From a row of the log to its event. Pure. */

const TYPE_OF = namesByCode(EVENT_CODES);

/**
 * The event of a row. Request rows come from typed columns that we wrote; bodies are text and are parsed with
 * care.
 * @throws {Error} where it is not of the vocabulary.
 */
export function decode(row: Row): Event {
  return decodeRequest(row) ?? decodeControl(row);
}

function decodeControl(row: Row): Event {
  const event = JSON.parse(row[AT.body] ?? '{}') as Record<string, unknown>;
  event['type'] = TYPE_OF.get(row[AT.type]);
  if (row[AT.account] !== null) event['account'] = row[AT.account];
  if (row[AT.key] !== null) event['key'] = row[AT.key];
  return parseEvent(event);
}
