import { AT } from '#db/audit/lines.ts';
import { LEAF_COLUMNS, type LeafRow } from '#db/chain.ts';
import { namesByCode } from '#db/codes.ts';
import { END_REASON_OF, type Event, EVENT_CODES, type EventType, parseEvent, type RequestEvent, USAGE_SOURCE_OF } from '#db/events.ts';
import { streamOf } from '#db/streams.ts';

/**
 * Whether a row of the log is an event of the vocabulary. Requests have typed columns, of which each
 * type has some and never others; control events go through their schemas. Pure.
 */

const TYPE_OF = namesByCode(EVENT_CODES);
const NAMES = LEAF_COLUMNS.split(/,(?![^(]*\))/).map((name) => name.trim());
const columnAt = (name: string): number => NAMES.indexOf(name);

type Shape = { needed: readonly string[]; allowed: readonly string[] };
const CALL = ['request', 'account', 'key', 'model'];
const ADMISSION = ['terms_position', 'admitted_minute'];
const SHAPES: Record<RequestEvent['type'], Shape> = {
  'request.accepted': { needed: [...CALL, 'sse', 'body_bytes', 'hold_tokens'], allowed: [...ADMISSION, 'hold_cost_microusd', 'retry_count'] },
  'request.extended': { needed: [...CALL, 'hold_tokens'], allowed: [...ADMISSION, 'hold_cost_microusd'] },
  'request.settled': {
    needed: [...CALL, 'end_reason', 'usage_source', 'status', 'input_tokens', 'cached_tokens', 'output_tokens', 'reasoning_tokens', 'attempts', 'duration_ms'],
    allowed: [...ADMISSION, 'upstream', 'cost_microusd', 'price_version', 'first_byte_ms'],
  },
  'request.abandoned': { needed: [...CALL, 'end_reason', 'usage_source', 'hold_tokens'], allowed: [...ADMISSION, 'hold_cost_microusd'] },
  'request.refused': { needed: ['request', 'account', 'key', 'refusal', 'status', 'refused_count'], allowed: [] },
};
const CONTROL: Shape = { needed: ['stream', 'version', 'body'], allowed: ['account', 'key', 'model'] };

/** What a row has to have and may have, as marks by column: needed, allowed, or neither. */
const NEEDED = 1;
const ALLOWED = 2;
/** The columns of every row, which are looked at one by one elsewhere. */
const COMMON = 5;
function marksOf({ needed, allowed }: Shape): Uint8Array {
  const marks = new Uint8Array(NAMES.length);
  for (const name of needed) marks[columnAt(name)] = NEEDED;
  for (const name of allowed) marks[columnAt(name)] = ALLOWED;
  return marks;
}
const REQUEST_MARKS: ReadonlyMap<number, Uint8Array> = new Map(Object.entries(SHAPES).map(([type, shape]) => [EVENT_CODES[type as EventType], marksOf(shape)]));
const CONTROL_MARKS = marksOf(CONTROL);

/** The columns whose values are codes. */
const END_REASON = columnAt('end_reason');
const USAGE_SOURCE = columnAt('usage_source');

/** What a row came to: an event of the vocabulary (the event itself for control events, null for requests), or why it is none. */
export type Checked = { problem: string } | { problem: null; control: Event | null };

const REQUEST_IS_GOOD: Checked = { problem: null, control: null };

export function checkEvent(fields: LeafRow): Checked {
  if (fields.length !== NAMES.length) return { problem: 'is no row of the log' };
  const code = Number(fields[AT.type]);
  const requestMarks = REQUEST_MARKS.get(code);
  const misplaced = misplacedIn(fields, requestMarks ?? CONTROL_MARKS);
  if (requestMarks === undefined) {
    const type = TYPE_OF.get(code);
    if (type === undefined) return { problem: `has the type ${fields[AT.type] ?? 'null'}, which is not known` };
    return misplaced === null ? checkControl(type, fields) : { problem: misplaced };
  }
  if (misplaced !== null) return { problem: misplaced };
  for (const [column, names] of [[END_REASON, END_REASON_OF], [USAGE_SOURCE, USAGE_SOURCE_OF]] as const) {
    const value = fields[column];
    if (value != null && !names.has(Number(value))) return { problem: `has a code in ${NAMES[column]} which is not known` };
  }
  return REQUEST_IS_GOOD;
}

function misplacedIn(fields: LeafRow, marks: Uint8Array): string | null {
  for (let column = COMMON; column < marks.length; column++) {
    const mark = marks[column];
    if (fields[column] === null) {
      if (mark === NEEDED) return `has no ${NAMES[column]}, which every event of its type has`;
    } else if (mark === 0) return `has a ${NAMES[column]}, which no event of its type has`;
  }
  return null;
}

const ACCOUNT = columnAt('account');
const KEY = columnAt('key');

function checkControl(type: EventType, fields: LeafRow): Checked {
  try {
    const event = JSON.parse(fields[AT.body] as string) as Record<string, unknown>;
    event['type'] = type;
    if (fields[ACCOUNT] != null) event['account'] = fields[ACCOUNT];
    if (fields[KEY] != null) event['key'] = fields[KEY];
    const control = parseEvent(event);
    if (!('actor' in control) || streamOf(control) !== fields[AT.stream]) return { problem: 'is in a stream that is not its own' };
    return { problem: null, control };
  } catch {
    return { problem: `is no event of the type ${type}` };
  }
}
