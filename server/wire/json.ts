import { isUtf8 } from 'node:buffer';
import { JSON_DEPTH_MAX } from '#server/wire/bounds.ts';

/**
 * A JSON checker on bytes. It finds the members of the top-level object that the relay looks at,
 * without building the value: the body goes out as the bytes that came in, so that large integers,
 * key order and unknown fields survive. It accepts exactly RFC 8259 in UTF-8, down to a bounded
 * depth, and costs about a nanosecond per byte. Pure.
 */

/** Why bytes are not an object the relay can work with. */
export class JsonError extends Error {
  override name = 'JsonError';
  readonly problem: 'invalid' | 'too_deep' | 'not_an_object' | 'duplicate';
  /** The member's name for `duplicate`; the byte offset is in the message. */
  readonly member: string | null;
  constructor(problem: JsonError['problem'], message: string, member: string | null = null) {
    super(message);
    this.problem = problem;
    this.member = member;
  }
}

/** Where a member's value stands: from its first byte to the one after its last. */
export type Span = { start: number; end: number };

export type ScannedObject = {
  /** The wanted members that are there, and the optional ones that are there once. */
  members: Map<string, Span>;
  /** The offset of the closing brace. */
  close: number;
  /** Whether the object has no members at all. */
  empty: boolean;
};

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const MINUS = 0x2d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const LOWER_U = 0x75;
const SPACE = 0x20;
/** Stands for "past the end": reading there for real would slow every read down. */
const END = -1;

const tableOf = (bytes: Iterable<number>): Uint8Array => {
  const table = new Uint8Array(256);
  for (const byte of bytes) table[byte] = 1;
  return table;
};
const HEX_DIGIT = tableOf(Buffer.from('0123456789abcdefABCDEF'));
const ESCAPED = tableOf(Buffer.from('"\\/bfnrt'));

/**
 * Receives each member of each object, in their order.
 * @param quote the offset of the quote before its name, and `nameEnd` the one after the quote behind it.
 * @param value the first byte of its value, which may still turn out to be invalid.
 */
export type MemberVisitor = (bytes: Buffer, quote: number, nameEnd: number, value: number) => void;

/**
 * Checks a whole document and finds the wanted members of its top-level object.
 * @param optional further members. One that is there twice is skipped.
 * @throws {JsonError} when it is not valid JSON, too deep, not an object, or names a wanted member twice.
 */
export function scanObject(
  bytes: Buffer,
  wanted: readonly string[],
  optional: readonly string[] = [],
  visit: MemberVisitor | null = null,
): ScannedObject {
  if (!isUtf8(bytes)) throw new JsonError('invalid', 'the bytes are not UTF-8');
  let at = skipBlank(bytes, 0);
  if (byteAt(bytes, at) !== OPEN_BRACE) {
    assertEnd(bytes, skipValue(bytes, at, 0));
    throw new JsonError('not_an_object', 'the document is not an object');
  }
  const members = new Map<string, Span>();
  let repeated: Set<string> | null = null;
  at = skipBlank(bytes, at + 1);
  const empty = byteAt(bytes, at) === CLOSE_BRACE;
  while (!empty) {
    const nameEnd = skipString(bytes, at);
    const name = nameAmong(wanted, bytes, at, nameEnd);
    const start = skipColon(bytes, nameEnd);
    if (visit !== null) visit(bytes, at, nameEnd, start);
    const end = skipValue(bytes, start, 1, visit);
    if (name !== null) {
      if (members.has(name)) throw new JsonError('duplicate', `the member "${name}" occurs twice`, name);
      members.set(name, { start, end });
    } else if (optional.length > 0) {
      const also = nameAmong(optional, bytes, at, nameEnd);
      if (also !== null && members.has(also)) (repeated ??= new Set()).add(also);
      else if (also !== null) members.set(also, { start, end });
    }
    at = skipBlank(bytes, end);
    if (byteAt(bytes, at) === CLOSE_BRACE) break;
    if (byteAt(bytes, at) !== COMMA) throw invalid(at);
    at = skipBlank(bytes, at + 1);
  }
  assertEnd(bytes, at + 1);
  if (repeated !== null) for (const name of repeated) members.delete(name);
  return { members, close: at, empty };
}

/** The value of a span, which the scan has already found to be valid. */
export function valueOf(bytes: Buffer, { start, end }: Span): unknown {
  switch (bytes[start]) {
    case QUOTE:
      return stringOf(bytes, start, end);
    case 0x74: // t
      return true;
    case 0x66: // f
      return false;
    case 0x6e: // n
      return null;
    default:
      return JSON.parse(bytes.toString('utf8', start, end));
  }
}

/** Which of the wanted names stands between two quotes, if any. No string is made to find out. */
function nameAmong(wanted: readonly string[], bytes: Buffer, quote: number, end: number): string | null {
  const start = quote + 1;
  for (const name of wanted) {
    if (name.length !== end - start - 1) continue;
    let same = 0;
    while (same < name.length && bytes[start + same] === name.charCodeAt(same)) same++;
    if (same === name.length) return name;
  }
  // A name may be written with escapes, and then stands there longer than it is.
  for (let at = start; at < end; at++) {
    if (bytes[at] !== BACKSLASH) continue;
    const name = stringOf(bytes, quote, end);
    return wanted.includes(name) ? name : null;
  }
  return null;
}

