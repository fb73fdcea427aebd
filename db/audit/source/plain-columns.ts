import { CODES, COMMON, NAMES, PLAIN_SHAPES } from '#db/audit/verify/event.ts';
import { typeOf } from '#db/log/columns.ts';

/**
 * What the columns of a request have to be, byte by byte, so that it is told for one without a text
 * being made of it that would have to be thrown away again. Pure.
 */

/** Of what bytes a value may consist; all others have another path. */
const DIGIT = 1;
const PLAIN = 2;
const UUID = 4;
const KIND_OF_BYTE = Uint8Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  // Plain is what neither COPY, JSON nor a composite value would have to quote for what is in it.
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

/** A column of a request. No byte fits one that its type does not have. */
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

/** By the code of its type: the columns of a request behind those that every row has. */
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

/** Where a value of this column that begins here ends: where the first byte is that does not fit. */
export function endOfValue(bytes: Buffer, from: number, { bytes: kinds }: Column): number {
  let at = from;
  while (isOf(bytes[at], kinds)) at++;
  return at;
}

/** Whether a value of bytes that do is one: as long as it has to be, or a code that is known. */
export function isValue(bytes: Buffer, from: number, to: number, { length, codes }: Column): boolean {
  return (length === 0 || to - from === length) && (codes === null || codes.has(numberOf(bytes, from, to)));
}

/** Whether these very bytes stand here. */
export function stands(bytes: Buffer, at: number, text: Buffer): boolean {
  for (let index = 0; index < text.length; index++) if (bytes[at + index] !== text[index]) return false;
  return true;
}

/** Where digits that begin here end. */
export function endOfDigits(bytes: Buffer, from: number): number {
  let at = from;
  while (isOf(bytes[at], DIGIT)) at++;
  return at;
}

/** The number that some digits are. */
export function numberOf(digits: Buffer, from: number, to: number): number {
  let number = 0;
  for (let at = from; at < to; at++) number = number * 10 + (digits[at] as number) - ZERO;
  return number;
}
