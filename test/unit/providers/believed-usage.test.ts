import { describe, expect, test } from 'vitest';
import { messages } from '#server/providers/anthropic/messages-route.ts';
import { readReply } from '#server/providers/anthropic/reply.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { responses } from '#server/providers/openai/responses.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { parsePromptUsage } from '#server/providers/openai/usage.ts';
import type { JsonReply, ProviderCall } from '#server/providers/provider.ts';
import { isPlausible } from '#server/limits/plausible-usage.ts';
import { jsonUsage, streamUsage } from '#server/relay/reply-usage.ts';

test('a prompt alone is used for the prompt', () => {
  expect(parsePromptUsage({ prompt_tokens: 5 })).toEqual({ input: 5, cached: 0 });
  expect(parsePromptUsage({ prompt_tokens: 1e308 })).toBeNull();
  expect(parsePromptUsage(null)).toBeNull();
});

describe('a reply whose usage is not believed', () => {
  const text = 'eight words of text that the model wrote';
  const estimate = 11;
  const size = { promptEstimate: estimate, requestBytes: 40, outputLimit: null, choices: 1 };

  test.each([
    [{ prompt_tokens: 5 }, 5, 'estimated'],
    [{ prompt_tokens: 1e308, completion_tokens: 1 }, estimate, 'implausible'],
    [{ prompt_tokens: 5, completion_tokens: 7, total_tokens: 2e9 }, estimate, 'implausible'],
    // Within what a report may have, and beyond what this call can have.
    [{ prompt_tokens: 5, completion_tokens: 7, total_tokens: 2e6 }, estimate, 'implausible'],
    [{ prompt_tokens: 11e6, completion_tokens: 7 }, estimate, 'implausible'],
    [{ prompt_tokens: 5, completion_tokens: 2e6 }, estimate, 'implausible'],
  ])('is estimated: %j', (usage, input, source) => {
    const bytes = Buffer.from(JSON.stringify({ choices: [{ message: { content: text } }], usage }));
    const settled = jsonUsage(200, size, parseJsonReply(bytes) as JsonReply, bytes.length);
    expect(settled).toMatchObject({ source, usage: { input } });
    expect(settled.usage.output).toBeGreaterThanOrEqual(text.length / 4);
  });

  test.each([
    [{ prompt_tokens: 5 }, 5, 'counted'],
    [{ prompt_tokens: 5, completion_tokens: 0 }, 5, 'counted'],
    [
      { prompt_tokens: 5, completion_tokens: 7, completion_tokens_details: { reasoning_tokens: 1e300 } },
      estimate,
      'implausible',
    ],
    [{ prompt_tokens: 5, completion_tokens: -7 }, estimate, 'implausible'],
  ])('is counted where it is streamed: %j', (usage, input, source) => {
    const reader = new ChatSse(false);
    for (const value of [{ choices: [{ delta: { content: text } }] }, { choices: [], usage }])
      reader.push(Buffer.from(`data: ${JSON.stringify(value)}\n\n`));
    expect(streamUsage(200, size, reader, 200)).toMatchObject({
      source,
      usage: { input, output: Math.ceil(text.length / 4) },
    });
  });

  test('is estimated for a message, too', () => {
    for (const [usage, source] of [
      [{ input_tokens: 5 }, 'estimated'],
      [{ input_tokens: 5, output_tokens: 1e308 }, 'implausible'],
      [{ input_tokens: 5, output_tokens: -1 }, 'implausible'],
    ] as const) {
      const bytes = Buffer.from(JSON.stringify({ content: [{ type: 'text', text }], usage }));
      for (const reply of [messages.json(bytes, {} as ProviderCall), readReply(bytes, 1)])
        expect(jsonUsage(200, size, reply as JsonReply, bytes.length)).toMatchObject({ source });
    }
  });

  test.each([
    [{ image_gen: { input_tokens: 1e308, output_tokens: 5 } }],
    [{ image_gen: { input_tokens: 5, output_tokens: 1e308 } }],
    [{ web_search: { num_requests: 1e308 } }],
  ])('is that of a response whose tools can not have used as much: %j', (tool_usage) => {
    const usage = { input_tokens: 5, output_tokens: 7, total_tokens: 12 };
    const response = { id: 'resp_1', object: 'response', status: 'completed', output: [], usage, tool_usage };
    const bytes = Buffer.from(JSON.stringify(response));
    const reply = responses.json(bytes, {} as ProviderCall) as JsonReply;
    expect(jsonUsage(200, size, reply, bytes.length)).toMatchObject({ source: 'implausible' });
    const reader = new ResponsesSse();
    reader.push(Buffer.from(`data: ${JSON.stringify({ type: 'response.completed', response })}\n\n`));
    expect(streamUsage(200, size, reader, 900)).toMatchObject({ source: 'implausible' });
  });

  test('is complete without an output for embeddings', () => {
    const bytes = Buffer.from('{"object":"list","data":[],"usage":{"prompt_tokens":5}}');
    expect(parseJsonReply(bytes)?.usage).toEqual({ input: 5, cached: 0, output: 0, reasoning: 0 });
  });
});

describe('usage is possible', () => {
  const size = { promptEstimate: 11, requestBytes: 40, outputLimit: null, choices: 1 };
  const usage = (more: object) => ({ input: 10, cached: 0, output: 10, reasoning: 0, ...more });

  test.each([
    ['the context of the longest model', usage({ input: 10_000_000 }), {}],
    ['much reasoning and one word', usage({ output: 400_000, reasoning: 399_999 }), {}],
    ['reasoning that is not reported apart', usage({ output: 128_000 }), {}],
    ['a reply of its limit that shows nothing', usage({ output: 100_000 }), { outputLimit: 100_000 }],
    ['a reply beyond its limit, by the size of an image', usage({ output: 6_000 }), { outputLimit: 16 }],
    ['several choices', usage({ output: 3_000_000, reasoning: 2_900_000 }), { choices: 4 }],
  ])('with %s', (_, report, more) => {
    expect(isPlausible(report, { ...size, ...more }, 7)).toBe(true);
  });

  test.each([
    ['more prompt than the longest context', usage({ input: 11_000_000 }), {}],
    ['more reasoning than any model has', usage({ output: 2e6, reasoning: 2e6 - 1 }), {}],
    ['more text than bytes, beside its reasoning', usage({ output: 2e6, reasoning: 10 }), {}],
    ['much more than its limit', usage({ output: 200_000 }), { outputLimit: 1_000 }],
  ])('and not with %s', (_, report, more) => {
    expect(isPlausible(report, { ...size, ...more }, 7)).toBe(false);
  });

  test('for as many bytes as it says', () => {
    const report = usage({ output: 3e6 });
    expect([isPlausible(report, size, 3e6), isPlausible(report, size, 1e6)]).toEqual([true, false]);
  });
});