/** The text between two quotes; only one with escapes needs to be parsed. */
export function stringOf(bytes: Buffer, start: number, end: number): string {
  const raw = bytes.toString('utf8', start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
}

function invalid(at: number): JsonError {
  return new JsonError('invalid', `unexpected byte or end at offset ${at}`);
}

function byteAt(bytes: Buffer, at: number): number {
  return at < bytes.length ? (bytes[at] as number) : END;
}

/** @throws {JsonError} where anything but white space follows. */
export function assertEnd(bytes: Buffer, at: number): void {
  const end = skipBlank(bytes, at);
  if (end < bytes.length) throw invalid(end);
}

/** To the next byte that is not white space. */
export function skipBlank(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length) {
    const byte = bytes[at] as number;
    if (byte > SPACE || (byte !== SPACE && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) break;
    at++;
  }
  return at;
}

/** From after a name to the first byte of its value. */
export function skipColon(bytes: Buffer, from: number): number {
  const at = skipBlank(bytes, from);
  if (byteAt(bytes, at) !== COLON) throw invalid(at);
  return skipBlank(bytes, at + 1);
}

/** From an opening quote to just after the closing one. */
export function skipString(bytes: Buffer, quote: number): number {
  if (byteAt(bytes, quote) !== QUOTE) throw invalid(quote);
  const length = bytes.length;
  let at = quote + 1;
  for (;;) {
    let byte = END;
    while (at < length) {
      byte = bytes[at] as number;
      if (byte < SPACE || byte === QUOTE || byte === BACKSLASH) break;
      at++;
    }
    if (at >= length) throw invalid(at);
    if (byte === QUOTE) return at + 1;
    if (byte !== BACKSLASH) throw invalid(at);
    at = skipEscape(bytes, at + 1);
  }
}

/** From the byte after a backslash to just after the escape. */
function skipEscape(bytes: Buffer, at: number): number {
  if (at >= bytes.length) throw invalid(at);
  const byte = bytes[at] as number;
  if (ESCAPED[byte] === 1) return at + 1;
  if (byte !== LOWER_U || at + 4 >= bytes.length) throw invalid(at);
  for (let digit = at + 1; digit <= at + 4; digit++) {
    if (HEX_DIGIT[bytes[digit] as number] === 0) throw invalid(digit);
  }
  return at + 5;
}

/** From the first byte of a value to just after its last. @throws {JsonError} if it is not valid. */
export function skipValue(
  bytes: Buffer,
  at: number,
  depth: number,
  visit: MemberVisitor | null = null,
): number {
  switch (byteAt(bytes, at)) {
    case QUOTE:
      return skipString(bytes, at);
    case OPEN_BRACE:
      return skipContainer(bytes, at, depth + 1, CLOSE_BRACE, visit);
    case OPEN_BRACKET:
      return skipContainer(bytes, at, depth + 1, CLOSE_BRACKET, visit);
    case 0x74: // t
      return skipWord(bytes, at, 'true');
    case 0x66: // f
      return skipWord(bytes, at, 'false');
    case 0x6e: // n
      return skipWord(bytes, at, 'null');
    default:
      return skipNumber(bytes, at);
  }
}

function skipContainer(
  bytes: Buffer,
  open: number,
  depth: number,
  close: number,
  visit: MemberVisitor | null,
): number {
  if (depth > JSON_DEPTH_MAX) throw new JsonError('too_deep', `deeper than ${JSON_DEPTH_MAX} levels`);
  let at = skipBlank(bytes, open + 1);
  if (byteAt(bytes, at) === close) return at + 1;
  for (;;) {
    if (close === CLOSE_BRACE) {
      const nameEnd = skipString(bytes, at);
      const value = skipColon(bytes, nameEnd);
      if (visit !== null) visit(bytes, at, nameEnd, value);
      at = value;
    }
    at = skipBlank(bytes, skipValue(bytes, at, depth, visit));
    const byte = byteAt(bytes, at);
    if (byte === close) return at + 1;
    if (byte !== COMMA) throw invalid(at);
    at = skipBlank(bytes, at + 1);
  }
}

function skipWord(bytes: Buffer, at: number, word: string): number {
  for (let index = 0; index < word.length; index++)
    if (byteAt(bytes, at + index) !== word.charCodeAt(index)) throw invalid(at);
  return at + word.length;
}

function skipNumber(bytes: Buffer, from: number): number {
  let at = byteAt(bytes, from) === MINUS ? from + 1 : from;
  // A leading zero stands alone.
  at = byteAt(bytes, at) === 0x30 ? at + 1 : skipDigits(bytes, at);
  if (byteAt(bytes, at) === 0x2e) at = skipDigits(bytes, at + 1);
  if (byteAt(bytes, at) === 0x65 || byteAt(bytes, at) === 0x45) {
    const sign = byteAt(bytes, at + 1);
    at = skipDigits(bytes, sign === 0x2b || sign === MINUS ? at + 2 : at + 1);
  }
  return at;
}

function skipDigits(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && (bytes[at] as number) >= 0x30 && (bytes[at] as number) <= 0x39) at++;
  if (at === from) throw invalid(at);
  return at;
}
