/**
 * What stands between the quotes of a JSON string, escapes and all, as latin-1 of its UTF-8 bytes. Replies
 * are translated in this form: text is cut out of one protocol's JSON and put into the other's, and is
 * neither decoded nor encoded. Pure.
 */
export type Literal = string;

// oxlint-disable-next-line no-control-regex
const NOT_ASCII = /[^\u0000-\u007f]/;

/** A text as latin-1 of its UTF-8 bytes. */
const latin1Of = (text: string): string =>
  NOT_ASCII.test(text) ? Buffer.from(text).toString('latin1') : text;

/** A text that is latin-1 of UTF-8 bytes, decoded. */
export const decoded = (latin1: string): string =>
  NOT_ASCII.test(latin1) ? Buffer.from(latin1, 'latin1').toString() : latin1;

/** A value as JSON, as latin-1 of its UTF-8 bytes. */
export const jsonOf = (value: unknown): string => latin1Of(JSON.stringify(value));

export const literalOf = (text: string): Literal => jsonOf(text).slice(1, -1);

/** The text of a literal. */
export const textIn = (literal: Literal): string => JSON.parse(`"${decoded(literal)}"`) as string;

/** How many characters (UTF-16 code units) the text of a literal has, without decoding it. */
export function lengthOf(literal: Literal): number {
  let length = 0;
  for (let at = 0; at < literal.length; at++) {
    const code = literal.charCodeAt(at);
    if (code === BACKSLASH) {
      at += literal[at + 1] === 'u' ? ESCAPED_UNIT_CHARACTERS : 1;
      length++;
    } else if (code < UTF8_CONTINUATION) length++;
    // Continuation bytes add nothing; a sequence of four bytes is a surrogate pair.
    else if (code >= UTF8_LEAD) length += code >= UTF8_LEAD_OF_FOUR ? 2 : 1;
  }
  return length;
}

const BACKSLASH = 0x5c;
/** Of `\uXXXX`, behind the backslash. */
const ESCAPED_UNIT_CHARACTERS = 5;
const UTF8_CONTINUATION = 0x80;
const UTF8_LEAD = 0xc0;
const UTF8_LEAD_OF_FOUR = 0xf0;

/** A literal of JSON as the text that it is: of another literal's inside, or of a document. */
export const quoted = (json: string): Literal => JSON.stringify(json).slice(1, -1);

/**
 * The arguments of a call as an object in JSON, in the words of the model; anything else becomes the member
 * `arguments` of one. Latin-1.
 */
export function objectIn(literal: Literal): string {
  const text = textIn(literal);
  if (text.trim() === '') return '{}';
  return isObject(text) ? latin1Of(text) : jsonOf({ arguments: text });
}

function isObject(text: string): boolean {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
