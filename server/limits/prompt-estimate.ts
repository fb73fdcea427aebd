import { IMAGE_TOKENS_TYPICAL } from '#server/limits/bounds.ts';

/**
 * Estimates the tokens of a prompt from its bytes. An exact tokenizer can block the event loop for
 * seconds, so this one only weighs bytes: they fall into classes, and each step from one class to
 * the next has a weight. A lower-case letter within a word weighs little, a change within a run of
 * mixed characters almost a token. The weights were fitted to the larger of the counts of the
 * cl100k and o200k tokenizers. Pure.
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

/** The weight of a byte in hundredths of a token, after any other class. */
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
/** The weight after a certain class. */
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
 * Each byte of a long run without white space or punctuation (keys, digests, base64) weighs at least
 * this, and so do digits, which many tokenizers count one by one.
 */
const RUN_WEIGHT = 80;
/** A window with fewer breaks than one in so many bytes is such a run. */
const RUN_BYTES = 16;
/** Any character that the client wrote as `\uXXXX`. */
const ESCAPE_WEIGHT = 150;
const ESCAPE_BYTES = 6;

/** Samples are windows of this many bytes: some twenty words. */
const WINDOW_BYTES = 128;
/** Bodies up to this size are read completely; of larger ones, evenly spread windows. */
const WHOLE_BYTES = 1_024;
const BYTES_PER_WINDOW = 512;
const WINDOWS_MAX = 72;

/** A recording or document within a body: about so many bytes of base64 per token. */
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

/** The weight of a part of a body in hundredths of a token, and how many of its windows look like no text. */
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

/** Weighs a part of a body: completely, or by windows spread evenly over it. */
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

/** The prompt in the body of a request. */
export type PromptSize = {
  /** Its tokens by the weights of its bytes. */
  tokens: number;
  /** Its bytes without images and files in base64, and the typical tokens of these. */
  textBytes: number;
  fileTokens: number;
};

/**
 * Estimates the tokens of a request's prompt, rather too high than too low: about a third too high
 * for prose and code. Takes some microseconds for a body of any size, since only samples of a large
 * one are read. Images and files within the body are recognized, unless they are so small that no
 * sample shows them.
 */
export function promptSize(body: Buffer): PromptSize {
  const all = weighPart(body, 0, body.length);
  if (all.runs === 0) return { tokens: Math.ceil(all.weight / 100), textBytes: body.length, fileTokens: 0 };
  let weight = 0;
  let textBytes = 0;
  let fileTokens = 0;
  let from = 0;
  const attachments = new Attachments(body);
  for (let attachment = attachments.next(); attachment; attachment = attachments.next()) {
    weight += weighPart(body, from, attachment.from).weight;
    textBytes += attachment.from - from;
    fileTokens += tokensOf(attachment);
    from = attachment.to;
  }
  if (from === 0) weight = all.weight;
  else weight += weighPart(body, from, body.length).weight;
  textBytes += body.length - from;
  return { tokens: Math.ceil(weight / 100) + fileTokens, textBytes, fileTokens };
}

type Attachment = { from: number; to: number; image: boolean };

const tokensOf = ({ from, to, image }: Attachment): number =>
  image ? IMAGE_TOKENS_TYPICAL : Math.ceil((to - from) / FILE_BYTES_PER_TOKEN);

const URL = ';base64,';
const DATA = '"data"';

/** The images, recordings and files of a body in base64, in order: `data:…;base64,…` or `"data":"…"`. */
class Attachments {
  readonly #body: Buffer;
  #from = 0;
  /** The next of each beginning from there on, so that the body is searched for each once. */
  #url = -1;
  #data = -1;

  constructor(body: Buffer) {
    this.#body = body;
  }

  next(): Attachment | null {
    const body = this.#body;
    for (;;) {
      const from = this.#from;
      if (this.#url < from) this.#url = begins(body, URL, from);
      if (this.#data < from) this.#data = begins(body, DATA, from);
      const url = this.#url;
      const marker = Math.min(url, this.#data);
      if (marker === Infinity) return null;
      const start = url === marker ? url + URL.length : body.indexOf(QUOTE, marker + DATA.length) + 1;
      const end = start === 0 ? -1 : body.indexOf(QUOTE, start);
      const to = end < 0 ? body.length : end;
      this.#from = Math.max(to, marker + 1);
      if (to - start >= WINDOW_BYTES) return { from: start, to, image: url === marker && isImage(body, url) };
    }
  }
}

/** Whether the type of a `data:` URL, which ends here, is that of an image. */
const isImage = (body: Buffer, end: number): boolean =>
  body.toString('latin1', Math.max(0, end - MEDIA_TYPE_BYTES_MAX), end).includes('data:image/');

const QUOTE = 0x22;
/** With `data:` and parameters. */
const MEDIA_TYPE_BYTES_MAX = 64;

function begins(body: Buffer, text: string, from: number): number {
  const at = body.indexOf(text, from, 'latin1');
  return at < 0 ? Infinity : at;
}
