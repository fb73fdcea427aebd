import {
  AUDIO_TOKENS_MAX,
  CONTEXT_TOKENS_MAX,
  IMAGE_TOKENS,
  IMAGE_TOKENS_MAX,
  REPLY_FIRST_TOKENS,
  REPLY_LEAST_TOKENS,
  REPLY_LENGTHS_MAX,
  TEMPLATE_TOKENS_MAX,
  TOOLS_TEMPLATE_TOKENS_MAX,
} from '#server/limits/bounds.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';

/**
 * How many tokens a request will take, before anybody has counted them. No tokenizer: an exact one
 * can hold the event loop up for seconds. Bytes fall into classes, and each step from one class to
 * the next has a weight; what follows a word of small letters weighs little, a change within a run
 * of mixed characters almost a token. The weights were fitted to the larger of the counts of the
 * cl100k and o200k tokenizers.
 */
const CLASSES = {
  blank: [0x20],
  line: [0x09, 0x0a, 0x0d],
  lower: range(0x61, 0x7a),
  u: [0x75],
  upper: range(0x41, 0x5a),
  digit: range(0x30, 0x39),
  backslash: [0x5c],
  // The first bytes of UTF-8 characters, by script; bytes that follow them weigh nothing.
  following: range(0x80, 0xbf),
  accented: range(0xc0, 0xcc),
  greekHebrew: [...range(0xcd, 0xcf), ...range(0xd4, 0xd7)],
  cyrillic: range(0xd0, 0xd3),
  arabic: range(0xd8, 0xdf),
  indic: [0xe0],
  georgian: [0xe1],
  symbol: [0xe2],
  kana: [0xe3],
  han: range(0xe4, 0xe9),
  hangul: range(0xea, 0xed),
  wide: [0xee, 0xef],
  emoji: range(0xf0, 0xff),
} as const;
type ClassName = keyof typeof CLASSES | 'punctuation';
const NAMES: readonly ClassName[] = ['punctuation', ...(Object.keys(CLASSES) as (keyof typeof CLASSES)[])];

/** Hundredths of a token that a byte weighs, whatever is before it. */
const WEIGHTS: Record<ClassName, number> = {
  blank: 2,
  line: 60,
  lower: 90,
  u: 90,
  upper: 95,
  digit: 105,
  backslash: 70,
  punctuation: 88,
  following: 0,
  accented: 200,
  greekHebrew: 120,
  cyrillic: 75,
  arabic: 95,
  indic: 165,
  georgian: 230,
  symbol: 190,
  kana: 130,
  han: 155,
  hangul: 155,
  wide: 150,
  emoji: 320,
};
/** What it weighs after a certain class. */
const AFTER: Partial<Record<ClassName, Partial<Record<ClassName, number>>>> = {
  blank: { blank: 12, lower: 100, u: 100, upper: 100, digit: 120, punctuation: 85 },
  line: { line: 10, blank: 60 },
  lower: { lower: 10, u: 10 },
  u: { lower: 10, u: 10 },
  upper: { lower: 25, u: 25, upper: 38 },
  digit: { digit: 45, lower: 85, u: 85, punctuation: 95 },
  punctuation: { punctuation: 52, lower: 78, u: 78, backslash: 45 },
  backslash: { punctuation: 25, backslash: 75, lower: 30, u: 30 },
  following: { lower: 45, u: 45 },
};

/**
 * Long runs without a blank or a sign (keys, digests, base64) weigh at least this; so do digits, which many
 * tokenizers count one by one.
 */
const RUN_WEIGHT = 80;
/** A window with fewer breaks than one in so many bytes is such a run. */
const RUN_BYTES = 16;
/** A character that the client wrote as `\\uXXXX`, whichever it is. */
const ESCAPE_WEIGHT = 150;
const ESCAPE_BYTES = 6;

