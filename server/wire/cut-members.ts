import {
  JsonError,
  assertEnd,
  skipBlank,
  skipColon,
  skipString,
  skipValue,
  stringOf,
} from '#server/wire/json.ts';

/** An object in two parts: the values of some members, and all other members as they are written. */
export type CutObject = {
  values: ReadonlyMap<string, Buffer>;
  /** Runs of the other members, without commas at their ends. */
  rest: readonly Buffer[];
};

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const COMMA = 0x2c;

/**
 * Cuts members out of the top-level object of a document, without building its value. Pure.
 * @param names of the members; none may occur twice.
 * @throws {JsonError} when it is not valid JSON, too deep, or not an object.
 */
export function cutMembers(bytes: Buffer, names: readonly string[]): CutObject {
  const values = new Map<string, Buffer>();
  const rest: Buffer[] = [];
  let at = skipBlank(bytes, 0);
  if (bytes[at] !== OPEN_BRACE) throw new JsonError('not_an_object', 'the document is not an object');
  at = skipBlank(bytes, at + 1);
  let runStart = at;
  let runEnd = at;
  let isMore = bytes[at] !== CLOSE_BRACE;
  while (isMore) {
    const nameEnd = skipString(bytes, at);
    const name = stringOf(bytes, at, nameEnd);
    const start = skipColon(bytes, nameEnd);
    const end = skipValue(bytes, start, 1);
    const isCut = names.includes(name);
    if (isCut) {
      if (values.has(name)) throw new JsonError('duplicate', `the member "${name}" occurs twice`, name);
      values.set(name, bytes.subarray(start, end));
      if (runEnd > runStart) rest.push(bytes.subarray(runStart, runEnd));
    } else runEnd = end;
    at = skipBlank(bytes, end);
    isMore = bytes[at] === COMMA;
    if (!isMore && bytes[at] !== CLOSE_BRACE)
      throw new JsonError('invalid', `unexpected byte or end at offset ${at}`);
    if (isMore) at = skipBlank(bytes, at + 1);
    if (isCut) runStart = runEnd = at;
  }
  assertEnd(bytes, at + 1);
  if (runEnd > runStart) rest.push(bytes.subarray(runStart, runEnd));
  return { values, rest };
}
