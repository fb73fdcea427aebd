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

// oxlint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f]/;
/** What may stand behind a backslash. */
const ESCAPE = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;

/** Whether a text without bare quotes can be the inside of a JSON string. */
export function isLiteral(inside: string): boolean {
  if (CONTROL.test(inside)) return false;
  for (let at = inside.indexOf('\\'); at >= 0; at = inside.indexOf('\\', ESCAPE.lastIndex)) {
    ESCAPE.lastIndex = at + 1;
    if (!ESCAPE.test(inside)) return false;
  }
  return true;
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
    const start = memberStart(text, nameEnd);
    const end = valueEnd(text, start);
    members.set(nameIn(text, at, nameEnd), text.slice(start, end));
    at = nextStart(text, end);
  }
  return members;
}

/**
 * The text of the value at a path of names and places, found in one pass over what precedes it; undefined: it
 * is missing. @param text valid JSON. Of a name that occurs twice the first counts.
 */
export function rawAt(text: string, ...path: readonly (string | number)[]): string | undefined {
  const at = startOf(text, path);
  return at < 0 ? undefined : text.slice(at, valueEnd(text, at));
}

/** The elements of the array at a path, in the same way. Anything else has none. */
export function elementsAt(text: string, ...path: readonly (string | number)[]): string[] {
  const at = startOf(text, path);
  return at < 0 ? [] : elementsFrom(text, at);
}

/** Where the value at a path begins; negative: it is missing. */
function startOf(text: string, path: readonly (string | number)[]): number {
  let at = skip(BLANK, text, 0);
  for (let index = 0; index < path.length && at >= 0; index++) {
    const step = path[index] as string | number;
    at = typeof step === 'string' ? startOfMember(text, at, step) : startOfElement(text, at, step);
  }
  return at;
}

function startOfMember(text: string, object: number, name: string): number {
  if (text[object] !== '{') return -1;
  let at = skip(BLANK, text, object + 1);
  while (text[at] === '"') {
    const nameEnd = stringEnd(text, at + 1);
    const start = memberStart(text, nameEnd);
    if (nameIn(text, at, nameEnd) === name) return start;
    at = nextStart(text, valueEnd(text, start));
  }
  return -1;
}

function startOfElement(text: string, array: number, index: number): number {
  if (text[array] !== '[') return -1;
  let at = skip(BLANK, text, array + 1);
  for (let left = index; at < text.length && text[at] !== ']'; left--) {
    if (left === 0) return at;
    at = nextStart(text, valueEnd(text, at));
  }
  return -1;
}

/** The elements of an array, each as its text. @param text valid JSON; anything but an array has none. */
export const elementsOf = (text: string): string[] => elementsFrom(text, skip(BLANK, text, 0));

function elementsFrom(text: string, array: number): string[] {
  const elements: string[] = [];
  if (text[array] !== '[') return elements;
  let at = skip(BLANK, text, array + 1);
  while (at < text.length && text[at] !== ']') {
    const end = valueEnd(text, at);
    elements.push(text.slice(at, end));
    at = nextStart(text, end);
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

/** Where the value of a member begins, whose name ends at `nameEnd`. */
const memberStart = (text: string, nameEnd: number): number =>
  skip(BLANK, text, skip(BLANK, text, nameEnd + 1) + 1);

function nameIn(text: string, at: number, nameEnd: number): string {
  const name = text.slice(at + 1, nameEnd);
  return name.includes('\\') ? (JSON.parse(`"${name}"`) as string) : name;
}

/** Where the next member or element begins, or the bracket behind the last. */
function nextStart(text: string, end: number): number {
  const at = skip(BLANK, text, end);
  return text[at] === ',' ? skip(BLANK, text, at + 1) : at;
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
