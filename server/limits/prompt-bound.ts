import {
  AUDIO_TOKENS_MAX,
  CONTEXT_TOKENS_MAX,
  IMAGE_TOKENS_MAX,
  TEMPLATE_TOKENS_MAX,
  TOOLS_TEMPLATE_TOKENS_MAX,
} from '#server/limits/bounds.ts';

/** An upper bound of the tokens of a prompt, for hard limits. Pure. */

const QUOTE = 0x22;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

/** The parts of a prompt whose tokens don't follow from its bytes, by the member that holds each. */
const PARTS: Readonly<Record<string, number>> = {
  image_url: IMAGE_TOKENS_MAX,
  image_embeds: IMAGE_TOKENS_MAX,
  input_image: IMAGE_TOKENS_MAX,
  audio_url: AUDIO_TOKENS_MAX,
  input_audio: AUDIO_TOKENS_MAX,
  video_url: CONTEXT_TOKENS_MAX,
  file_url: CONTEXT_TOKENS_MAX,
  file_id: CONTEXT_TOKENS_MAX,
  file_data: CONTEXT_TOKENS_MAX,
  input_file: CONTEXT_TOKENS_MAX,
};
/** The same in Anthropic's Messages, by the `type` of each part. */
const TYPES: readonly (readonly [string, number])[] = [
  ['"image"', IMAGE_TOKENS_MAX],
  ['"document"', CONTEXT_TOKENS_MAX],
];
/** The bytes before a type. With more white space than this, the part is counted to be safe. */
const TYPE_BEFORE = /^\s*$|"type"\s*:\s*$/;
const TYPE_BEFORE_BYTES = 64;
/** The members that make a provider add its instructions for tools. */
const TOOLS = ['"tools"', '"functions"', '"response_format"'];
const PART_BYTES_MAX = Math.max(...Object.keys(PARTS).map((name) => name.length));
const UNDERSCORE = 0x5f;
/** How far before its only underscore the quote of a part's name is: `"image_url"`, `"file_id"`. */
const QUOTE_BEFORE_UNDERSCORE = [...new Set(Object.keys(PARTS).map((name) => name.indexOf('_') + 1))];
/** Node searches for longer texts by another algorithm, which takes four times as long in JSON. */
const SEARCHED_BYTES = 7;

/**
 * An upper bound of every provider's count of a prompt, in tokens. Each token covers at least one
 * byte of text, and JSON is not shorter than the text in it. The provider's template, images and
 * files are added.
 */
export function promptBound(body: Buffer): number {
  const template = TOOLS.some((name) => body.includes(name, 0, 'latin1'))
    ? TOOLS_TEMPLATE_TOKENS_MAX
    : TEMPLATE_TOKENS_MAX;
  return body.length + template + Math.min(partsBound(body), CONTEXT_TOKENS_MAX);
}

/** The same of the parts alone whose tokens don't follow from their bytes; 0: the prompt is all text. */
export function partsBound(body: Buffer): number {
  let tokens = 0;
  for (const part of partsOf(body)) tokens += part;
  return tokens;
}

/** The number of recordings, videos and other files, each of which may be audio. */
export function mediaParts(body: Buffer): number {
  let count = 0;
  for (const part of partsOf(body)) if (part > IMAGE_TOKENS_MAX) count++;
  return count;
}

/** The most tokens of each part. Each pass looks for bytes that are rare in JSON, for bodies of megabytes. */
function* partsOf(body: Buffer): Generator<number> {
  for (let at = body.indexOf(UNDERSCORE); at >= 0; at = body.indexOf(UNDERSCORE, at + 1)) {
    for (const before of QUOTE_BEFORE_UNDERSCORE)
      if (body[at - before] === QUOTE) yield partAt(body, at - before);
  }
  for (const [type, tokens] of TYPES) {
    for (const at of places(body, type.slice(0, SEARCHED_BYTES))) {
      if (body.toString('latin1', at, at + type.length) !== type) continue;
      if (TYPE_BEFORE.test(body.toString('latin1', Math.max(0, at - TYPE_BEFORE_BYTES), at))) yield tokens;
    }
  }
  // A name may be written with escapes. No client escapes letters, so each escape may stand for any part.
  for (const at of places(body, 'u00')) {
    const digit = body[at + 3] as number;
    if (body[at - 1] === BACKSLASH && digit >= 0x34 && digit <= 0x37) yield CONTEXT_TOKENS_MAX;
  }
}

function* places(body: Buffer, text: string): Generator<number> {
  for (let at = body.indexOf(text, 0, 'latin1'); at >= 0; at = body.indexOf(text, at + 1, 'latin1')) yield at;
}

/** The tokens that the member beginning at a quote may add; 0 when it is not a part. */
function partAt(body: Buffer, quote: number): number {
  const end = body.indexOf(QUOTE, quote + 1);
  if (end < 0 || end - quote - 1 > PART_BYTES_MAX) return 0;
  const tokens = PARTS[body.toString('latin1', quote + 1, end)];
  if (tokens === undefined) return 0;
  let at = end + 1;
  while (at < body.length && (body[at] as number) <= 0x20) at++;
  return body[at] === COLON ? tokens : 0;
}
