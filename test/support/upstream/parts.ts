import type { Usage } from './ledger.ts';
import type { Script } from './script.ts';

/**
 * What a healthy reply consists of, in OpenAI's wire shape, cut into the parts that a script can
 * stop between. SSE and JSON replies have the same kinds of part in the same order, so that one
 * player serves both:
 *
 *     opening, token x N (with more openings between tool calls), finish, usage (maybe), done
 */
export type Part = {
  kind: 'opening' | 'token' | 'finish' | 'usage' | 'done' | 'error';
  head: Buffer;
  /** Filler bytes between head and tail, which are made only while they are sent. */
  fillBytes: number;
  tail: Buffer;
  /** How much of the part is the model's text. */
  contentBytes: number;
  /** The usage that the part reports. */
  usage: Usage | null;
};

/** What a reply is made for. */
export type Subject = {
  id: string;
  model: string;
  createdAtSeconds: number;
  askedUsage: boolean;
  promptTokens: number;
  choices: number;
  /** It stops because it was asked to stop there. */
  isAtLimit: boolean;
  /** The request's body, read when it is looked at. */
  asked(): Record<string, unknown>;
};

const NOTHING = Buffer.alloc(0);
const FILLER_MARK = '\u0001filler\u0001';
const FINGERPRINT = 'fp_scripted';

/** The usage that a reply with this many tokens reports. */
export function usageOf(script: Script, subject: Subject, tokens: number): Usage {
  const prompt = script.prompt || subject.promptTokens;
  const cached = Math.min(script.cached, prompt);
  const written = Math.min(script.written, prompt - cached);
  return {
    prompt,
    completion: tokens + script.reasoning,
    cached,
    ...(written > 0 ? { written } : {}),
    ...(script.searches > 0 ? { searches: script.searches } : {}),
    ...(script.seconds > 0 ? { seconds: script.seconds } : {}),
    reasoning: script.reasoning,
  };
}

/** The parts of an SSE reply: one event each. */
export function* sseParts(script: Script, subject: Subject): Generator<Part> {
  const asOpenAi = script.usage === 'always' || (script.usage === 'asked' && subject.askedUsage);
  const nulls = asOpenAi || script.usage === 'nulls';
  let sent = 0;

  function chunk(
    kind: Part['kind'],
    delta: object | null,
    finishReason: string | null,
    usage: Usage | null,
    index = 0,
  ): Part {
    const choices = delta ? [{ index, delta, logprobs: null, finish_reason: finishReason }] : [];
    const reported = usage ? { usage: usageJson(usage) } : nulls ? { usage: null } : {};
    const data = { ...chunkBase(subject), choices, ...reported, obfuscation: 'x'.repeat(1 + (sent % 8)) };
    return event(script, kind, data, usage);
  }
  const running = (): Usage | null => (script.usage === 'every' ? usageOf(script, subject, sent) : null);

  const content = script.tools > 0 ? null : '';
  yield chunk('opening', { role: 'assistant', content, refusal: null }, null, null);
  for (const piece of pieces(script)) {
    const { call, text } = piece;
    if (call !== null && piece.opensCall) {
      const opened = { index: call, id: callId(subject, call), type: 'function' };
      const named = { ...opened, function: { name: `tool_${call}`, arguments: '' } };
      yield chunk('opening', { tool_calls: [named] }, null, null);
    }
    const fragment = { index: call, function: { arguments: text } };
    const delta = call === null ? { content: text } : { tool_calls: [fragment] };
    for (let index = 0; index < subject.choices; index += 1) {
      sent += 1;
      yield { ...chunk('token', delta, null, running(), index), contentBytes: contentBytes(script, piece) };
    }
  }
  const onFinish = script.usage === 'finish' || script.usage === 'nulls';
  for (let index = 0; index < subject.choices; index += 1) {
    yield chunk(
      'finish',
      {},
      reasonOf(script, subject),
      onFinish ? usageOf(script, subject, sent) : running(),
      index,
    );
  }
  if (asOpenAi || script.usage === 'every') yield chunk('usage', null, null, usageOf(script, subject, sent));
  if (script.usage === 'broken') {
    yield event(script, 'usage', { ...chunkBase(subject), choices: [], usage: BROKEN_USAGE }, null);
  }
  yield part('done', eventText(script, '[DONE]'), null);
}

