/** The forms in which a text may stand in other texts: escaped, percent-encoded, in base64. Pure. */

const CONTROL_ESCAPES: Record<string, string> = { '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' };
/** The characters that a base64 text must keep to be distinguishable. */
const BASE64_CHARACTERS_MIN = 8;

/**
 * The text itself, and what its base64 has in common wherever the text begins in the encoded bytes: three
 * alignments, each without the characters that depend on its neighbors. The URL-safe alphabet is covered by
 * {@link escapedPattern}.
 */
export function encodedForms(text: string): string[] {
  const encoded = [0, 1, 2].map((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
    const first = Math.ceil((offset * 8) / 6);
    const last = Math.floor((bytes.length * 8) / 6);
    return bytes.toString('base64').slice(first, last);
  });
  return [text, ...encoded.filter((form) => form.length >= BASE64_CHARACTERS_MIN)];
}

/**
 * A pattern for a text in which each character may be escaped as in JSON, also in a document within a
 * document, or percent-encoded. It matches UTF-16 and latin-1 text of UTF-8 bytes.
 */
export function escapedPattern(text: string): string {
  return Array.from(text, (character) => `(?:${formsOf(character).join('|')})`).join('');
}

function formsOf(character: string): string[] {
  const bytes = Buffer.from(character);
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
  const hex = (value: number, digits: number): string =>
    value
      .toString(16)
      .padStart(digits, '0')
      .replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
  const unicode = units.map((unit) => `\\\\{1,4}u${hex(unit, 4)}`).join('');
  const percent = [...bytes].map((byte) => `%(?:25){0,3}${hex(byte, 2)}`).join('');
  const forms = [...plainForms(character), unicode, percent];
  if (bytes.length > 1) forms.push(RegExp.escape(bytes.toString('latin1')));
  const control = CONTROL_ESCAPES[character];
  if (control !== undefined) forms.push(`\\\\{1,4}${control}`);
  return forms;
}

function plainForms(character: string): string[] {
  if (/^[A-Za-z0-9]$/.test(character)) return [character];
  // Base64 has two alphabets, and both characters are their own in a text that is not base64.
  if (character === '+' || character === '-') return ['[+-]'];
  if (character === '/' || character === '_') return ['\\\\{0,3}[/_]'];
  if (character === '\\') return ['\\\\{1,8}'];
  return [character === '"' ? '\\\\{0,7}"' : RegExp.escape(character)];
}
