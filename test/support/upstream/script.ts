/**
 * A script says how the scripted upstream answers one request. Its text form travels in the model
 * name, so that a test in this process, a chaos run over many processes and a person with curl all
 * write the same thing:
 *
 *     s:tokens=40,every=5ms,end=cut@12,usage=always
 *
 * Fields are `name=value`, joined by commas; everything that is omitted has its default; times are `250ms` or
 * `2s`, sizes `900`, `200KB`, `1MB` or `1GB`. Every field, its values and its default stand in
 * `readFields` below, which is the one place where the grammar is written down. `s:` alone answers like
 * a healthy provider, and so does the model `ok`.
 *
 * How an answer ends is one field, `end=<how>@<where>`, because an answer has only one ending:
 *
 *   how       what happens there
 *   stop      the body ends properly; at `done` (the default) this is the healthy reply
 *   cut       FIN in the middle of the body
 *   reset     RST in the middle of the body
 *   hang      silence, with the connection left open
 *   comments  `: ping` (for JSON: blanks) for ever, every `every` milliseconds, without progress
 *   error     an error object in the stream (for JSON: as the whole body), then a proper end
 *
 *   where     the ending comes
 *   head      before the status line
 *   body      after the head, before the first byte of the body
 *   <k>       after k tokens
 *   finish    after the chunk with finish_reason, before the usage
 *   usage     after the usage, before [DONE]: `stop@usage` is a reply without [DONE]
 *   done      after [DONE], or after the last byte of a JSON body
 *
 * Several scripts joined by `|` answer the successive attempts that name the same model and the same
 * `user`; the last one answers all further ones: `s:status=503|status=429|tokens=3`.
 */
export type How = 'stop' | 'cut' | 'reset' | 'hang' | 'comments' | 'error';
export type Where = 'head' | 'body' | 'finish' | 'usage' | 'done' | number;
export type End = { how: How; where: Where };
export type Split = 'none' | 'random' | 'chars' | 'lines' | number;

const TIME_MS_MAX = 3_600_000;
const SIZE_BYTES_MAX = 4 * 1024 ** 3;
const TOKENS_MAX = 10_000_000;
/** A compressed or batched answer is put together in memory, so it may not be larger than this. */
const IN_MEMORY_BYTES_MAX = 64 * 1024 ** 2;

const HOWS: readonly How[] = ['stop', 'cut', 'reset', 'hang', 'comments', 'error'];
const WHERES: readonly Where[] = ['head', 'body', 'finish', 'usage', 'done'];
const SPLITS: readonly Split[] = ['none', 'random', 'chars', 'lines'];

