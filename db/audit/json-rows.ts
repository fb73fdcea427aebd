import type { EventRow } from '#db/audit/lines.ts';
import { CODES, COMMON, NAMES, PLAIN_SHAPES } from '#db/audit/verify-event.ts';

/**
 * Lines of exported files as rows. Nearly all are requests that have just what their type has, and no
 * value that anybody would have to quote: one pattern tells so, and its parts are the columns. To parse
 * JSON and put a row together again takes four times as long. Pure.
 */

const PLAIN = '"([^"\\\\\\s(),]+)"';
const PATTERNS: Readonly<Record<string, string>> = { request: '"([0-9a-f-]{36})"', account: PLAIN, key: PLAIN, model: PLAIN, upstream: PLAIN, refusal: PLAIN, sse: '(true|false)' };

function patternOf(name: string): string {
  const codes = CODES.get(name);
  return `,"${name}":${codes ? `(${[...codes.keys()].join('|')})` : (PATTERNS[name] ?? '(\\d+)')}`;
}

/** What is behind the common fields of a request; and for each of its columns its part of the pattern, 0 for none. */
type Reader = { pattern: RegExp; parts: readonly number[] };

const READERS: ReadonlyMap<string, Reader> = new Map(
  PLAIN_SHAPES.map(([code, { needed, allowed }]) => {
    let used = 0;
    let pattern = '';
    const parts = NAMES.slice(COMMON).map((name) => {
      if (!needed.includes(name) && !allowed.includes(name)) return 0;
      pattern += needed.includes(name) ? patternOf(name) : `(?:${patternOf(name)})?`;
      return ++used;
    });
    return [String(code), { pattern: new RegExp(`${pattern}\\}$`, 'y'), parts }];
  }),
);
const BEGINNING = /^\{"position":(\d+),"at_us":(\d+),"type":(\d+),"instance":(\d+)/;
const SSE_AT = NAMES.indexOf('sse') - COMMON;
const SSE: Readonly<Record<string, string>> = { true: 't', false: 'f' };

/** The row of a line, in shard 0; null where it takes more than a pattern to tell. */
export function rowOfLine(line: string): EventRow | null {
  const begun = BEGINNING.exec(line);
  const reader = begun && READERS.get(begun[3] as string);
  if (!begun || !reader) return null;
  const { pattern, parts } = reader;
  pattern.lastIndex = begun[0].length;
  const found = pattern.exec(line);
  if (found === null) return null;
  const [, position, at, type, instance] = begun as unknown as [string, string, string, string, string];
  let text = `(0,${position},${at},${type},${instance}`;
  for (let column = 0; column < parts.length; column++) {
    const part = parts[column] as number;
    const value = part === 0 ? undefined : found[part];
    if (value === undefined) text += ',';
    else text += `,${column === SSE_AT ? SSE[value] : value}`;
  }
  return { position: Number(position), at, instance, text: `${text})`, fields: null };
}
