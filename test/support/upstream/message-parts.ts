import {
  BROKEN_USAGE,
  contentBytes,
  namedEvent,
  type Part,
  part,
  pieces,
  type Subject,
  usageOf,
} from './parts.ts';
import type { Usage } from './ledger.ts';
import type { Script } from './script.ts';

/** Replies of Anthropic's Messages. */

const OVERLOADED = {
  type: 'error',
  error: { details: null, type: 'overloaded_error', message: 'Overloaded' },
};

export function* messageSse(script: Script, subject: Subject): Generator<Part> {
  const reported =
    script.usage === 'never'
      ? {}
      : {
          usage:
            script.usage === 'broken'
              ? BROKEN_USAGE
              : countsOf(usageOf({ ...script, reasoning: 0 }, subject, 1)),
        };
  yield namedEvent(script, 'opening', {
    type: 'message_start',
    message: { ...base(subject), content: [], stop_reason: null, stop_sequence: null, ...reported },
  });
  let index = -1;
  let sent = 0;
  const stop = (): Part => namedEvent(script, 'opening', { type: 'content_block_stop', index });
  for (const piece of pieces(script)) {
    if (piece.opensCall || index < 0) {
      if (index >= 0) yield stop();
      index += 1;
      const block =
        piece.call === null ? { type: 'text', text: '' } : { ...callOf(subject, piece.call), input: {} };
      yield namedEvent(script, 'opening', { type: 'content_block_start', index, content_block: block });
      if (index === 0) yield namedEvent(script, 'opening', { type: 'ping' });
    }
    const delta =
      piece.call === null
        ? { type: 'text_delta', text: piece.text }
        : { type: 'input_json_delta', partial_json: piece.text };
    sent += 1;
    yield {
      ...namedEvent(script, 'token', { type: 'content_block_delta', index, delta }),
      contentBytes: contentBytes(script, piece),
    };
  }
  if (index >= 0) yield stop();
  const usage = usageOf(script, subject, sent);
  const final =
    script.usage === 'never' ? {} : { usage: script.usage === 'broken' ? BROKEN_USAGE : countsOf(usage) };
  const isTold = script.usage !== 'never' && script.usage !== 'broken';
  yield namedEvent(
    script,
    'finish',
    {
      type: 'message_delta',
      delta: { stop_reason: reasonOf(script, subject), stop_sequence: null },
      ...final,
    },
    isTold ? usage : null,
  );
  yield namedEvent(script, 'done', { type: 'message_stop' });
}

export function* messageJson(script: Script, subject: Subject): Generator<Part> {
  yield part('opening', `${JSON.stringify(base(subject)).slice(0, -1)},"content":[`, null);
  let sent = 0;
  for (const piece of pieces(script)) {
    if (piece.opensCall) {
      const call = piece.call ?? 0;
      const opened = JSON.stringify(callOf(subject, call)).slice(0, -1);
      yield part('opening', `${call > 0 ? '},' : ''}${opened},"input":`, null);
    } else if (sent === 0) yield part('opening', '{"type":"text","text":"', null);
    sent += 1;
    // A call's arguments stand in it as the object that they are.
    const text = piece.call === null ? JSON.stringify(piece.text).slice(1, -1) : piece.text;
    yield { ...part('token', text, null, script.pad), contentBytes: contentBytes(script, piece) };
  }
  const closing = sent === 0 ? '' : script.tools > 0 ? '}' : '"}';
  yield part('finish', `${closing}],"stop_reason":"${reasonOf(script, subject)}","stop_sequence":null`, null);
  const usage = usageOf(script, subject, sent);
  if (script.usage === 'broken') yield part('usage', `,"usage":${JSON.stringify(BROKEN_USAGE)}`, null);
  else if (script.usage !== 'never')
    yield part('usage', `,"usage":${JSON.stringify(countsOf(usage))}`, usage);
  yield part('done', '}', null);
}

export function messageError(script: Script, sse: boolean): Part {
  return sse ? namedEvent(script, 'error', OVERLOADED) : part('error', JSON.stringify(OVERLOADED), null);
}

/** The object that Anthropic answers an error with. */
export function messageErrorObject(status: number, credential: string | null): object {
  const type =
    status === 401
      ? 'authentication_error'
      : status === 429
        ? 'rate_limit_error'
        : status < 500
          ? 'invalid_request_error'
          : 'api_error';
  return {
    type: 'error',
    error: {
      type,
      message:
        status === 401 ? `invalid x-api-key ${credential ?? ''}` : `This is an error of status ${status}.`,
    },
    request_id: 'req_scripted',
  };
}

function base({ id, model }: Subject): object {
  return { id: id.replace('chatcmpl-', 'msg_'), type: 'message', role: 'assistant', model };
}

function callOf({ id }: Subject, call: number): object {
  return { type: 'tool_use', id: `toolu_${id.replace('chatcmpl-', '')}_${call}`, name: `tool_${call}` };
}

function reasonOf({ tools }: Script, { isAtLimit }: Subject): string {
  if (isAtLimit) return 'max_tokens';
  return tools > 0 ? 'tool_use' : 'end_turn';
}

/** What was read from a cache is reported beside the rest. */
function countsOf({ prompt, cached, written = 0, completion, searches }: Usage): object {
  return {
    ...(searches === undefined ? {} : { server_tool_use: { web_search_requests: searches } }),
    input_tokens: prompt - cached - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cached,
    output_tokens: completion,
    service_tier: 'standard',
  };
}
