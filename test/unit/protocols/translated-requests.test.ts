import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { writeChatRequest } from '#server/protocols/chat/write-request.ts';
import type { Conversation, ToolCall, Turn } from '#server/protocols/conversation.ts';
import { Untranslatable } from '#server/protocols/fields.ts';
import { readMessagesRequest } from '#server/protocols/messages/read-request.ts';
import { readResponsesRequest } from '#server/protocols/responses/read-request.ts';
import type { ReasoningForm } from '#server/providers/provider.ts';
import { conversations } from '../../support/protocols/conversations.ts';

/** Any conversation, written by a client of one protocol and read by an upstream of chat completions. */

type Json = Record<string, unknown>;
const defined = (members: Json): Json =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));

/** The conversation as a client of Anthropic's Messages writes it. */
function asMessages(conversation: Conversation): Json {
  const source = (url: string): Json =>
    url.startsWith('data:')
      ? { type: 'base64', media_type: url.slice(5, url.indexOf(';')), data: url.slice(url.indexOf(',') + 1) }
      : { type: 'url', url };
  const block = (part: Json): Json => {
    switch (part['type']) {
      case 'image':
        return { type: 'image', source: source(part['url'] as string) };
      case 'document':
        return { type: 'document', source: source(part['url'] as string), title: part['name'] };
      case 'reasoning':
        return { type: 'thinking', thinking: part['text'], signature: part['signature'] ?? '' };
      case 'tool_call': {
        const input = JSON.parse(part['input'] as string) as unknown;
        return { type: 'tool_use', id: part['id'], name: part['name'], input };
      }
      default:
        return part;
    }
  };
  const choices = { auto: 'auto', none: 'none', required: 'any' };
  const { toolChoice: choice, format, parallelToolCalls, reasoningEffort, temperature, topP } = conversation;
  const [first] = conversation.turns;
  return defined({
    model: 'm',
    max_tokens: 9,
    system: first?.role === 'system' ? first.parts : null,
    messages: conversation.turns.flatMap((turn) => {
      if (turn.role === 'system') return [];
      const content =
        turn.role === 'tool'
          ? turn.results.map(({ id, parts }) => ({
              type: 'tool_result',
              tool_use_id: id,
              content: parts.map(block),
            }))
          : turn.parts.map(block);
      return [{ role: turn.role === 'tool' ? 'user' : turn.role, content }];
    }),
    tools: conversation.tools.map((tool) =>
      tool.kind === 'custom'
        ? {}
        : defined({
            name: tool.name,
            description: tool.description,
            input_schema: tool.parameters,
            strict: tool.strict,
          }),
    ),
    tool_choice: {
      ...(typeof choice === 'string' ? { type: choices[choice] } : { type: 'tool', ...choice }),
      ...(parallelToolCalls === false && { disable_parallel_tool_use: true }),
    },
    temperature,
    top_p: topP,
    output_config: defined({
      effort: reasoningEffort,
      format: format?.type === 'json_schema' ? { type: 'json_schema', schema: format.schema } : null,
    }),
  });
}

/** The same as a client of OpenAI's Responses writes it. */
function asResponses(conversation: Conversation): Json {
  const part = (each: Json): Json => {
    switch (each['type']) {
      case 'image':
        return { type: 'input_image', image_url: each['url'] };
      case 'document':
        return { type: 'input_file', file_data: each['url'], filename: each['name'] };
      default:
        return { type: 'input_text', text: each['text'] };
    }
  };
  const item = (each: Json): Json => {
    switch (each['type']) {
      case 'reasoning': {
        const summary = [{ type: 'summary_text', text: each['text'] }];
        return { type: 'reasoning', summary, encrypted_content: each['signature'] };
      }
      case 'tool_call':
        return { type: 'function_call', call_id: each['id'], name: each['name'], arguments: each['input'] };
      default:
        return { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: each['text'] }] };
    }
  };
  const { toolChoice: choice, format, parallelToolCalls, reasoningEffort, temperature, topP } = conversation;
  return defined({
    model: 'm',
    input: conversation.turns.flatMap((turn): Json[] => {
      if (turn.role === 'assistant') return turn.parts.map(item);
      if (turn.role === 'tool')
        return turn.results.map(({ id, parts }) => ({
          type: 'function_call_output',
          call_id: id,
          output: parts.map(part),
        }));
      return [{ role: turn.role === 'system' ? 'developer' : 'user', content: turn.parts.map(part) }];
    }),
    tools: conversation.tools.map((tool) => {
      const { kind, ...members } = tool;
      return { type: kind, ...members };
    }),
    tool_choice: typeof choice === 'string' ? choice : { type: 'function', ...choice },
    parallel_tool_calls: parallelToolCalls,
    temperature,
    top_p: topP,
    reasoning: defined({ effort: reasoningEffort }),
    text: format && { format },
  });
}