/** Samples are windows of this many bytes: some twenty words. */
const WINDOW_BYTES = 128;
/** Bodies up to this are looked at whole; of others every so many windows, spread over all of it. */
const WHOLE_BYTES = 1_024;
const BYTES_PER_WINDOW = 512;
const WINDOWS_MAX = 72;

/** A recording or document within a body: base64 text has about so many bytes to a token of it. */
const FILE_BYTES_PER_TOKEN = 128;

/** A sum of weights, of breaks and of escapes in one number, so that each byte costs one addition. */
const BREAK = 1 << 16;
const ESCAPE = 1 << 24;
const STRIDE = 32;
const CLASS_OF = new Uint8Array(256);
const STEPS = new Uint32Array(STRIDE * STRIDE);
const BREAKERS = new Set<ClassName>(NAMES.filter((name) => !['u', 'lower', 'upper', 'digit'].includes(name)));

for (const [name, bytes] of Object.entries(CLASSES))
  for (const byte of bytes) CLASS_OF[byte] = NAMES.indexOf(name as ClassName);
for (const [from, before] of NAMES.entries()) {
  for (const [to, name] of NAMES.entries()) {
    const weight = AFTER[before]?.[name] ?? WEIGHTS[name];
    STEPS[from * STRIDE + to] =
      weight + (BREAKERS.has(name) ? BREAK : 0) + (before === 'backslash' && name === 'u' ? ESCAPE : 0);
  }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

/** What a part of a body weighs, in hundredths of a token, and how much of it looks like no text. */
type Sample = { weight: number; runs: number };

/** Adds a window of at most 128 bytes to a sample: more would overflow the sum. */
function weigh(body: Buffer, from: number, to: number, into: Sample): void {
  let before = 0;
  let sum = 0;
  for (let at = from; at < to; at++) {
    const name = CLASS_OF[body[at] as number] as number;
    sum += STEPS[before * STRIDE + name] as number;
    before = name;
  }
  const length = to - from;
  const weight = sum & 0xffff;
  const escapes = sum >>> 24;
  if (((sum >>> 16) & 0xff) * RUN_BYTES <= length) {
    into.runs += 1;
    into.weight += Math.max(weight, length * RUN_WEIGHT);
  } else if (escapes === 0) into.weight += weight;
  else {
    const share = Math.min(1, (escapes * ESCAPE_BYTES) / length);
    into.weight += weight * (1 - share) + escapes * ESCAPE_WEIGHT;
  }
}

/** Weighs what is between two places of a body: all of it, or windows spread evenly over it. */
function weighPart(body: Buffer, from: number, to: number): Sample {
  const sample = { weight: 0, runs: 0 };
  const length = to - from;
  if (length <= WHOLE_BYTES) {
    for (let at = from; at < to; at += WINDOW_BYTES) weigh(body, at, Math.min(at + WINDOW_BYTES, to), sample);
    return sample;
  }
  const windows = Math.min(
    WINDOWS_MAX,
    Math.max(WHOLE_BYTES / WINDOW_BYTES, Math.ceil(length / BYTES_PER_WINDOW)),
  );
  const step = (length - WINDOW_BYTES) / (windows - 1);
  for (let index = 0; index < windows; index++) {
    const at = from + Math.floor(index * step);
    weigh(body, at, at + WINDOW_BYTES, sample);
  }
  sample.weight *= length / (windows * WINDOW_BYTES);
  return sample;
}

/**
 * What a request's prompt will probably count, in tokens: rather more than it will than less. For
 * prose and code about a third too much; it takes some microseconds for a body of any size, since
 * only samples of a large one are looked at. Images and files within the body are not taken for
 * text, unless they are so small that no sample shows them.
 */
export function promptEstimate(body: Buffer): number {
  const all = weighPart(body, 0, body.length);
  if (all.runs === 0) return Math.ceil(all.weight / 100);
  let weight = 0;
  let tokens = 0;
  let from = 0;
  for (let attachment = nextAttachment(body, 0); attachment; attachment = nextAttachment(body, from)) {
    weight += weighPart(body, from, attachment.from).weight;
    tokens += attachment.image
      ? IMAGE_TOKENS
      : Math.ceil((attachment.to - attachment.from) / FILE_BYTES_PER_TOKEN);
    from = attachment.to;
  }
  return (
    Math.ceil((from === 0 ? all.weight : weight + weighPart(body, from, body.length).weight) / 100) + tokens
  );
}

type Attachment = { from: number; to: number; image: boolean };

/**
 * The next base64 text that stands for an image, a recording or a file: `data:…;base64,…` or `"data":"…"`.
 */
function nextAttachment(body: Buffer, from: number): Attachment | null {
  const url = begins(body, ';base64,', from);
  const data = begins(body, '"data"', from);
  const marker = Math.min(url, data);
  if (marker === Infinity) return null;
  const start = url < data ? url + ';base64,'.length : body.indexOf(QUOTE, data + '"data"'.length) + 1;
  const end = start === 0 ? -1 : body.indexOf(QUOTE, start);
  const to = end < 0 ? body.length : end;
  if (to - start < WINDOW_BYTES) return nextAttachment(body, Math.max(to, marker + 1));
  return { from: start, to, image: url < data && body.lastIndexOf('data:image/', url) > url - 64 };
}

const QUOTE = 0x22;

function begins(body: Buffer, text: string, from: number): number {
  const at = body.indexOf(text, from, 'latin1');
  return at < 0 ? Infinity : at;
}

/** The parts of a prompt whose tokens its bytes do not show, by the member that holds each. */
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
/** The same in Anthropic's Messages, by the type that each part says. */
const TYPES: readonly (readonly [string, number])[] = [
  ['"image"', IMAGE_TOKENS_MAX],
  ['"document"', CONTEXT_TOKENS_MAX],
];
/** What stands in the last bytes before a type. Nobody writes so many blanks; who does is held to more. */
const TYPE_BEFORE = /^\s*$|"type"\s*:\s*$/;
const TYPE_BEFORE_BYTES = 64;
/** What makes a provider put in its instructions for tools. */
const TOOLS = ['"tools"', '"functions"', '"response_format"'];
const PART_BEGINNINGS = ['"image_', '"input_', '"audio_', '"video_', '"file_'];
const PART_BYTES_MAX = Math.max(...Object.keys(PARTS).map((name) => name.length));

/**
 * A bound that no provider's count of a request's prompt exceeds, in tokens. A tokenizer gives at
 * least one byte of text to each token, and JSON is no shorter than the text in it; what a provider
 * puts around the prompt and what images and files may count is added.
 */
export function promptBound(body: Buffer): number {
  let parts = 0;
  for (const beginning of PART_BEGINNINGS)
    for (const at of places(body, beginning)) parts += partAt(body, at);
  for (const [type, tokens] of TYPES) {
    for (const at of places(body, type))
      if (TYPE_BEFORE.test(body.toString('latin1', Math.max(0, at - TYPE_BEFORE_BYTES), at))) parts += tokens;
  }
  // A name may be spelt with escapes. No client does that to letters, so each may stand for any part.
  for (const at of places(body, '\\u00')) {
    const digit = body[at + 4] as number;
    if (digit >= 0x34 && digit <= 0x37) parts += CONTEXT_TOKENS_MAX;
  }
  const template = TOOLS.some((name) => body.includes(name, 0, 'latin1'))
    ? TOOLS_TEMPLATE_TOKENS_MAX
    : TEMPLATE_TOKENS_MAX;
  return body.length + template + Math.min(parts, CONTEXT_TOKENS_MAX);
}

function* places(body: Buffer, text: string): Generator<number> {
  for (let at = body.indexOf(text, 0, 'latin1'); at >= 0; at = body.indexOf(text, at + 1, 'latin1')) yield at;
}

/** What the member that begins at a quote may add; 0 when it is none of a part. */
function partAt(body: Buffer, quote: number): number {
  const end = body.indexOf(QUOTE, quote + 1);
  if (end < 0 || end - quote - 1 > PART_BYTES_MAX) return 0;
  const tokens = PARTS[body.toString('latin1', quote + 1, end)];
  if (tokens === undefined) return 0;
  let at = end + 1;
  while (at < body.length && (body[at] as number) <= 0x20) at++;
  return body[at] === COLON ? tokens : 0;
}

const COLON = 0x3a;

/** How far an estimate goes towards a longer reply, and, once it has seen some, towards a shorter one. */
const STEP_UP = 1 / 2;
const STEP_DOWN = 1 / 32;
/**
 * A reply longer than so many times what was expected counts as one of that length: it may be the only one.
 */
const SURPRISE = 4;

/**
 * Every so many replies a length moves to the end of its map: moving it each time would cost more than
 * learning.
 */
const REFRESH_EVERY = 64;

/** An upper estimate of replies like those seen: some nine of ten are no longer. */
type Length = { tokens: number; seen: number };

/**
 * How long replies are, learned from those that came: for each key and model, else for the model,
 * else a guess. Rises fast with long replies and falls slowly with short ones. What it forgets is,
 * about, what was heard of least lately.
 */
export class CompletionEstimates {
  readonly #pairs = new Map<string, Length>();
  readonly #models = new Map<string, Length>();

  /** How long a reply to this key from this model will probably be at most, in tokens. */
  estimate(keyId: string, model: string): number {
    const length = this.#pairs.get(pairOf(keyId, model)) ?? this.#models.get(model);
    return length
      ? Math.min(Math.max(Math.ceil(length.tokens), REPLY_LEAST_TOKENS), TOKENS_MAX)
      : REPLY_FIRST_TOKENS;
  }

  /** Takes a reply's length in. One that is no count changes nothing. */
  learn(keyId: string, model: string, outputTokens: number): void {
    if (!(outputTokens >= 0)) return;
    const tokens = Math.min(outputTokens, TOKENS_MAX);
    const pair = pairOf(keyId, model);
    const before = this.#models.get(model);
    // A pair begins where its model is, and has its own way from there.
    const known = this.#pairs.get(pair);
    const length = known ?? { tokens: before?.tokens ?? REPLY_FIRST_TOKENS, seen: 0 };
    learnInto(length, tokens);
    if (!known || length.seen % REFRESH_EVERY === 0) keep(this.#pairs, pair, length);
    const ofModel = before ?? { tokens: REPLY_FIRST_TOKENS, seen: 0 };
    learnInto(ofModel, tokens);
    if (!before || ofModel.seen % REFRESH_EVERY === 0) keep(this.#models, model, ofModel);
  }

  /** How many lengths are kept. */
  get size(): number {
    return this.#pairs.size + this.#models.size;
  }
}

/** Key ids have a fixed length, so no two pairs are written alike. */
const pairOf = (keyId: string, model: string): string => `${keyId} ${model}`;

function learnInto(length: Length, tokens: number): void {
  // The first replies count for more, so that a guess is soon forgotten.
  const step = tokens > length.tokens ? STEP_UP : Math.max(STEP_DOWN, 1 / (length.seen + 2));
  const taken = Math.min(tokens, Math.max(length.tokens, REPLY_LEAST_TOKENS) * SURPRISE);
  length.tokens += (taken - length.tokens) * step;
  length.seen++;
}

/** Puts an entry last in the order of the map, in which the first is dropped when there are too many. */
function keep(map: Map<string, Length>, name: string, length: Length): void {
  map.delete(name);
  map.set(name, length);
  if (map.size > REPLY_LENGTHS_MAX / 2) map.delete(map.keys().next().value as string);
}
