import { LEAF_COLUMNS, type LeafRow } from '#db/log/chain.ts';
import { namesByCode } from '#db/events/codes.ts';
import {
  type ControlEvent,
  END_REASON_OF,
  EVENT_CODES,
  type EventType,
  parseEvent,
  type RequestEvent,
  USAGE_SOURCE_OF,
} from '#db/events/events.ts';
import { routeOf, triesOf } from '#db/log/decode.ts';
import { streamOf } from '#db/events/streams.ts';

/**
 * Whether a row of the log is an event of the vocabulary. Requests have typed columns, of which each
 * type has some and never others; control events go through their schemas. Pure.
 */

const TYPE_OF = namesByCode(EVENT_CODES);
/** The columns of a row, in the order of its leaf. */
export const NAMES: readonly string[] = LEAF_COLUMNS.replace(/\(extract.*?bigint/, 'at')
  .split(',')
  .map((name) => name.trim());
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
export const COMMON = 5;

/** What events of a type have in their columns, and what they may have. */
export type Shape = { needed: readonly string[]; allowed: readonly string[] };
const CALL = ['request', 'account', 'key', 'model'];
const ADMISSION = ['terms_position', 'admitted_minute'];
export const SHAPES: Readonly<Record<RequestEvent['type'], Shape>> = {
  'request.accepted': {
    needed: [...CALL, 'sse', 'body_bytes', 'hold_tokens'],
    allowed: [...ADMISSION, 'hold_cost_microusd', 'retry_count', 'body'],
  },
  'request.extended': { needed: [...CALL, 'hold_tokens'], allowed: [...ADMISSION, 'hold_cost_microusd'] },
  'request.settled': {
    needed: [
      ...CALL,
      'end_reason',
      'usage_source',
      'status',
      'input_tokens',
      'cached_tokens',
      'output_tokens',
      'reasoning_tokens',
      'attempts',
      'duration_ms',
    ],
    allowed: [...ADMISSION, 'upstream', 'cost_microusd', 'price_version', 'first_byte_ms', 'body'],
  },
  'request.abandoned': {
    needed: [...CALL, 'end_reason', 'usage_source', 'hold_tokens'],
    allowed: [...ADMISSION, 'hold_cost_microusd'],
  },
  'request.rejected': {
    needed: ['request', 'account', 'key', 'refusal', 'status', 'refused_count'],
    allowed: [],
  },
};
/**
 * The same without what has to be parsed to be told for good: whoever goes by patterns leaves such a row to
 * {@link checkEvent}.
 */
export const PLAIN_SHAPES: readonly [number, Shape][] = Object.entries(SHAPES).map(
  ([type, { needed, allowed }]) => [
    EVENT_CODES[type as EventType],
    { needed, allowed: allowed.filter((name) => name !== 'body') },
  ],
);
const CONTROL: Shape = { needed: ['stream', 'version', 'body'], allowed: ['account', 'key', 'model'] };
const SHAPE_OF: ReadonlyMap<number, Shape> = new Map(
  Object.entries(SHAPES).map(([type, shape]) => [EVENT_CODES[type as EventType], shape]),
);

/** The columns whose values are codes. */
export const CODES: ReadonlyMap<string, ReadonlyMap<number, string>> = new Map<
  string,
  ReadonlyMap<number, string>
>([
  ['end_reason', END_REASON_OF],
  ['usage_source', USAGE_SOURCE_OF],
]);

/**
 * What a row came to: an event of the vocabulary (the event itself for control events, null for requests), or
 * why it is none.
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
    return (type === 'request.accepted' ? routeOf(body) : triesOf(body)).length > 0;
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