/** The parts of a JSON reply: one object, cut between its tokens. */
export function* jsonParts(script: Script, subject: Subject): Generator<Part> {
  const base = {
    id: subject.id,
    object: 'chat.completion',
    created: subject.createdAtSeconds,
    model: subject.model,
  };
  const start = `${JSON.stringify(base).slice(0, -1)},"choices":[`;
  const beforeMessage = (index: number): string =>
    `{"index":${index},"message":{"role":"assistant","content":`;
  const reason = reasonOf(script, subject);
  const afterMessage = `"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"${reason}"}`;
  let sent = 0;

  for (let index = 0; index < subject.choices; index += 1) {
    const before = index === 0 ? start : `${afterMessage},`;
    yield part(
      'opening',
      before + beforeMessage(index) + (script.tools > 0 ? 'null,"tool_calls":[' : '"'),
      null,
    );
    for (const piece of pieces(script)) {
      const { call } = piece;
      if (call !== null && piece.opensCall) {
        const opened = `{"id":"${callId(subject, call)}","type":"function"`;
        yield part(
          'opening',
          `${call > 0 ? '"}},' : ''}${opened},"function":{"name":"tool_${call}","arguments":"`,
          null,
        );
      }
      sent += 1;
      const escaped = JSON.stringify(piece.text).slice(1, -1);
      yield { ...part('token', escaped, null, script.pad), contentBytes: contentBytes(script, piece) };
    }
    const isLast = index === subject.choices - 1;
    const closing = script.tools === 0 ? '",' : sent > 0 ? '"}}],' : '],';
    yield part(isLast ? 'finish' : 'opening', isLast ? `${closing}${afterMessage}]` : closing, null);
  }
  if (script.usage === 'broken') {
    yield part('usage', `,"usage":${JSON.stringify(BROKEN_USAGE)}`, null);
  } else if (script.usage !== 'never') {
    const usage = usageOf(script, subject, sent);
    yield part('usage', `,"usage":${JSON.stringify(usageJson(usage))}`, usage);
  }
  yield part('done', `,"service_tier":"default","system_fingerprint":"${FINGERPRINT}"}`, null);
}

/** An error after a status of 200: an event of a stream, or the whole of a JSON body. */
export function errorPart(script: Script, sse: boolean): Part {
  const message = 'The server had an error while processing your request.';
  const text = JSON.stringify({
    error: { message, type: 'server_error', param: null, code: 'server_error' },
  });
  return part('error', sse ? eventText(script, text) : text, null);
}

/** Bytes that are no reply of a model, as one part. */
export function plainPart(bytes: Buffer): Part {
  return { kind: 'opening', head: bytes, fillBytes: 0, tail: NOTHING, contentBytes: 0, usage: null };
}

/** Keeps a reply alive without taking it further. */
export function commentText(script: Script, sse: boolean): Buffer {
  return Buffer.from(sse ? eventLines(script, ': ping') : ' ');
}

/** A usage that must not be believed: a count is negative, another is no number. */
export const BROKEN_USAGE = { prompt_tokens: -1, completion_tokens: 'many', total_tokens: null };

/** One token: its text, the tool call that it belongs to, and whether that begins with it. */
export type Piece = { text: string; call: number | null; opensCall: boolean };

