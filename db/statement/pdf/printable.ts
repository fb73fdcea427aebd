/** The scripts of the bundled font that are written from left to right without shaping. */
const LETTERS = /^[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Armenian}]$/u;
/** Punctuation, digits and symbols, but no control and format characters. */
const COMMON = /^(?!\p{C}|\p{Zl}|\p{Zp})[\p{Script=Common}\p{Script=Inherited}]$/u;
/** The font has few symbols above. */
const COMMON_MAX = 0x2bff;

/**
 * A text in characters that the bundled font has. Others are shown by their code points, such as `<U+682A>`:
 * legible, and never an empty box or another character. Pure.
 */
export function printable(text: string): string {
  return Array.from(text.normalize('NFC'), (character) => {
    const code = character.codePointAt(0) as number;
    if (LETTERS.test(character) || (code <= COMMON_MAX && COMMON.test(character))) return character;
    return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
  }).join('');
}