describe.each([
  ['messages', asMessages, readMessagesRequest],
  ['responses', asResponses, readResponsesRequest],
] as const)('a request of %s', (_, write, read) => {
  test('is read as the conversation that it states, without a loss', () => {
    fc.assert(
      fc.property(conversations, (conversation) => {
        const losses: string[] = [];
        expect(read(write(conversation), (field) => losses.push(field))).toEqual(conversation);
        expect(losses).toEqual([]);
      }),
    );
  });
});

type Message = { role: string; content: unknown; tool_calls?: Json[]; tool_call_id?: string } & Json;
function chatOf(
  conversation: Conversation,
  reasoning: ReasoningForm,
): { messages: Message[]; losses: string[] } {
  const losses: string[] = [];
  const options = { model: 'm', isStreamed: true, tokenLimit: 9, tokenLimitMember: 'max_tokens', reasoning };
  const { messages } = JSON.parse(writeChatRequest(conversation, options, (field) => losses.push(field))) as {
    messages: Message[];
  };
  return { messages, losses };
}

describe('a chat', () => {
  const callsOf = (all: Turn[]): ToolCall[] =>
    all.flatMap((turn) =>
      turn.role === 'assistant' ? turn.parts.filter((part) => part.type === 'tool_call') : [],
    );

  test('has every call with its result behind it, and every image and document', () => {
    fc.assert(
      fc.property(conversations, (conversation) => {
        const { messages } = chatOf(conversation, 'none');
        const calls = messages.flatMap((message) => message.tool_calls ?? []);
        expect(calls).toEqual(
          callsOf(conversation.turns).map(({ id, name: called, input }) => ({
            id,
            type: 'function',
            function: { name: called, arguments: input },
          })),
        );
        for (const [at, message] of messages.entries()) {
          const ids = (message.tool_calls ?? []).map(({ id }) => id);
          const results = messages.slice(at + 1, at + 1 + ids.length);
          expect(results.map(({ tool_call_id: id }) => id)).toEqual(ids);
        }
        const count = (json: string, word: string): number => json.split(word).length;
        const [before, after] = [JSON.stringify(conversation), JSON.stringify(messages)];
        expect(count(after, '"type":"image_url"')).toBe(count(before, '"type":"image"'));
        expect(count(after, '"type":"file"')).toBe(count(before, '"type":"document"'));
      }),
    );
  });

  const thought: Conversation = {
    turns: [
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'Tides.', signature: 'sig' },
          { type: 'redacted_reasoning', data: 'hidden' },
          { type: 'text', text: 'Noon.' },
        ],
      },
    ],
    tools: [],
    toolChoice: null,
    parallelToolCalls: null,
    reasoningEffort: null,
    temperature: null,
    topP: null,
    stop: [],
    format: null,
  };

  test.each([
    [
      'details',
      {
        reasoning_details: [
          { type: 'reasoning.text', text: 'Tides.', signature: 'sig', index: 0 },
          { type: 'reasoning.encrypted', data: 'hidden', index: 1 },
        ],
      },
      [],
    ],
    ['content', { reasoning_content: 'Tides.' }, []],
    ['none', {}, ['reasoning']],
  ] as const)(
    'has reasoning of earlier replies in the form that its upstream takes: %s',
    (form, has, lost) => {
      expect(chatOf(thought, form)).toEqual({
        messages: [{ role: 'assistant', content: 'Noon.', ...has }],
        losses: lost,
      });
    },
  );
});

test.each([
  [
    'messages',
    readMessagesRequest,
    { messages: [{ role: 'user', content: [{ type: 'container_upload' }] }] },
  ],
  ['messages', readMessagesRequest, { messages: [{ role: 'user', content: [{ type: 'text' }] }] }],
  ['messages', readMessagesRequest, { messages: [], container: 'id' }],
  ['responses', readResponsesRequest, { input: [{ type: 'item_reference', id: 'id' }] }],
  [
    'responses',
    readResponsesRequest,
    { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'id' }] }] },
  ],
  ['responses', readResponsesRequest, { input: 'hi', conversation: 'id' }],
] as const)('a request of %s that a chat cannot state is refused', (_, read, request) => {
  expect(() => read(request, () => {})).toThrow(Untranslatable);
});
