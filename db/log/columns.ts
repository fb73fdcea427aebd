import { END_REASONS, USAGE_SOURCES } from '#db/events/endings.ts';
import type { EventOf, RequestEvent } from '#db/events/events.ts';
import { ROUTE_CODES } from '#db/limits/limits.ts';
import type { Functions } from '#db/schema/tables.ts';

/**
 * The columns of an event, in the order in which a leaf hash covers them: its place in the log, then the
 * fields of its line. Everything that spells columns in TypeScript is made from this list; the type and the
 * function that are SQL are compared with it by a test (`test/db/log/columns.test.ts`). Pure.
 */

type RequestType = RequestEvent['type'];
type EventColumns = Functions['daybook.events'];
export type SqlType = 'bool' | 'int2' | 'int4' | 'int8' | 'text' | 'timestamptz' | 'uuid';

type Column = {
  /** In SQL, and of the field in events that carry it. */
  name: keyof EventColumns;
  type: SqlType;
  /** The request events that always carry it, and those that may. */
  needed?: readonly RequestType[];
  optional?: readonly RequestType[];
  /** Whether control events always have it, or may. */
  control?: 'needed' | 'optional';
  /** Where a code stands for the field's value. */
  codes?: Readonly<Record<string, number>>;
  /** Whether it holds several words, one space apart. */
  isList?: true;
};

const ACCEPTED = 'request.accepted';
const EXTENDED = 'request.extended';
const SETTLED = 'request.settled';
const ABANDONED = 'request.abandoned';
const REJECTED = 'request.rejected';
const ADJUSTED = 'usage.adjusted';
const COUNTED = 'tokens.counted';
const EXCHANGED = 'workload.exchanged';
const CALL = [ACCEPTED, EXTENDED, SETTLED, ABANDONED, ADJUSTED] as const;
const ALL = [...CALL, REJECTED, COUNTED] as const;
const OF_KEY = [...ALL, EXCHANGED] as const;
const HOLD = [ACCEPTED, EXTENDED, ABANDONED] as const;
const LATER = [EXTENDED, SETTLED, ABANDONED, ADJUSTED] as const;
const END = [SETTLED, ABANDONED] as const;
/** The size of a request, which its reservation follows from. */
const SIZED = [ACCEPTED, REJECTED] as const;
/** Figures of a settlement, and what a correction adds to them. */
const FIGURES = [SETTLED, ADJUSTED] as const;

export const COLUMNS = [
  { name: 'shard', type: 'int2' },
  { name: 'position', type: 'int8' },
  { name: 'at', type: 'timestamptz' },
  { name: 'instance', type: 'int4' },
  { name: 'type', type: 'int2' },
  { name: 'request', type: 'uuid', needed: OF_KEY },
  { name: 'account', type: 'text', needed: OF_KEY, control: 'optional' },
  { name: 'key', type: 'text', needed: OF_KEY, control: 'optional' },
  { name: 'model', type: 'text', needed: [...CALL, COUNTED], optional: [REJECTED], control: 'optional' },
  { name: 'route', type: 'int2', needed: [...SIZED, COUNTED], optional: LATER, codes: ROUTE_CODES },
  { name: 'end_user', type: 'text', optional: ALL },
  { name: 'session', type: 'text', optional: ALL },
  { name: 'tags', type: 'text', optional: ALL, isList: true },
  { name: 'parents', type: 'text', optional: CALL, isList: true },
  { name: 'upstream', type: 'text', optional: [...FIGURES, COUNTED] },
  { name: 'sse', type: 'bool', needed: [ACCEPTED] },
  { name: 'body_bytes', type: 'int4', needed: [ACCEPTED, COUNTED], optional: [REJECTED] },
  { name: 'hold_tokens', type: 'int8', needed: HOLD, optional: [ADJUSTED, REJECTED] },
  { name: 'retry_count', type: 'int2', optional: [ACCEPTED] },
  { name: 'status', type: 'int2', needed: [SETTLED, REJECTED], optional: [ADJUSTED] },
  { name: 'end_reason', type: 'int2', needed: [...END, ADJUSTED], codes: END_REASONS },
  { name: 'usage_source', type: 'int2', needed: [...END, COUNTED], codes: USAGE_SOURCES },
  { name: 'input_tokens', type: 'int4', needed: [SETTLED, COUNTED], optional: [ADJUSTED] },
  { name: 'cache_read_tokens', type: 'int4', needed: [SETTLED], optional: [ADJUSTED] },
  { name: 'cache_write_tokens', type: 'int4', optional: FIGURES },
  { name: 'output_tokens', type: 'int4', needed: [SETTLED], optional: [ADJUSTED] },
  { name: 'reasoning_tokens', type: 'int4', needed: [SETTLED], optional: [ADJUSTED] },
  { name: 'attempt_count', type: 'int2', needed: [SETTLED] },
  { name: 'first_byte_ms', type: 'int4', optional: [SETTLED] },
  { name: 'duration_ms', type: 'int4', needed: [SETTLED, COUNTED] },
  { name: 'stream', type: 'text', control: 'needed' },
  { name: 'version', type: 'int4', control: 'needed' },
  {
    name: 'body',
    type: 'text',
    control: 'needed',
    needed: [ADJUSTED, EXCHANGED],
    optional: [...HOLD, SETTLED],
  },
  { name: 'terms_position', type: 'int8', optional: CALL },
  { name: 'hold_cost_nanousd', type: 'int8', optional: HOLD },
  { name: 'cost_nanousd', type: 'int8', optional: FIGURES },
  { name: 'upstream_cost_nanousd', type: 'int8', optional: FIGURES },
  { name: 'stated_cost_nanousd', type: 'int8', optional: [SETTLED] },
  { name: 'admitted_minute', type: 'int4', optional: [...CALL, REJECTED] },
  { name: 'price_version', type: 'int4', optional: [SETTLED] },
  { name: 'rejected_count', type: 'int4', needed: [REJECTED] },
  { name: 'error_code', type: 'text', needed: [REJECTED] },
  { name: 'credential', type: 'text', optional: [SETTLED] },
  { name: 'answered_model', type: 'text', optional: [SETTLED] },
  { name: 'finish_reason', type: 'text', optional: [SETTLED] },
  { name: 'service_tier', type: 'text', optional: [SETTLED] },
  { name: 'provider_request', type: 'text', optional: [SETTLED] },
  { name: 'prompt_estimate', type: 'int4', optional: SIZED },
  { name: 'max_output_tokens', type: 'int4', optional: SIZED },
] as const satisfies readonly Column[];

