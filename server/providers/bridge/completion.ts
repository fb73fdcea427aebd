import {
  extraOf,
  finishOf,
  imageOf,
  isClientsCall,
  type ReplyName,
  usageOf,
} from '#server/providers/bridge/openai-shapes.ts';
import type { ContentPart, Generated, GeneratedFile } from '#server/providers/bridge/language-model.ts';

/**
 * A complete answer as a `chat.completion`. Pure. @returns null where the model failed, and there is no
 * reply.
 */
export function completionOf(
  { content, finishReason, usage }: Generated,
  { id, model, createdS }: ReplyName,
): object | null {
  const calls = content.filter(isClientsCall);
  const finish = finishOf(finishReason, calls.length > 0);
  if (finish === 'error') return null;
  const text = joined(content, 'text');
  const reasoning = joined(content, 'reasoning');
  const images = content
    .filter((part): part is GeneratedFile => part.type === 'file')
    .flatMap((part) => imageOf(part) ?? []);
  const reported = usageOf(usage);
  return {
    id,
    object: 'chat.completion',
    created: createdS,
    model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: text === '' && calls.length > 0 ? null : text,
          refusal: null,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(images.length > 0 ? { images } : {}),
          ...(calls.length > 0 ? { tool_calls: calls.map((call, index) => toolCall(call, index)) } : {}),
        },
        logprobs: null,
        // A JSON document that came whole is whole, whatever its provider leaves out.
        finish_reason: finish ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
      },
    ],
    ...(reported ? { usage: reported } : {}),
  };
}

function joined(content: readonly ContentPart[], type: 'text' | 'reasoning'): string {
  return content.map((part) => (part.type === type ? part.text : '')).join('');
}

function toolCall(call: Parameters<typeof extraOf>[0], index: number): object {
  const { toolCallId, toolName, input } = call;
  return {
    id: toolCallId || `call_${index}`,
    type: 'function',
    function: { name: toolName, arguments: input || '{}' },
    ...extraOf(call),
  };
}
