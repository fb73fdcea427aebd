/** The scripts of the bundled font that are written from left to right without shaping. */
const LETTERS = /^[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Armenian}]$/u;
/** Punctuation, digits and symbols, but no control and format characters. */
const COMMON = /^(?!\p{C}|\p{Zl}|\p{Zp})[\p{Script=Common}\p{Script=Inherited}]$/u;
/** The font has few symbols above. */
const COMMON_MAX = 0x2bff;

/** Most texts: numbers, and names in English. */
const ASCII = /^[ -~]*$/;

/** A part of a text in one font; null: the font of the document. */
export type Run = { font: string | null; text: string };

/**
 * A text divided by fonts. Characters that no font has are shown by their code points, such as `<U+05D0>`:
 * legible, and never an empty box or another character. Pure.
 * @param fontOf the fonts of other characters than those of the bundled font.
 */
export function runsOf(text: string, fontOf: ReadonlyMap<string, string>): Run[] {
  if (ASCII.test(text)) return [{ font: null, text }];
  const runs: Run[] = [];
  for (const character of text.normalize('NFC')) {
    const isPlain = isBundled(character);
    const font = isPlain ? null : (fontOf.get(character) ?? null);
    const shown = isPlain || font !== null ? character : codePoint(character);
    const last = runs.at(-1);
    if (last?.font === font) last.text += shown;
    else runs.push({ font, text: shown });
  }
  return runs;
}

function isBundled(character: string): boolean {
  const code = character.codePointAt(0) as number;
  return LETTERS.test(character) || (code <= COMMON_MAX && COMMON.test(character));
}

const codePoint = (character: string): string =>
  `<U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}>`;
