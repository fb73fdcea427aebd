import { describe, expect, test } from 'vitest';
import { messages } from '#server/providers/anthropic/messages-route.ts';
import { readReply } from '#server/providers/anthropic/reply.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { parsePromptUsage } from '#server/providers/openai/usage.ts';
import type { JsonReply, ProviderCall } from '#server/providers/provider.ts';
import { jsonUsage, streamUsage } from '#server/relay/reply-usage.ts';

test('a prompt alone is used for the prompt', () => {
  expect(parsePromptUsage({ prompt_tokens: 5 })).toEqual({ input: 5, cached: 0 });
  expect(parsePromptUsage({ prompt_tokens: 1e308 })).toBeNull();
  expect(parsePromptUsage(null)).toBeNull();
});

describe('a reply whose usage is not believed', () => {
  const text = 'eight words of text that the model wrote';
  const estimate = 11;

  test.each([
    [{ prompt_tokens: 5 }, 5],
    [{ prompt_tokens: 1e308, completion_tokens: 1 }, estimate],
    [{ prompt_tokens: 5, completion_tokens: 7, total_tokens: 2e9 }, estimate],
  ])('is estimated: %j', (usage, input) => {
    const bytes = Buffer.from(JSON.stringify({ choices: [{ message: { content: text } }], usage }));
    const settled = jsonUsage(200, estimate, parseJsonReply(bytes) as JsonReply);
    expect(settled).toMatchObject({ source: 'estimated', usage: { input } });
    expect(settled.usage.output).toBeGreaterThanOrEqual(text.length / 4);
  });

  test.each([
    [{ prompt_tokens: 5 }, 5],
    [{ prompt_tokens: 5, completion_tokens: 0 }, 5],
    [
      { prompt_tokens: 5, completion_tokens: 7, completion_tokens_details: { reasoning_tokens: 1e300 } },
      estimate,
    ],
  ])('is counted where it is streamed: %j', (usage, input) => {
    const reader = new ChatSse(false);
    for (const value of [{ choices: [{ delta: { content: text } }] }, { choices: [], usage }])
      reader.push(Buffer.from(`data: ${JSON.stringify(value)}\n\n`));
    expect(streamUsage(200, estimate, reader)).toMatchObject({
      source: 'counted',
      usage: { input, output: Math.ceil(text.length / 4) },
    });
  });

  test('is estimated for a message, too', () => {
    for (const usage of [{ input_tokens: 5 }, { input_tokens: 5, output_tokens: 1e308 }]) {
      const bytes = Buffer.from(JSON.stringify({ content: [{ type: 'text', text }], usage }));
      for (const reply of [messages.json(bytes, {} as ProviderCall), readReply(bytes, 1)])
        expect(jsonUsage(200, estimate, reply as JsonReply)).toMatchObject({ source: 'estimated' });
    }
  });

  test('is complete without an output for embeddings', () => {
    const bytes = Buffer.from('{"object":"list","data":[],"usage":{"prompt_tokens":5}}');
    expect(parseJsonReply(bytes)?.usage).toEqual({ input: 5, cached: 0, output: 0, reasoning: 0 });
  });
});
