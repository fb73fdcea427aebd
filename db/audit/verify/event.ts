import { namesByCode } from '#db/events/codes.ts';
import {
  type ControlEvent,
  EVENT_CODES,
  type EventType,
  parseEvent,
  REQUEST_TYPES,
  type RequestEvent,
} from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import { parseCorrection, parseExchange, parseReservation, parseSettlement } from '#db/log/bodies.ts';
import {
  AT,
  type ColumnName,
  COLUMNS,
  columnsOf,
  CONTROL_COLUMNS,
  FIELDS,
  type SqlType,
} from '#db/log/columns.ts';
import { type Cells, cellsOf, textCell } from '#db/log/line.ts';

/**
 * Whether a line of the log is an event of the vocabulary, in the only text that PostgreSQL writes for its
 * values. Each type of request has some fields and never others; control events go through their schemas.
 * Pure.
 */

const TYPE_OF = namesByCode(EVENT_CODES);

/** The fields that events of a type have, and those that they can have. */
type Shape = { needed: ReadonlySet<ColumnName>; allowed: ReadonlySet<ColumnName> };
const namesOf = (columns: readonly { name: ColumnName }[]): ReadonlySet<ColumnName> =>
  new Set(columns.map(({ name }) => name));
const shapeOf = (type: RequestEvent['type']): Shape => {
  const { needed, optional } = columnsOf(type);
  return { needed: namesOf(needed), allowed: namesOf(optional) };
};
const SHAPE_OF = new Map<EventType, Shape>(REQUEST_TYPES.map((type) => [type, shapeOf(type)]));
const CONTROL: Shape = {
  needed: namesOf(CONTROL_COLUMNS.filter(({ control }) => control === 'needed')),
  allowed: namesOf(CONTROL_COLUMNS.filter(({ control }) => control === 'optional')),
};

/** The fields whose values are codes. */
const CODES: ReadonlyMap<string, ReadonlyMap<number, string>> = new Map(
  COLUMNS.flatMap((column) => ('codes' in column ? [[column.name, namesByCode<string>(column.codes)]] : [])),
);

/** Texts of values that need no further check: short numbers, and names without quotes. */
const PATTERNS: Readonly<Record<SqlType, string>> = {
  int2: '(?:0|[1-9]\\d{0,3})',
  int4: '(?:0|[1-9]\\d{0,8})',
  int8: '(?:0|[1-9]\\d{0,17})',
  timestamptz: '\\d+',
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}',
  text: "[!#-'*+\\--\\[\\]-~]+",
  bool: '[tf]',
};
const patternOf = (name: ColumnName, type: SqlType): string => {
  const codes = CODES.get(name);
  return codes ? `(?:${[...codes.keys()].join('|')})` : PATTERNS[type];
};
const requestPattern = (type: RequestEvent['type']): string => {
  const { needed, allowed } = shapeOf(type);
  const fields = FIELDS.map(({ name, type: value }) => {
    if (name === 'type') return String(EVENT_CODES[type]);
    if (needed.has(name)) return patternOf(name, value);
    return allowed.has(name) && name !== 'body' ? `(?:${patternOf(name, value)})?` : '';
  });
  return fields.join(',');
};
/**
 * Nearly all lines, by the code of their type: splitting them into fields would cost more than all the rest
 * of a verification.
 */
const PLAIN_REQUESTS: readonly RegExp[] = REQUEST_TYPES.reduce<RegExp[]>((found, type) => {
  found[EVENT_CODES[type]] = new RegExp(`\\(${requestPattern(type)}\\)(?=\\n|$)`, 'y');
  return found;
}, []);
/** Codes of requests have three digits, but for corrections, which are few. */
const CODE_DIGITS = 3;
const ZERO = 0x30;

/**
 * The end of the line at an offset of a batch's text if it is a valid request; -1 where that takes
 * {@link checkEvent}.
 */