/** Every field, in its own line: what it means, how it is read, and its default. */
function readFields(given: Given) {
  return {
    /** How many tokens there are. One token is one delta, `tok0 `, `tok1 `, ...; JSON joins them. */
    tokens: given.count('tokens', 8, TOKENS_MAX),
    /** Up to so many tokens more, another number at each attempt, decided by `seed` and its number. */
    spread: given.count('spread', 0, TOKENS_MAX),
    /**
     * `yes` does as it is asked: `n` choices, and none beyond `max_completion_tokens` or `max_tokens`,
     * hidden reasoning included; one that stops there has the finish reason `length`.
     */
    obey: given.oneOf('obey', 'no', 'yes'),
    /** Pause between two tokens. */
    every: given.time('every'),
    /** Pause before the status line. */
    head: given.time('head'),
    /** Pause after the head, before the first byte of the body. */
    first: given.time('first'),
    /** How and where the answer ends: see above. */
    end: given.as('end', { how: 'stop', where: 'done' }, parseEnd),
    /**
     * When a stream reports its usage. `asked`: in a last chunk without choices, when the request has
     * `stream_options.include_usage`; `always`: the same, unasked; both put `"usage":null` into
     * every chunk before it. `never`. `finish`: on the finish chunk. `every`: running totals on
     * every chunk. `nulls`: null on every chunk until the finish chunk. `broken`: a last chunk whose
     * counts are no counts. A JSON body has its usage unless this is `never` or `broken`.
     */
    usage: given.oneOf('usage', 'asked', 'always', 'never', 'finish', 'every', 'nulls', 'broken'),
    /** The prompt's tokens as reported, as if more was read than was sent; 0: as many as were sent. */
    prompt: given.count('prompt', 0, TOKENS_MAX),
    /** How many of the prompt's tokens are reported as cached. */
    cached: given.count('cached', 0, TOKENS_MAX),
    /** How many of the other tokens of the prompt are reported as written to a cache. */
    written: given.count('written', 0, TOKENS_MAX),
    /** Searches of the web by the provider's own tool, and seconds of audio, as reported. */
    searches: given.count('searches', 0, TOKENS_MAX),
    seconds: given.count('seconds', 0, TOKENS_MAX),
    /** Hidden reasoning tokens: never sent, but reported, and part of the completion's count. */
    reasoning: given.count('reasoning', 0, TOKENS_MAX),
    /**
     * `utf8` puts two-, three- and four-byte characters into every token; `json` makes the text a JSON
     * object, `{"text":"tok0 tok1 "}`.
     */
    text: given.oneOf('text', 'ascii', 'utf8', 'json'),
    /** Filler added to every token, made as it is sent: `tokens=1,pad=1GB` needs no memory. */
    pad: given.size('pad'),
    /** Sends the tokens as arguments of this many parallel tool calls instead of as content. */
    tools: given.count('tools', 0, 64),
    /**
     * Where writes (and HTTP chunks) are cut: every N bytes; `random` (1 to 40 bytes, by `seed`);
     * `chars` inside every multi-byte character; `lines` inside every `data:` and every blank line.
     */
    split: given.as('split', 'none', parseSplit),
    seed: given.count('seed', 1, 2 ** 31),
    /** Pause between two pieces of a split; on its own it sends byte by byte. */
    drip: given.time('drip'),
    /** How many events share one write. */
    batch: given.count('batch', 1, TOKENS_MAX),
    eol: given.oneOf('eol', 'lf', 'crlf'),
    /** `no` writes `data:{` without the customary blank. */
    space: given.oneOf('space', 'yes', 'no'),
    /** Anything but 2xx answers with an error object; 101 and 3xx answer with their own headers. */
    status: given.count('status', 200, 999),
    /** What an error answer's body is. */
    body: given.oneOf('body', 'json', 'html', 'empty'),
    /** The Retry-After of an error answer; without it 429 and 503 have `1` and others none. */
    retry: given.as('retry', '', (text) => text),
    /** `http`: the answer is not HTTP. `body`: status 200, and a body that is neither JSON nor SSE. */
    garbage: given.oneOf('garbage', 'none', 'http', 'body'),
    /** This much of filler in the reply's headers. */
    headers: given.size('headers'),
    /** How the body's end is reported; `auto` is chunked for SSE and Content-Length for JSON. */
    framing: given.oneOf('framing', 'auto', 'chunked', 'length', 'close'),
    /** Content-Length is wrong by this much: `-5` is too short, `+5` too long. */
    length: given.as('length', 0, parseOffset),
    /** Any but `identity` compresses the body although no one asked for it. */
    encoding: given.oneOf('encoding', 'identity', 'gzip', 'deflate', 'br', 'zstd'),
    /** `close` announces that the connection closes after the reply, and closes it. */
    connection: given.oneOf('connection', 'keep', 'close'),
    /** Closes the connection, unannounced, when it was idle for this long. */
    idle: given.as<number | null>('idle', null, parseTime),
  };
}

/** One parsed script: every field, with its default where the text was silent. */
export type Script = Readonly<ReturnType<typeof readFields>>;

/** A script text that does not say what to do. The message names the field. */
export class ScriptError extends Error {}

/**
 * Reads one script, without the leading `s:`.
 * @throws {ScriptError} for an unknown field, an invalid value, or fields that contradict one another.
 */
export function parseScript(source: string): Script {
  const given = readGiven(source);
  const script = readFields(given);
  const [unknown] = given.unread();
  if (unknown !== undefined) throw new ScriptError(`there is no field "${unknown}"`);
  checkRelations(script);
  return script;
}

/**
 * Reads the scripts of successive attempts, joined by `|`.
 * @throws {ScriptError} as `parseScript`.
 */
export function parsePlan(source: string): [Script, ...Script[]] {
  const [first = '', ...further] = source.split('|');
  return [parseScript(first), ...further.map((each) => parseScript(each))];
}