type Columns = (typeof COLUMNS)[number];
export type ColumnName = Columns['name'];
/** The compiler names here a column in SQL that the list does not have. */
export const COLUMNS_ARE_COMPLETE: [Exclude<keyof EventColumns, ColumnName>] extends [never]
  ? true
  : Exclude<keyof EventColumns, ColumnName> = true;

/** The fields of request events that have no columns: they are rare, and in the JSON of `body`. */
export const BODY_FIELDS = {
  'request.accepted': ['observed', 'batch'],
  'request.extended': ['observed', 'handed_over'],
  'request.settled': ['attempts', 'usage_details', 'price_plan', 'unpriced', 'observed'],
  'request.abandoned': ['observed'],
  'usage.adjusted': ['reference', 'reason', 'adjusted_by', 'observed'],
  'workload.exchanged': ['workload', 'exchange', 'expires_at', 'issuer', 'claims'],
} as const satisfies Partial<{ [T in RequestType]: readonly (keyof EventOf<T>)[] }>;

/** Fields by name, with the kind of value that their columns hold. */
type ValueOf<C> = C extends { isList: true }
  ? string[]
  : C extends { codes: infer Codes }
    ? keyof Codes
    : C extends { type: 'bool' }
      ? boolean
      : C extends { type: 'text' | 'uuid' }
        ? string
        : number;
type With<T, Where extends 'needed' | 'optional'> =
  Extract<Columns, Record<Where, readonly unknown[]>> extends infer C
    ? C extends { name: string } & Record<Where, readonly (infer Types)[]>
      ? T extends Types
        ? C
        : never
      : never
    : never;
type BodyField<T> = T extends keyof typeof BODY_FIELDS ? (typeof BODY_FIELDS)[T][number] : never;
type FieldsOf<T> = {
  [C in Exclude<With<T, 'needed'>, { name: 'body' }> as C['name']]: ValueOf<C>;
} & {
  [C in Exclude<With<T, 'optional'>, { name: 'body' }> as C['name']]?: ValueOf<C> | undefined;
};
type ColumnFieldsOf<T extends RequestType> = Omit<EventOf<T>, 'type' | BodyField<T>>;
type Difference<A, B> =
  | Exclude<keyof A, keyof B>
  | Exclude<keyof B, keyof A>
  | ([A, B] extends [B, A] ? never : 'a type');
type Mismatch = {
  [T in RequestType]: Difference<ColumnFieldsOf<T>, FieldsOf<T>>;
}[RequestType];
/** The compiler names here a field of a request event that has no column, or a column that is no field. */
export const COLUMNS_ARE_FIELDS: [Mismatch] extends [never] ? true : Mismatch = true;

/** The columns that some control events have. */
type ControlColumns = Extract<Columns, { control: unknown }>;
export const CONTROL_COLUMNS = COLUMNS.filter((column): column is ControlColumns => 'control' in column);

const columns: readonly Column[] = COLUMNS;

/** The columns that request events of a type have: those that they always have, and those that they may. */
export function columnsOf(type: RequestType): { needed: readonly Column[]; optional: readonly Column[] } {
  return {
    needed: columns.filter(({ needed }) => needed?.includes(type)),
    optional: columns.filter(({ optional }) => optional?.includes(type)),
  };
}

/** The columns of a line: all but the event's place in the log. */
type FieldColumns = typeof COLUMNS extends readonly [unknown, unknown, unknown, unknown, ...infer Rest]
  ? Rest
  : never;
const [, , , , ...FIELD_COLUMNS] = COLUMNS;
export const FIELDS: readonly { name: ColumnName; type: SqlType }[] = FIELD_COLUMNS;

type IndexIn<Tuple extends readonly unknown[]> = {
  [
    I in keyof Tuple as I extends `${number}`
      ? Tuple[I] extends { name: infer Name extends string }
        ? Name
        : never
      : never
  ]: I extends `${infer Index extends number}` ? Index : never;
};
/** Where each field stands in the cells of a line. */
export const AT = Object.fromEntries(FIELD_COLUMNS.map(({ name }, index) => [name, index])) as Readonly<
  IndexIn<FieldColumns>
>;

/** The time in microseconds since 1970, as entries, batches and files have it. */
export const AT_US = '(extract(epoch from at) * 1000000)::bigint';
