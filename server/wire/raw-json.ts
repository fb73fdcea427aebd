/**
 * JSON as text: parts of a valid document, cut out as they stand. Unchanged parts are never parsed and
 * serialized again, so integers beyond 2^53, the order of keys and escapes stay as they were.
 * The text may be latin-1 of UTF-8 bytes just as well; nothing in here looks beyond ASCII. Pure.
 */

const BLANK = /[ \t\r\n]*/y;
const WORD_END = /[^,\]} \t\r\n]*/y;
const QUOTE = 0x22;
/** Brackets and braces differ in no more than this bit. */
const BRACE_BIT = 0x20;
const OPEN = 0x5b;
const CLOSE = 0x5d;

/** What a string of JSON may not hold as it stands, and the one sign that what follows has a meaning. */
// oxlint-disable-next-line no-control-regex
const NOT_PLAIN = /[\u0000-\u001f\\]/;
const ESCAPES = /^(?:[^\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*$/;
/** Longer ones are rare, and the memory of a pattern grows with its match. */
const ESCAPED_CHARACTERS_MAX = 1_000;

/**
 * Whether a text without bare quotes can be the inside of a JSON string. Of a long one with escapes that
 * isn't known without parsing it: false.
 */
export function isLiteral(inside: string): boolean {
  if (!NOT_PLAIN.test(inside)) return true;
  // oxlint-disable-next-line no-control-regex
  return inside.length <= ESCAPED_CHARACTERS_MAX && !/[\u0000-\u001f]/.test(inside) && ESCAPES.test(inside);
}

/** Where the string whose text begins at `from` ends: at its closing quote, or with the text. */
export function stringEnd(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (at - 1 - backslashes >= from && text.charCodeAt(at - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}

/**
 * The members of an object, each as the text of its value.
 * @param text valid JSON; anything but an object has no members. Of a name that occurs twice the last counts.
 */
export function membersOf(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = skip(BLANK, text, 0);
  if (text[at] !== '{') return members;
  at = skip(BLANK, text, at + 1);
  while (text[at] === '"') {
    const nameEnd = stringEnd(text, at + 1);
    const name = text.slice(at + 1, nameEnd);
    const start = skip(BLANK, text, skip(BLANK, text, nameEnd + 1) + 1);
    const end = valueEnd(text, start);
    members.set(name.includes('\\') ? (JSON.parse(`"${name}"`) as string) : name, text.slice(start, end));
    at = skip(BLANK, text, end);
    if (text[at] !== ',') break;
    at = skip(BLANK, text, at + 1);
  }
  return members;
}

/** The elements of an array, each as its text. @param text valid JSON; anything but an array has none. */
export function elementsOf(text: string): string[] {
  const elements: string[] = [];
  let at = skip(BLANK, text, 0);
  if (text[at] !== '[') return elements;
  at = skip(BLANK, text, at + 1);
  while (at < text.length && text[at] !== ']') {
    const end = valueEnd(text, at);
    elements.push(text.slice(at, end));
    at = skip(BLANK, text, end);
    if (text[at] === ',') at = skip(BLANK, text, at + 1);
  }
  return elements;
}

/** What stands between the quotes of a JSON string, escapes and all; null where the text is no string. */
export function insideQuotes(text: string | undefined): string | null {
  return text !== undefined && text.length >= 2 && text[0] === '"' ? text.slice(1, -1) : null;
}

/**
 * An object of these members, each already JSON; null omits the member. Nothing is copied: parts may
 * be megabytes.
 */
export function objectOf(members: Record<string, string | null>): string {
  let text = '';
  for (const [name, value] of Object.entries(members))
    if (value !== null) text += `${text === '' ? '{' : ','}"${name}":${value}`;
  return text === '' ? '{}' : `${text}}`;
}

/** An array of these elements, each already JSON. */
export function arrayOf(elements: readonly string[]): string {
  let text = '';
  for (const element of elements) text += `${text === '' ? '[' : ','}${element}`;
  return text === '' ? '[]' : `${text}]`;
}

/** Where a value that begins at `at` ends. */
function valueEnd(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return stringEnd(text, at + 1) + 1;
  if (first !== '{' && first !== '[') return skip(WORD_END, text, at);
  let depth = 0;
  for (let next = at; next < text.length; next++) {
    const code = text.charCodeAt(next);
    if (code === QUOTE) next = stringEnd(text, next + 1);
    else if ((code & ~BRACE_BIT) === OPEN) depth++;
    else if ((code & ~BRACE_BIT) === CLOSE && --depth === 0) return next + 1;
  }
  return text.length;
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  pattern.test(text);
  return pattern.lastIndex;
}
