import { type ControlEvent, Event, EVENT_CODES } from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import { asciiJson } from '#db/log/bodies.ts';
import { ENTRY_BYTES_MAX, OTHER_COLUMNS_BYTES_MAX } from '#db/log/bounds.ts';
import { AT, FIELDS } from '#db/log/columns.ts';
import { textCell } from '#db/log/line.ts';

/** The event's text would be longer than an entry bundle can hold. */
export class EventTooLargeError extends Error {
  override name = 'EventTooLargeError';
}

/**
 * The line of a control event, checked against the vocabulary.
 * @param version within its stream.
 * @throws {EventTooLargeError} when its entry could have more than ENTRY_BYTES_MAX bytes.
 */
export function controlLine(event: ControlEvent, version: number): string {
  const cells = FIELDS.map(() => '');
  cells[AT.type] = String(EVENT_CODES[event.type]);
  if ('account' in event && event.account !== undefined) cells[AT.account] = textCell(event.account);
  if ('key' in event && event.key !== undefined) cells[AT.key] = textCell(event.key);
  // It is in the body, too: here so that an auditor finds a model's prices beside its requests.
  if ('model' in event) cells[AT.model] = textCell(event.model);
  cells[AT.stream] = textCell(streamOf(event));
  cells[AT.version] = String(version);
  const body = textCell(bodyOf(event));
  const max = ENTRY_BYTES_MAX - OTHER_COLUMNS_BYTES_MAX;
  if (body.length > max)
    throw new EventTooLargeError(
      `The event ${event.type} would have ${body.length} bytes. The log takes events of ${max} bytes: ` +
        'shorten its lists, for instance with patterns.',
    );
  cells[AT.body] = body;
  return `(${cells.join(',')})`;
}

/** What a control event has no column for, as the JSON that is stored and hashed: plain ASCII. */
function bodyOf(event: ControlEvent): string {
  const { type: _type, ...body }: Partial<Record<string, unknown>> = Event.parse(event);
  delete body['account'];
  delete body['key'];
  return asciiJson(body);
}
