import { parseError } from '#server/providers/openai/errors.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { ReplyRecord } from '#server/providers/openai/reply-record.ts';
import { finishReasonOf } from '#server/providers/openai/response-parts.ts';
import type { JsonReply, Provider, ProviderCall } from '#server/providers/provider.ts';
import { bodyForUpstream } from '#server/wire/splice-body.ts';
import { scanObject, type Span, valueOf } from '#server/wire/json.ts';

/**
 * OpenAI's Responses API for clients of that API, at any upstream that implements it: the bytes of requests
 * and replies pass unchanged, and a stream reports its usage without being asked. Pure.
 */
export const responses: Provider = {
  request: ({ body, parsed: asked, model, tokenLimit }) => ({
    path: '/responses',
    body: bodyForUpstream(body, asked, { model, tokenLimit, tokenLimitMember: 'max_output_tokens' }),
    headers: [],
    unsupported: [],
  }),
  sse: ({ redactor, onStored }) => new ResponsesSse(redactor, onStored),
  json: readResponse,
  parseError: parseError,
};

const MEMBERS = [
  'status',
  'output',
  'usage',
  'tool_usage',
  'error',
  'id',
  'model',
  'service_tier',
  'incomplete_details',
];
const OPEN_BRACE = 0x7b;

/** Reads a response. @returns null for a text that is no response. */
export function readResponse(bytes: Buffer, { onStored }: Pick<ProviderCall, 'onStored'>): JsonReply | null {
  try {
    const { members } = scanObject(bytes, MEMBERS);
    const value = (name: string): unknown => {
      const span = members.get(name);
      return span && valueOf(bytes, span);
    };
    const status = value('status');
    const output = members.get('output');
    const error = members.get('error');
    const id = value('id');
    if (typeof id === 'string') onStored?.(id, isRunning(status));
    const record = new ReplyRecord();
    record.state({ id, model: value('model'), service_tier: value('service_tier') });
    record.report(value('usage'));
    record.facts.finishReason = finishReasonOf(status, value('incomplete_details'));
    // A literal of JSON can't hold bare quotes, so that mostly nothing of the output is parsed.
    const shown = output && hasToolCall(bytes, output) ? value('output') : null;
    record.reportTools(shown, value('tool_usage'));
    const { usage, promptUsage, isImplausible, facts } = record;
    return {
      bytes,
      text: null,
      usage,
      promptUsage,
      isImplausible,
      facts,
      outputBytes: () => (output ? output.end - output.start : 0),
      failed:
        status === 'failed' ||
        (output === undefined && error !== undefined && bytes[error.start] === OPEN_BRACE),
    };
  } catch {
    return null;
  }
}

/** Whether a response goes on in the background. */
export const isRunning = (status: unknown): boolean => status === 'queued' || status === 'in_progress';

function hasToolCall(bytes: Buffer, { start, end }: Span): boolean {
  const at = bytes.indexOf('_call"', start);
  return at >= 0 && at < end;
}
