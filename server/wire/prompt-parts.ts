import {
  type MemberVisitor,
  skipBlank,
  skipColon,
  skipString,
  skipValue,
  stringOf,
} from '#server/wire/json.ts';

/** The parts of a prompt that are no text, and its tools, counted while the body is scanned. Pure. */

/** How many there are of each kind of part. Their tokens don't follow from their bytes. */
export type PromptParts = {
  images: number;
  recordings: number;
  /** Videos and files, and other content of which only the address is sent. */
  files: number;
  /** Whether a provider adds its instructions for tools or for a format. */
  hasTools: boolean;
};

export const NO_PARTS: Readonly<PromptParts> = { images: 0, recordings: 0, files: 0, hasTools: false };

type Kind = Exclude<keyof PromptParts, 'hasTools'>;

/** By the member that holds each. */
const KINDS: Readonly<Record<string, Kind>> = {
  image_url: 'images',
  image_embeds: 'images',
  input_image: 'images',
  audio_url: 'recordings',
  input_audio: 'recordings',
  video_url: 'files',
  file_url: 'files',
  file_id: 'files',
  file_data: 'files',
  input_file: 'files',
  fileData: 'files',
};
/** The same in Anthropic's Messages, by the `type` of each. */
const KINDS_BY_TYPE: Readonly<Record<string, Kind>> = { image: 'images', document: 'files' };
/** Gemini's parts with content in them, whose kind is that of its media type. */
const INLINE: ReadonlySet<string> = new Set(['inlineData', 'inline_data']);
const MEDIA_TYPES: ReadonlySet<string> = new Set(['mimeType', 'mime_type']);
const TOOLS: ReadonlySet<string> = new Set(['tools', 'functions', 'response_format']);

const NAMES = ['type', ...Object.keys(KINDS), ...INLINE, ...TOOLS];
/** Names with other lengths or first bytes are skipped: most are never made a string. */
const FIRST_BYTES_BY_LENGTH: ReadonlySet<number>[] = [];
for (const name of NAMES) {
  const known = FIRST_BYTES_BY_LENGTH[name.length] ?? new Set();
  FIRST_BYTES_BY_LENGTH[name.length] = new Set([...known, name.charCodeAt(0)]);
}
const BACKSLASH = 0x5c;
const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;

/** @returns what counts the parts of a body into `parts`. A name or type may be written with escapes. */
export function countParts(parts: PromptParts): MemberVisitor {
  return (bytes, quote, nameEnd, value) => {
    const first = bytes[quote + 1] as number;
    if (!FIRST_BYTES_BY_LENGTH[nameEnd - quote - 2]?.has(first) && !hasEscape(bytes, quote, nameEnd)) return;
    const name = stringOf(bytes, quote, nameEnd);
    if (TOOLS.has(name)) parts.hasTools = true;
    const kind = kindOf(bytes, name, value);
    if (kind) parts[kind]++;
  };
}

function kindOf(bytes: Buffer, name: string, value: number): Kind | undefined {
  if (name === 'type') return bytes[value] === QUOTE ? known(KINDS_BY_TYPE, textAt(bytes, value)) : undefined;
  return INLINE.has(name) ? inlineKind(bytes, value) : known(KINDS, name);
}

/** Without a media type, the content may be anything. */
function inlineKind(bytes: Buffer, value: number): Kind | undefined {
  const type = bytes[value] === OPEN_BRACE ? mediaTypeIn(bytes, value) : '';
  if (type.startsWith('text/')) return undefined;
  if (type.startsWith('image/')) return 'images';
  return type.startsWith('audio/') ? 'recordings' : 'files';
}

/** The media type in an object that hasn't been checked yet; '' without one, and for several. */
function mediaTypeIn(bytes: Buffer, open: number): string {
  let type: string | null = null;
  let at = skipBlank(bytes, open + 1);
  while (bytes[at] === QUOTE) {
    const nameEnd = skipString(bytes, at);
    const value = skipColon(bytes, nameEnd);
    if (MEDIA_TYPES.has(stringOf(bytes, at, nameEnd)))
      type = type === null && bytes[value] === QUOTE ? textAt(bytes, value) : '';
    at = skipBlank(bytes, skipValue(bytes, value, 0));
    if (bytes[at] === COMMA) at = skipBlank(bytes, at + 1);
  }
  return type ?? '';
}

const textAt = (bytes: Buffer, quote: number): string => stringOf(bytes, quote, skipString(bytes, quote));

const known = (kinds: Readonly<Record<string, Kind>>, name: string): Kind | undefined =>
  Object.hasOwn(kinds, name) ? kinds[name] : undefined;

function hasEscape(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] === BACKSLASH) return true;
  return false;
}
