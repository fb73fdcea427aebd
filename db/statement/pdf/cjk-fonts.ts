import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import * as fontkit from 'fontkit';
import decompress from 'woff2-encoder/decompress';

/**
 * The letters of Chinese, Japanese and Korean. Each of three fonts is divided into files of some hundred
 * characters, of which a document loads those that it uses. They are variable fonts, of which PDFs get the
 * thinnest instance: fontkit embeds no other. Text in them is stroked as well as filled, to the weight of the
 * text around it.
 */

const PACKAGES = {
  sc: '@fontsource-variable/noto-sans-sc/package.json',
  jp: '@fontsource-variable/noto-sans-jp/package.json',
  kr: '@fontsource-variable/noto-sans-kr/package.json',
} as const;
type Font = keyof typeof PACKAGES;

const SCRIPTS =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]$/u;
/** Punctuation, symbols and wide letters that belong to these scripts. */
const WIDE = /^[\u3000-\u303f\u3099-\u309c\u30a0\u30fb\u30fc\u3200-\u33ff\uff00-\uffef]$/u;

export const isCjk = (character: string): boolean => SCRIPTS.test(character) || WIDE.test(character);

/** A file of a font, and the code points that it should have. */
type FontFile = { font: Font; name: string; ranges: readonly (readonly [from: number, to: number])[] };

/**
 * The fonts in the order in which a document looks for a character. Chinese, Japanese and Korean write some
 * of the same characters differently; kana and Hangul show which of them a document is in.
 */
function orderFor(text: string): readonly Font[] {
  if (/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(text)) return ['jp', 'sc', 'kr'];
  return /\p{Script=Hangul}/u.test(text) ? ['kr', 'sc', 'jp'] : ['sc', 'jp', 'kr'];
}

const folder = (font: Font): string => path.dirname(createRequire(import.meta.url).resolve(PACKAGES[font]));

async function readFiles(font: Font): Promise<FontFile[]> {
  const text = await readFile(path.join(folder(font), 'unicode.json'), 'utf8');
  const ranges = Object.entries(JSON.parse(text) as Record<string, string>);
  return ranges
    .filter(([name]) => name.startsWith('['))
    .map(([name, list]) => ({ font, name: name.slice(1, -1), ranges: list.split(',').map(parseRange) }));
}

function parseRange(text: string): [from: number, to: number] {
  const [from = 0, to = from] = text
    .slice('U+'.length)
    .split('-')
    .map((code) => Number.parseInt(code, 16));
  return [from, to];
}

async function open({ font, name }: FontFile): Promise<fontkit.Font> {
  const file = path.join(folder(font), 'files', `noto-sans-${font}-${name}-wght-normal.woff2`);
  return fontkit.create(Buffer.from(await decompress(await readFile(file)))) as fontkit.Font;
}

/** The loaded fonts by name, and the name of the font of each character. */
export type CjkFonts = { fonts: Map<string, fontkit.Font>; fontOf: Map<string, string> };

/** Loads the fonts of a text's characters. Characters that no font has are missing. */
export async function loadCjkFonts(text: string): Promise<CjkFonts> {
  const loaded: CjkFonts = { fonts: new Map(), fontOf: new Map() };
  const characters = [...new Set(text)].filter(isCjk);
  if (characters.length === 0) return loaded;
  for (const font of orderFor(text)) {
    const files = await readFiles(font);
    for (const character of characters) {
      if (loaded.fontOf.has(character)) continue;
      const code = character.codePointAt(0) as number;
      const file = files.find(({ ranges }) => ranges.some(([from, to]) => code >= from && code <= to));
      if (file === undefined) continue;
      const name = `${file.font}-${file.name}`;
      const opened = loaded.fonts.get(name) ?? (await open(file));
      loaded.fonts.set(name, opened);
      if (opened.hasGlyphForCodePoint(code)) loaded.fontOf.set(character, name);
    }
  }
  return loaded;
}
