import { AT, CODES, COMMON, NAMES, PLAIN_SHAPES } from '#db/audit/verify/event.ts';
import { compositeText, type LeafRow } from '#db/log/chain.ts';
import { typeOf } from '#db/log/columns.ts';

/**
 * Rows of the log in PostgreSQL's text format of composite values, which is the text that a leaf hash covers.
 * It costs Postgres half as much as JSON, and needs no conversion here. Pure.
 */

/** An event as it was read: the text of all its columns, and the columns that its batch has, too. */
export type EventRow = {
  position: number;
  at: string | null;
  instance: string | null;
  /** As bytes it begins with a zero and is the content of its leaf; such rows are ASCII only. */
  text: string | Uint8Array;
  /** All columns; null for a request of shard 0 that was validated from its text alone. */
  fields: LeafRow | null;
};

/**
 * Parses a composite value into its columns, null for null. Other input yields an arbitrary row.
 */
export function fieldsOf(text: string): LeafRow {
  if (!text.includes('"'))
    return text
      .slice(1, -1)
      .split(',')
      .map((field) => (field === '' ? null : field));
  const fields: (string | null)[] = [];
  let field: string | null = null;
  let isQuoted = false;
  for (let at = 1; at < text.length - 1; at++) {
    const character = text[at] as string;
    if (isQuoted && (character === '\\' || (character === '"' && text[at + 1] === '"')))
      field += text[++at] as string;
    else if (character === '"') {
      isQuoted = !isQuoted;
      field ??= '';
    } else if (character === ',' && !isQuoted) {
      fields.push(field);
      field = null;
    } else field = (field ?? '') + character;
  }
  fields.push(field);
  return fields;
}

const TEXT = '(?:[^\\s"\\\\(),]+|"(?:[^"\\\\]|\\\\\\\\|"")*")';
const DIGITS = '\\d+';
const PATTERNS = {
  int2: DIGITS,
  int4: DIGITS,
  int8: DIGITS,
  timestamptz: DIGITS,
  uuid: '[0-9a-f-]{36}',
  text: TEXT,
  bool: '[tf]',
} as const;
const patternOf = (name: string): string => {
  const codes = CODES.get(name);
  return codes ? `(?:${[...codes.keys()].join('|')})` : PATTERNS[typeOf(name)];
};

/**
 * The columns of a request after the common ones, as one pattern: splitting the row would cost as much as
 * all the rest.
 */
const REQUESTS = new Map(
  PLAIN_SHAPES.map(([code, { needed, allowed }]) => {
    const fields = NAMES.slice(COMMON).map((name) =>
      needed.includes(name) ? patternOf(name) : allowed.includes(name) ? `(?:${patternOf(name)})?` : '',
    );
    return [String(code), new RegExp(`${fields.join(',')}\\)$`, 'y')];
  }),
);
const BEGINNING = /^\(0,(\d+),(\d+),(\d+),(\d+),/;

/** The row of a composite value. */
export function rowOfText(text: string): EventRow {
  const begun = BEGINNING.exec(text);
  const request = begun && REQUESTS.get(begun[3] as string);
  if (begun && request) {
    request.lastIndex = begun[0].length;
    if (request.test(text))
      return {
        position: Number(begun[1]),
        at: begun[2] as string,
        instance: begun[4] as string,
        text,
        fields: null,
      };
  }
  return rowOfFields(fieldsOf(text), text);
}

const TIME = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?([+-]\d\d)(:\d\d)?$/;

/** Microseconds since 1970 of a time as Postgres writes it; null where it is not written so. */
export function microsecondsOf(time: string): string | null {
  const [, date, clock, fraction = '', hours, minutes = ':00'] = TIME.exec(time) ?? [];
  const seconds = date === undefined ? Number.NaN : Date.parse(`${date}T${clock}${hours}${minutes}`) / 1000;
  return Number.isNaN(seconds)
    ? null
    : String(BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(6, '0')));
}

/** The row with these columns. */
export function rowOfFields(fields: LeafRow, text: string = compositeText(fields)): EventRow {
  return {
    position: Number(fields[AT.position] ?? Number.NaN),
    at: fields[AT.at] ?? null,
    instance: fields[AT.instance] ?? null,
    text,
    fields,
  };
}

/** The text of all columns. */
export const textOf = ({ text }: EventRow): string =>
  typeof text === 'string'
    ? text
    : Buffer.from(text.buffer, text.byteOffset, text.length).toString('latin1', 1);

/** The content of a row's leaf; its SHA-256 is the leaf hash. */
export const leafContent = ({ text }: EventRow): string | Uint8Array =>
  typeof text === 'string' ? `\0${text}` : text;
