import { CODES, COMMON, NAMES, PLAIN_SHAPES } from '#db/audit/verify/event.ts';
import { typeOf } from '#db/log/columns.ts';

/**
 * Byte-level validation of the columns of a request, which allocates no strings. Pure.
 */

/** Byte classes of values. A value with any other byte needs the full parser. */
const DIGIT = 1;
const PLAIN = 2;
const UUID = 4;
const KIND_OF_BYTE = Uint8Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  // Plain bytes need no quoting in COPY, JSON or a composite value.
  return (
    (/\d/.test(character) ? DIGIT : 0) |
    (/[\x21-\x7e]/.test(character) && !/["\\(),]/.test(character) ? PLAIN : 0) |
    (/[0-9a-f-]/.test(character) ? UUID : 0)
  );
});
const isOf = (byte: number | undefined, kinds: number): boolean =>
  ((KIND_OF_BYTE[byte ?? 0] ?? 0) & kinds) !== 0;
const UUID_BYTES = 36;
const ZERO = 0x30;

/** A column of a request. `bytes` is 0 for a column that the type does not have. */
export type Column = {
  name: string;
  bytes: number;
  isNeeded: boolean;
  isText: boolean;
  isBoolean: boolean;
  length: number;
  codes: ReadonlyMap<number, string> | null;
};

const BYTES = {
  int2: DIGIT,
  int4: DIGIT,
  int8: DIGIT,
  timestamptz: DIGIT,
  uuid: UUID,
  text: PLAIN,
  bool: PLAIN,
} as const;

/** The columns of a request after the common ones, by the code of its type. */
export const REQUESTS: readonly (readonly Column[])[] = PLAIN_SHAPES.reduce<Column[][]>(
  (found, [code, { needed, allowed }]) => {
    found[code] = NAMES.slice(COMMON).map((name) => ({
      name,
      bytes: needed.includes(name) || allowed.includes(name) ? BYTES[typeOf(name)] : 0,
      isNeeded: needed.includes(name),
      isText: typeOf(name) === 'text' || typeOf(name) === 'uuid',
      isBoolean: typeOf(name) === 'bool',
      length: typeOf(name) === 'uuid' ? UUID_BYTES : 0,
      codes: CODES.get(name) ?? null,
    }));
    return found;
  },
  [],
);

/** The end of a value: the offset of the first byte that the column does not allow. */
export function endOfValue(bytes: Buffer, from: number, { bytes: kinds }: Column): number {
  let at = from;
  while (isOf(bytes[at], kinds)) at++;
  return at;
}

/** Whether a value of allowed bytes has the required length, or is a known code. */
export function isValue(bytes: Buffer, from: number, to: number, { length, codes }: Column): boolean {
  return (length === 0 || to - from === length) && (codes === null || codes.has(numberOf(bytes, from, to)));
}

/** Whether the bytes at this offset start with `text`. */
export function startsWithBytes(bytes: Buffer, at: number, text: Buffer): boolean {
  for (let index = 0; index < text.length; index++) if (bytes[at + index] !== text[index]) return false;
  return true;
}

/** The end of the digits at this offset. */
export function endOfDigits(bytes: Buffer, from: number): number {
  let at = from;
  while (isOf(bytes[at], DIGIT)) at++;
  return at;
}

/** Parses digits. */
export function numberOf(digits: Buffer, from: number, to: number): number {
  let number = 0;
  for (let at = from; at < to; at++) number = number * 10 + (digits[at] as number) - ZERO;
  return number;
}