export function endOfRequest(events: string, from: number): number {
  let code = 0;
  for (let at = from + 1; at <= from + CODE_DIGITS; at++) code = code * 10 + events.charCodeAt(at) - ZERO;
  const pattern = PLAIN_REQUESTS[code];
  if (pattern === undefined) return -1;
  pattern.lastIndex = from;
  return pattern.test(events) ? pattern.lastIndex : -1;
}

/**
 * What a line came to: an event of the vocabulary (the event itself for control events, null for requests),
 * or why it is invalid. `cells` is null where it has no fields at all.
 */
export type Checked =
  | { problem: string; cells: Cells | null }
  | { problem: null; cells: Cells; control: ControlEvent | null };

/** Checks a line. */
export function checkEvent(line: string): Checked {
  const cells = fieldsOf(line);
  if (cells === null) return { problem: 'is no line of an event', cells };
  const code = cells[AT.type];
  const type = TYPE_OF.get(Number(code));
  if (type === undefined) return { problem: `has the type ${code ?? 'null'}, which is not known`, cells };
  const shape = SHAPE_OF.get(type);
  const problem = misplacedIn(cells, shape ?? CONTROL);
  if (problem !== null) return { problem, cells };
  if (shape === undefined) return checkControl(type, cells);
  const body = cells[AT.body] ?? null;
  return body === null || isBody(type, body)
    ? { problem: null, cells, control: null }
    : { problem: `is no event of the type ${type}`, cells };
}

/** The fields of a line; null if it is not the text that PostgreSQL writes for them. */
function fieldsOf(line: string): Cells | null {
  try {
    const cells = cellsOf(line);
    const written = cells.map((cell) => (cell === null ? '' : textCell(cell))).join(',');
    return cells.length === FIELDS.length && `(${written})` === line ? cells : null;
  } catch {
    return null;
  }
}

/** Only events of calls may have a body: of rejections it is no column. */
function isBody(type: EventType, body: string): boolean {
  try {
    if (type === 'usage.adjusted') parseCorrection(body);
    else if (type === 'request.settled') parseSettlement(body);
    else if (type === 'workload.exchanged') parseExchange(body);
    else parseReservation(body);
    return true;
  } catch {
    return false;
  }
}

const WHOLE = new Map(Object.entries(PATTERNS).map(([type, pattern]) => [type, new RegExp(`^${pattern}$`)]));
const INTEGER = /^-?[1-9]\d{0,18}$/;
const BITS: Readonly<Partial<Record<SqlType, number>>> = { int2: 16, int4: 32, int8: 64 };

function isValue(type: SqlType, value: string): boolean {
  if (type === 'text' || WHOLE.get(type)?.test(value) === true) return true;
  const bits = BITS[type];
  return bits !== undefined && INTEGER.test(value) && BigInt.asIntN(bits, BigInt(value)) === BigInt(value);
}

function misplacedIn(cells: Cells, { needed, allowed }: Shape): string | null {
  for (const [at, { name, type }] of FIELDS.entries()) {
    const value = cells[at] ?? null;
    if (value === null) {
      if (needed.has(name)) return `has no ${name}, which every event of its type has`;
    } else if (!isValue(type, value)) return `has a ${name} that is not of the type ${type}`;
    else if (at !== AT.type && !needed.has(name) && !allowed.has(name))
      return `has a ${name}, which no event of its type has`;
    else if (CODES.get(name)?.has(Number(value)) === false) return `has a code in ${name} which is not known`;
  }
  return null;
}

function checkControl(type: EventType, cells: Cells): Checked {
  try {
    const event = JSON.parse(cells[AT.body] as string) as Record<string, unknown>;
    event['type'] = type;
    if (cells[AT.account] !== null) event['account'] = cells[AT.account];
    if (cells[AT.key] !== null) event['key'] = cells[AT.key];
    const control = parseEvent(event);
    if (!('actor' in control) || streamOf(control) !== cells[AT.stream])
      return { problem: 'is in a stream that is not its own', cells };
    if (('model' in control ? control.model : null) !== cells[AT.model])
      return { problem: 'has another model than its body', cells };
    return { problem: null, cells, control };
  } catch {
    return { problem: `is no event of the type ${type}`, cells };
  }
}