function checkRelations(script: Script): void {
  const { how, where } = script.end;
  if (typeof where === 'number' && where > script.tokens) {
    throw new ScriptError(`end: there is no token ${where} among ${script.tokens}`);
  }
  if (script.obey === 'yes' && script.tools > 0)
    throw new ScriptError('obey: several choices of tool calls are not made here');
  if (where === 'head' && how !== 'cut' && how !== 'reset' && how !== 'hang') {
    throw new ScriptError(`end: ${how}@head is not possible`);
  }
  const whole = script.encoding !== 'identity' || script.batch > 1;
  if (whole && script.pad * script.tokens > IN_MEMORY_BYTES_MAX) {
    throw new ScriptError(`pad: compressed and batch answers may not exceed ${IN_MEMORY_BYTES_MAX} bytes`);
  }
  if (script.length !== 0 && script.framing !== 'auto' && script.framing !== 'length') {
    throw new ScriptError('length: only a body with Content-Length can have a wrong one');
  }
}

/** The `name=value` items of a script text, each of which has to be read once. */
type Given = {
  as<T>(name: string, initial: T, parse: (text: string) => T): T;
  count(name: string, initial: number, max: number): number;
  time(name: string): number;
  size(name: string): number;
  oneOf<const T extends string>(name: string, initial: T, ...others: T[]): T;
  unread(): Iterable<string>;
};

function readGiven(source: string): Given {
  const values = new Map<string, string>();
  for (const item of source.split(',')) {
    const [name = '', ...rest] = item.trim().split('=');
    if (name !== '') values.set(name, rest.join('='));
  }

  function as<T>(name: string, initial: T, parse: (text: string) => T): T {
    const text = values.get(name);
    if (text === undefined) return initial;
    values.delete(name);
    try {
      return parse(text);
    } catch (error) {
      throw error instanceof ScriptError ? new ScriptError(`${name}: "${text}" ${error.message}`) : error;
    }
  }

  return {
    as,
    count: (name, initial, max) => as(name, initial, (text) => parseCount(text, max)),
    time: (name) => as(name, 0, parseTime),
    size: (name) => as(name, 0, parseSize),
    oneOf: (name, initial, ...others) => as(name, initial, (text) => pick(text, [initial, ...others])),
    unread: () => values.keys(),
  };
}

function pick<T>(text: string, allowed: readonly T[]): T {
  const found = allowed.find((each) => each === text);
  if (found === undefined) throw new ScriptError(`is none of ${allowed.join(', ')}`);
  return found;
}

function parseCount(text: string, max: number): number {
  if (!/^\d{1,10}$/.test(text) || Number(text) > max)
    throw new ScriptError(`is not a number from 0 to ${max}`);
  return Number(text);
}

function parseTime(text: string): number {
  const match = /^(\d{1,7})(ms|s)$/.exec(text);
  const timeMs = match ? Number(match[1]) * (match[2] === 's' ? 1000 : 1) : Infinity;
  if (timeMs > TIME_MS_MAX) throw new ScriptError('is not a time such as 250ms or 2s');
  return timeMs;
}

function parseSize(text: string): number {
  const match = /^(\d{1,10})(B|KB|MB|GB)?$/.exec(text);
  const power = ['B', 'KB', 'MB', 'GB'].indexOf(match?.[2] ?? 'B');
  const sizeBytes = match ? Number(match[1]) * 1024 ** power : Infinity;
  if (sizeBytes > SIZE_BYTES_MAX) throw new ScriptError('is not a size such as 900, 200KB or 1GB');
  return sizeBytes;
}

function parseOffset(text: string): number {
  if (!/^[+-]\d{1,9}$/.test(text)) throw new ScriptError('is not an offset such as -5 or +5');
  return Number(text);
}

function parseSplit(text: string): Split {
  return /^[1-9]\d{0,6}$/.test(text) ? Number(text) : pick(text, SPLITS);
}

function parseEnd(text: string): End {
  const [how = '', where = ''] = text.split('@');
  return { how: pick(how, HOWS), where: /^\d{1,8}$/.test(where) ? Number(where) : pick(where, WHERES) };
}
