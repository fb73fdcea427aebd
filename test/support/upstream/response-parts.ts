import {
  BROKEN_USAGE,
  cacheWrite,
  contentBytes,
  namedEvent,
  type Part,
  part,
  pieces,
  plainText,
  type Subject,
  units,
  usageOf,
} from './parts.ts';
import type { Usage } from './ledger.ts';
import type { Script } from './script.ts';

/** Replies of OpenAI's Responses. */

const ERROR = {
  code: 'server_error',
  message: 'The server had an error while processing your request.',
  param: null,
};

type Item = { id: string; type: string; text: string; call: number | null };

export function* responseSse(script: Script, subject: Subject): Generator<Part> {
  let sequence = 0;
  const event = (kind: Part['kind'], type: string, members: object, usage: Usage | null = null): Part =>
    namedEvent(script, kind, { type, sequence_number: sequence++, ...members }, usage);
  const begun = response(subject, 'in_progress', [], null);
  yield event('opening', 'response.created', { response: begun });
  yield event('opening', 'response.in_progress', { response: begun });
  const items: Item[] = [];
  let sent = 0;
  const place = (): object => ({ item_id: items.at(-1)?.id, output_index: items.length - 1 });

  function* closed(): Generator<Part> {
    const item = items.at(-1);
    if (!item) return;
    if (item.call !== null)
      yield event('opening', 'response.function_call_arguments.done', {
        ...place(),
        name: `tool_${item.call}`,
        arguments: item.text,
      });
    else {
      yield event('opening', 'response.output_text.done', {
        ...place(),
        content_index: 0,
        text: item.text,
        logprobs: [],
      });
      yield event('opening', 'response.content_part.done', {
        ...place(),
        content_index: 0,
        part: textPart(item.text),
      });
    }
    yield event('opening', 'response.output_item.done', {
      output_index: items.length - 1,
      item: outputOf(subject, item, 'completed'),
    });
  }

  for (const piece of pieces(script)) {
    if (piece.opensCall || items.length === 0) {
      yield* closed();
      const item: Item = {
        id: `${piece.call === null ? 'msg' : 'fc'}_${subject.id.replace('chatcmpl-', '')}_${items.length}`,
        type: piece.call === null ? 'message' : 'function_call',
        text: '',
        call: piece.call,
      };
      items.push(item);
      yield event('opening', 'response.output_item.added', {
        output_index: items.length - 1,
        item: outputOf(subject, item, 'in_progress'),
      });
      if (piece.call === null)
        yield event('opening', 'response.content_part.added', {
          ...place(),
          content_index: 0,
          part: textPart(''),
        });
    }
    (items.at(-1) as Item).text += plainText(piece);
    sent += 1;
    const token =
      piece.call === null
        ? event('token', 'response.output_text.delta', {
            ...place(),
            content_index: 0,
            delta: piece.text,
            logprobs: [],
          })
        : event('token', 'response.function_call_arguments.delta', { ...place(), delta: piece.text });
    yield { ...token, contentBytes: contentBytes(script, piece) };
  }
  yield* closed();
  const usage = usageOf(script, subject, sent);
  const status = subject.isAtLimit ? 'incomplete' : 'completed';
  const isTold = script.usage !== 'never' && script.usage !== 'broken';
  const ended = response(
    subject,
    status,
    items,
    script.usage === 'broken' ? BROKEN_USAGE : isTold ? countsOf(usage) : null,
  );
  yield event('finish', `response.${status}`, { response: ended }, isTold ? usage : null);
}

export function* responseJson(script: Script, subject: Subject): Generator<Part> {
  if (subject.asked()['background'] === true)
    return yield part('done', JSON.stringify(response(subject, 'queued', [], null)), null);
  const all = [...pieces(script)];
  const items: Item[] = [];
  for (const piece of all) {
    if (piece.opensCall || items.length === 0)
      items.push({
        id: `item_${items.length}`,
        type: piece.call === null ? 'message' : 'function_call',
        text: '',
        call: piece.call,
      });
    (items.at(-1) as Item).text += plainText(piece);
  }
  const {
    usage: _,
    output,
    ...rest
  } = response(subject, subject.isAtLimit ? 'incomplete' : 'completed', items, null) as {
    usage: unknown;
    output: unknown;
  };
  yield part('opening', `${JSON.stringify(rest).slice(0, -1)},"output":`, null);
  // It is cut between its items, not between its tokens.
  for (const piece of all) yield { ...part('token', '', null), contentBytes: contentBytes(script, piece) };
  yield part('finish', JSON.stringify(output), null);
  const usage = usageOf(script, subject, all.length);
  if (script.usage === 'broken') yield part('usage', `,"usage":${JSON.stringify(BROKEN_USAGE)}`, null);
  else if (script.usage !== 'never')
    yield part('usage', `,"usage":${JSON.stringify(countsOf(usage))}`, usage);
  yield part('done', '}', null);
}

export function responseError(script: Script, sse: boolean): Part {
  return sse
    ? namedEvent(script, 'error', { type: 'error', sequence_number: 0, ...ERROR })
    : part('error', JSON.stringify({ error: { ...ERROR, type: 'server_error' } }), null);
}

function response(
  { id, createdAtSeconds, model, asked }: Subject,
  status: string,
  items: readonly Item[],
  usage: object | null,
): object {
  const subject = { id, createdAtSeconds, model } as Subject;
  const { background, store, previous_response_id } = asked();
  return {
    id: id.replace('chatcmpl-', 'resp_'),
    object: 'response',
    created_at: createdAtSeconds,
    status,
    background: background === true,
    error: null,
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: null,
    max_output_tokens: null,
    model,
    output: items.map((item) => outputOf(subject, item, 'completed')),
    parallel_tool_calls: true,
    previous_response_id: previous_response_id ?? null,
    reasoning: { effort: null, summary: null },
    store: store !== false,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
    usage,
    user: null,
    metadata: {},
  };
}

function outputOf(subject: Subject, { id, text, call }: Item, status: 'in_progress' | 'completed'): object {
  const isDone = status === 'completed';
  if (call !== null)
    return {
      id,
      type: 'function_call',
      status,
      call_id: `call_${subject.id.replace('chatcmpl-', '')}_${call}`,
      name: `tool_${call}`,
      arguments: isDone ? text : '',
    };
  return { id, type: 'message', status, role: 'assistant', content: isDone ? [textPart(text)] : [] };
}

const textPart = (text: string): object => ({ type: 'output_text', text, annotations: [], logprobs: [] });

function countsOf(usage: Usage): object {
  const { prompt, cached, completion, reasoning } = usage;
  return {
    ...units(usage),
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cached, ...cacheWrite(usage) },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: prompt + completion,
  };
}
