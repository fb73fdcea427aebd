import {
  BROKEN_USAGE,
  cacheWrite,
  contentBytes,
  event,
  namedEvent,
  type Part,
  part,
  pieces,
  type Subject,
  usageOf,
} from './parts.ts';
import type { Script } from './script.ts';

/** Replies of the completions before chat, of the routes that write no text, and of audio. */

function base({ id, createdAtSeconds, model }: Subject): object {
  return { id: id.replace('chatcmpl', 'cmpl'), object: 'text_completion', created: createdAtSeconds, model };
}

const choice = (index: number, text: string, finish: string | null): object => ({
  index,
  text,
  logprobs: null,
  finish_reason: finish,
});

export function* completionSse(script: Script, subject: Subject): Generator<Part> {
  const finish = subject.isAtLimit ? 'length' : 'stop';
  let sent = 0;
  for (const piece of pieces({ ...script, tools: 0 })) {
    for (let index = 0; index < subject.choices; index += 1) {
      sent += 1;
      const data = { ...base(subject), choices: [choice(index, piece.text, null)] };
      yield { ...event(script, 'token', data, null), contentBytes: contentBytes(script, piece) };
    }
  }
  for (let index = 0; index < subject.choices; index += 1)
    yield event(script, 'finish', { ...base(subject), choices: [choice(index, '', finish)] }, null);
  if (script.usage === 'always' || (script.usage === 'asked' && subject.askedUsage)) {
    const usage = usageOf(script, subject, sent);
    yield event(script, 'usage', { ...base(subject), choices: [], usage: countsOf(usage) }, usage);
  }
  yield part('done', 'data: [DONE]\n\n', null);
}

export function* completionJson(script: Script, subject: Subject): Generator<Part> {
  const reason = subject.isAtLimit ? 'length' : 'stop';
  let sent = 0;
  yield part('opening', `${JSON.stringify(base(subject)).slice(0, -1)},"choices":[`, null);
  for (let index = 0; index < subject.choices; index += 1) {
    yield part(
      'opening',
      `${index > 0 ? ',' : ''}{"index":${index},"logprobs":null,"finish_reason":"${reason}","text":"`,
      null,
    );
    for (const piece of pieces({ ...script, tools: 0 })) {
      sent += 1;
      yield {
        ...part('token', JSON.stringify(piece.text).slice(1, -1), null, script.pad),
        contentBytes: contentBytes(script, piece),
      };
    }
    yield part('opening', '"}', null);
  }
  yield part('finish', ']', null);
  yield* toldUsage(script, subject, sent);
  yield part('done', '}', null);
}

/** As many vectors as there are inputs, each of a few small numbers. */
export function* embeddingsJson(script: Script, subject: Subject): Generator<Part> {
  const { input, encoding_format: format } = subject.asked();
  const inputs = Array.isArray(input) && typeof input[0] !== 'number' ? input.length : 1;
  const vector = [0.5, -0.25, 0.125];
  const embedding =
    format === 'base64' ? Buffer.from(new Float32Array(vector).buffer).toString('base64') : vector;
  const data = Array.from({ length: inputs }, (_, index) => ({ object: 'embedding', index, embedding }));
  yield part(
    'opening',
    `{"object":"list","model":${JSON.stringify(subject.model)},"data":${JSON.stringify(data)}`,
    null,
  );
  yield* toldUsage(script, subject, 0);
  yield part('done', '}', null);
}

function* toldUsage(script: Script, subject: Subject, sent: number): Generator<Part> {
  const usage = usageOf(script, subject, sent);
  if (script.usage === 'broken') yield part('usage', `,"usage":${JSON.stringify(BROKEN_USAGE)}`, null);
  else if (script.usage !== 'never')
    yield part('usage', `,"usage":${JSON.stringify(countsOf(usage))}`, usage);
}

function countsOf(usage: ReturnType<typeof usageOf>): object {
  const { prompt, completion, cached } = usage;
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached, ...cacheWrite(usage) },
  };
}

export function* moderationJson(script: Script, subject: Subject): Generator<Part> {
  const { input } = subject.asked();
  const results = Array.from({ length: Array.isArray(input) ? input.length : 1 }, () => ({
    flagged: false,
    categories: { violence: false },
    category_scores: { violence: 0.01 },
  }));
  const { model } = subject;
  yield part('opening', JSON.stringify({ id: 'modr-1', model, results }).slice(0, -1), null);
  yield* toldUsage(script, subject, 0);
  yield part('done', '}', null);
}

/** As Jina and vLLM word it. */
export function* rerankJson(script: Script, subject: Subject): Generator<Part> {
  const { documents } = subject.asked();
  const results = Array.from({ length: Array.isArray(documents) ? documents.length : 0 }, (_, index) => ({
    index,
    relevance_score: 1 / (index + 1),
  }));
  yield part('opening', JSON.stringify({ model: subject.model, results }).slice(0, -1), null);
  yield* toldUsage(script, subject, 0);
  yield part('done', '}', null);
}

/** As many images as are asked for. Those of models with a price per image come without usage. */
export function* imagesJson(script: Script, subject: Subject): Generator<Part> {
  const { n } = subject.asked();
  const image = { b64_json: 'aGVsbG8=', revised_prompt: 'a "b64_json" of a tide' };
  const data = Array.from({ length: typeof n === 'number' ? n : 1 }, () => image);
  const { createdAtSeconds: created } = subject;
  yield part('opening', JSON.stringify({ created, data }).slice(0, -1), null);
  const usage = usageOf(script, subject, script.tokens);
  const { prompt, completion, cached } = usage;
  const counts = {
    input_tokens: prompt,
    output_tokens: completion,
    total_tokens: prompt + completion,
    input_tokens_details: { cached_tokens: cached, ...cacheWrite(usage) },
  };
  if (script.usage !== 'never') yield part('usage', `,"usage":${JSON.stringify(counts)}`, usage);
  yield part('done', '}', null);
}

/** Of audio as it comes. */
const CHUNK = 'daybook-audio\n'.repeat(16);

/** Events whose last one has the text and the usage. */
function* eventsOf(
  script: Script,
  subject: Subject,
  types: { delta: string; done: string },
  deltaOf: (text: string) => object,
): Generator<Part> {
  let sent = 0;
  for (const piece of pieces({ ...script, tools: 0 })) {
    sent += 1;
    const delta = namedEvent(script, 'token', { type: types.delta, ...deltaOf(piece.text) });
    yield { ...delta, contentBytes: contentBytes(script, piece) };
  }
  const usage = script.usage === 'never' ? null : usageOf(script, subject, sent);
  const counts = usage && {
    type: 'tokens',
    input_tokens: usage.prompt,
    output_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
  };
  yield namedEvent(script, 'finish', { type: types.done, ...(counts && { usage: counts }) }, usage);
}

export const transcriptSse = (script: Script, subject: Subject): Generator<Part> =>
  eventsOf(script, subject, { delta: 'transcript.text.delta', done: 'transcript.text.done' }, (delta) => ({
    delta,
  }));

export const speechSse = (script: Script, subject: Subject): Generator<Part> =>
  eventsOf(script, subject, { delta: 'speech.audio.delta', done: 'speech.audio.done' }, (text) => ({
    audio: Buffer.from(text).toString('base64'),
  }));

/** Audio as it comes: nothing in its bytes says where it ends. */
export function* speechBytes(script: Script): Generator<Part> {
  for (let n = 0; n < script.tokens; n += 1) yield part('token', CHUNK, null, script.pad);
  yield part('done', CHUNK, null);
}
