import type { LeafRow } from '#db/log/chain.ts';
import { namesByCode } from '#db/events/codes.ts';
import {
  type ControlEvent,
  EVENT_CODES,
  type EventType,
  parseEvent,
  REQUEST_TYPES,
  type RequestEvent,
} from '#db/events/events.ts';
import { parseAttempts, parseRoute } from '#db/log/bodies.ts';
import { COLUMN_NAMES, COLUMNS, columnsOf, COMMON_COLUMNS, CONTROL_COLUMNS } from '#db/log/columns.ts';
import { streamOf } from '#db/events/streams.ts';

/**
 * Whether a row of the log is an event of the vocabulary. Requests have typed columns, of which each
 * type has some and never others; control events go through their schemas. Pure.
 */

const TYPE_OF = namesByCode(EVENT_CODES);
/** The columns of a row, in the order of its leaf. */
export const NAMES: readonly string[] = COLUMN_NAMES;
const columnAt = (name: string): number => NAMES.indexOf(name);
/** Where the columns that every verification looks at stand. */
export const AT = {
  shard: 0,
  position: 1,
  at: 2,
  type: 3,
  instance: 4,
  account: columnAt('account'),
  key: columnAt('key'),
  stream: columnAt('stream'),
  version: columnAt('version'),
  body: columnAt('body'),
} as const;
/** The columns that every row has, which are looked at one by one. */
export const COMMON = COMMON_COLUMNS;

/** The columns that events of a type have, and those that they can have. */
export type Shape = { needed: readonly string[]; allowed: readonly string[] };
const namesOf = (columns: readonly { name: string }[]): string[] => columns.map(({ name }) => name);
const SHAPES: readonly (readonly [RequestEvent['type'], Shape])[] = REQUEST_TYPES.map((type) => {
  const { needed, optional } = columnsOf(type);
  return [type, { needed: namesOf(needed), allowed: namesOf(optional) }];
});
/** The same without the body, which needs parsing: rows with a body are checked by {@link checkEvent}. */
export const PLAIN_SHAPES: readonly [number, Shape][] = SHAPES.map(([type, { needed, allowed }]) => [
  EVENT_CODES[type],
  { needed, allowed: allowed.filter((name) => name !== 'body') },
]);
const CONTROL: Shape = {
  needed: namesOf(CONTROL_COLUMNS.filter(({ control }) => control === 'needed')),
  allowed: namesOf(CONTROL_COLUMNS.filter(({ control }) => control === 'optional')),
};
const SHAPE_OF: ReadonlyMap<number, Shape> = new Map(
  SHAPES.map(([type, shape]) => [EVENT_CODES[type], shape]),
);

/** The columns whose values are codes. */
export const CODES: ReadonlyMap<string, ReadonlyMap<number, string>> = new Map(
  COLUMNS.flatMap((column) => ('codes' in column ? [[column.name, namesByCode<string>(column.codes)]] : [])),
);

/**
 * What a row came to: an event of the vocabulary (the event itself for control events, null for requests), or
 * why it is invalid.
 */
export type Checked = { problem: string } | { problem: null; control: ControlEvent | null };

export function checkEvent(fields: LeafRow): Checked {
  if (fields.length !== NAMES.length) return { problem: 'is no row of the log' };
  const code = Number(fields[AT.type]);
  const shape = SHAPE_OF.get(code);
  const type = TYPE_OF.get(code);
  if (type === undefined) return { problem: `has the type ${fields[AT.type] ?? 'null'}, which is not known` };
  const misplaced = misplacedIn(fields, shape ?? CONTROL);
  if (misplaced !== null) return { problem: misplaced };
  if (shape === undefined) return checkControl(type, fields);
  return fields[AT.body] === null || isBodyOf(type, fields[AT.body] as string)
    ? { problem: null, control: null }
    : { problem: `is no event of the type ${type}` };
}

function isBodyOf(type: EventType, body: string): boolean {
  try {
    return (type === 'request.accepted' ? parseRoute(body) : parseAttempts(body)).length > 0;
  } catch {
    return false;
  }
}

function misplacedIn(fields: LeafRow, { needed, allowed }: Shape): string | null {
  for (let column = COMMON; column < fields.length; column++) {
    const name = NAMES[column] as string;
    const value = fields[column];
    if (value == null) {
      if (needed.includes(name)) return `has no ${name}, which every event of its type has`;
    } else if (!needed.includes(name) && !allowed.includes(name))
      return `has a ${name}, which no event of its type has`;
    else if (CODES.get(name)?.has(Number(value)) === false) return `has a code in ${name} which is not known`;
  }
  return null;
}

function checkControl(type: EventType, fields: LeafRow): Checked {
  try {
    const event = JSON.parse(fields[AT.body] as string) as Record<string, unknown>;
    event['type'] = type;
    if (fields[AT.account] !== null) event['account'] = fields[AT.account];
    if (fields[AT.key] !== null) event['key'] = fields[AT.key];
    const control = parseEvent(event);
    if (!('actor' in control) || streamOf(control) !== fields[AT.stream])
      return { problem: 'is in a stream that is not its own' };
    return { problem: null, control };
  } catch {
    return { problem: `is no event of the type ${type}` };
  }
}