export function* pieces(script: Script): Generator<Piece> {
  const calls = script.tools;
  const perCall = calls > 0 ? Math.ceil(script.tokens / calls) : 0;
  const filler = script.pad > 0 ? FILLER_MARK : '';
  for (let n = 0; n < script.tokens; n += 1) {
    const token = `${script.text === 'utf8' ? `t\u00f6k\u20ac\u{1f600}${n}` : `tok${n}`}${filler} `;
    if (calls === 0) {
      const [opens, closes] = script.text === 'json' ? [n === 0, n + 1 === script.tokens] : [false, false];
      yield { text: (opens ? '{"text":"' : '') + token + (closes ? '"}' : ''), call: null, opensCall: false };
      continue;
    }
    const call = Math.floor(n / perCall);
    const opens = n % perCall === 0;
    const closes = (n + 1) % perCall === 0 || n + 1 === script.tokens;
    // The fragments of one call join to the JSON object {"text":"tok0 tok1 "}.
    const text = (opens ? '{"text":"' : '') + token + (closes ? '"}' : '');
    yield { text, call, opensCall: opens };
  }
}

export function contentBytes(script: Script, piece: Piece): number {
  return Buffer.byteLength(piece.text.replace(FILLER_MARK, '')) + script.pad;
}

function reasonOf(script: Script, { isAtLimit }: Subject): string {
  if (isAtLimit) return 'length';
  return script.tools > 0 ? 'tool_calls' : 'stop';
}

function callId(subject: Subject, call: number): string {
  return `call_${subject.id.replace(/^chatcmpl-/, '')}_${call}`;
}

function chunkBase(subject: Subject): object {
  return {
    id: subject.id,
    object: 'chat.completion.chunk',
    created: subject.createdAtSeconds,
    model: subject.model,
    service_tier: 'default',
    system_fingerprint: FINGERPRINT,
  };
}

/** Tokens written to a cache, in the spelling of OpenAI's newer models. */
export const cacheWrite = ({ written }: Usage): object =>
  written === undefined ? {} : { cache_write_tokens: written };

/** Units in the spellings of Perplexity and Mistral. */
export const units = ({ searches, seconds }: Usage): object => ({
  ...(searches === undefined ? {} : { num_search_queries: searches }),
  ...(seconds === undefined ? {} : { prompt_audio_seconds: seconds }),
});

function usageJson(usage: Usage): object {
  return {
    ...units(usage),
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: { cached_tokens: usage.cached, ...cacheWrite(usage), audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

export function event(script: Script, kind: Part['kind'], data: object, usage: Usage | null): Part {
  return part(kind, eventText(script, JSON.stringify(data)), usage, script.pad);
}

function eventText(script: Script, data: string): string {
  return eventLines(script, `data:${script.space === 'yes' ? ' ' : ''}${data}`);
}

/** An event that says its name besides. */
export function namedEvent(
  script: Script,
  kind: Part['kind'],
  data: { type: string; [member: string]: unknown },
  usage: Usage | null = null,
): Part {
  const lines = [`event: ${data.type}`, `data:${script.space === 'yes' ? ' ' : ''}${JSON.stringify(data)}`];
  return part(kind, eventLines(script, lines.join(script.eol === 'crlf' ? '\r\n' : '\n')), usage, script.pad);
}

function eventLines(script: Script, line: string): string {
  return script.eol === 'crlf' ? `${line}\r\n\r\n` : `${line}\n\n`;
}

/** A piece's text as it stands when it is repeated, without everything that is made only while it is sent. */
export const plainText = ({ text }: Piece): string => text.replace(FILLER_MARK, '');

/** Cuts the text where the filler goes. The mark stands in a JSON string, where it is escaped. */
export function part(kind: Part['kind'], text: string, usage: Usage | null, fillBytes = 0): Part {
  const [head = '', tail = null] = text.split(JSON.stringify(FILLER_MARK).slice(1, -1));
  return {
    kind,
    head: Buffer.from(head),
    fillBytes: tail === null ? 0 : fillBytes,
    tail: tail === null ? NOTHING : Buffer.from(tail),
    contentBytes: 0,
    usage,
  };
}
