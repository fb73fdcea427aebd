import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { MessageSse } from '#server/providers/anthropic/sse.ts';
import type { ChatBody } from '../../support/wire/chat-body.ts';
import {
  CREATED,
  fixture,
  FOLDER,
  reasoningDetails,
  toolCalls,
  translated,
} from '../../support/providers/anthropic-calls.ts';

const WORDS = 'The tide turns at noon.';
const reported = (prompt: number, completion: number, cached = 0): object => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
});
type Facts = {
  usage: object | null;
  promptUsage: object | null;
  countedTokens: number;
  complete: boolean;
  failed: boolean;
};

const valid = { complete: true, failed: false };
const cut = { complete: false, failed: false, usage: null };
const failure = { complete: false, failed: true, usage: null };
const done = { sawDone: true, sawError: false };
const undone = { sawDone: false, sawError: false, finishReason: null };

const STREAMS: Record<string, [Partial<ChatBody>, Partial<Facts>]> = {
  'text.sse': [
    { ...done, id: 'msg_01Tide', tokens: 6, text: WORDS, finishReason: 'stop', usage: reported(14, 6) },
    {
      ...valid,
      countedTokens: 6,
      usage: { input: 14, cached: 0, output: 6, reasoning: 0 },
      promptUsage: { input: 14, cached: 0 },
    },
  ],
  'crlf.sse': [
    { ...done, text: WORDS, finishReason: 'stop', usage: reported(14, 6) },
    { ...valid, countedTokens: 6 },
  ],
  'stop-sequence.sse': [{ ...done, text: WORDS, finishReason: 'stop', usage: reported(14, 6) }, valid],
  'max-tokens.sse': [{ ...done, finishReason: 'length' }, valid],
  'context-full.sse': [{ ...done, finishReason: 'length' }, valid],
  'pause.sse': [{ ...done, text: WORDS, finishReason: 'stop' }, valid],
  'cached-usage.sse': [
    {
      ...done,
      usage: {
        ...reported(2121, 6, 1800),
        prompt_tokens_details: { cached_tokens: 1800, cache_write_tokens: 300 },
      },
    },
    {
      ...valid,
      usage: { input: 2121, cached: 1800, output: 6, reasoning: 0 },
      promptUsage: { input: 2121, cached: 1800 },
    },
  ],
  'tool-call.sse': [
    {
      ...done,
      text: 'I\'ll look.{"harbour": "Leith", "id": 12345678901234567890}',
      finishReason: 'tool_calls',
      usage: reported(58, 9),
    },
    { ...valid, countedTokens: 16 },
  ],
  'parallel-tools.sse': [{ ...done, text: '{"harbour":"Leith"}{}', finishReason: 'tool_calls' }, valid],
  'thinking.sse': [
    {
      ...done,
      text: 'Noon is high water.At noon.',
      finishReason: 'stop',
      usage: { ...reported(12, 30), completion_tokens_details: { reasoning_tokens: 22 } },
    },
    { ...valid, countedTokens: 3, usage: { input: 12, cached: 0, output: 30, reasoning: 22 } },
  ],
  'refusal.sse': [{ ...done, text: "IThis can't be answered.", finishReason: 'content_filter' }, valid],
  'server-tool.sse': [
    { ...done, text: 'At noon.', finishReason: 'stop', usage: reported(940, 20) },
    { ...valid, usage: { input: 940, cached: 0, output: 20, reasoning: 0 } },
  ],
  'utf8.sse': [
    {
      ...done,
      text: '\u6f6e\u6c50 \u2014 mar\u00e9e \u{1f30a}\u{1f469}\u200d\u{1f680} "q"\\\n',
      usage: reported(11, 5),
    },
    valid,
  ],
  'other-spelling.sse': [
    {
      ...done,
      text: 'The tide turns at noon.{"harbour": "L\\u00e9"}',
      finishReason: 'tool_calls',
      usage: reported(14, 6),
    },
    { ...valid, promptUsage: null },
  ],
  'broken-cut-in-event.sse': [
    { ...undone, text: 'The tide' },
    { ...cut, countedTokens: 2, promptUsage: { input: 14, cached: 0 } },
  ],
  'broken-cut-in-character.sse': [
    { ...undone, text: '\u6f6e' },
    { ...cut, countedTokens: 1 },
  ],
  'broken-no-finish.sse': [
    { ...undone, text: WORDS },
    { ...cut, countedTokens: 6 },
  ],
  // Nothing is missing but the last word, which is never made up.
  'broken-no-stop.sse': [
    { sawDone: false, sawError: false, text: WORDS, finishReason: 'stop', usage: reported(14, 6) },
    valid,
  ],
  'broken-error-event.sse': [
    { sawDone: false, sawError: true, text: 'The tide turns', finishReason: null },
    { ...failure, countedTokens: 3 },
  ],
  'broken-error-first.sse': [{ sawDone: false, sawError: true, text: '' }, failure],
  'broken-not-json.sse': [{ sawDone: false, sawError: true, text: 'The', finishReason: null }, failure],
  'broken-garbage.sse': [{ sawDone: false, sawError: true, text: '' }, failure],
  'broken-no-start.sse': [{ sawDone: false, sawError: true, text: '' }, failure],
  'broken-ping-only.sse': [
    { ...undone, text: '', events: [] },
    { ...cut, promptUsage: null },
  ],
  'broken-usage.sse': [
    { ...done, text: WORDS, finishReason: 'stop', usage: undefined },
    { ...valid, usage: null, countedTokens: 6 },
  ],
  'broken-after-stop.sse': [
    { ...done, text: WORDS, usage: reported(14, 6) },
    { ...valid, countedTokens: 6 },
  ],
};

test.each(Object.entries(STREAMS))(
  '%s becomes what a chat client understands, and the relay is reported everything that is true of it',
  (file, [client, facts]) => {
    const { client: seen, reader } = translated(fixture(file));
    expect(seen).toMatchObject(client);
    const { usage, promptUsage, countedTokens, complete, failed } = reader;
    expect({ usage, promptUsage, countedTokens, complete, failed }).toMatchObject(facts);
  },
);

test('no fixture of a streamed reply is without its line in this table', () => {
  expect(
    readdirSync(FOLDER)
      .filter((file) => file.endsWith('.sse'))
      .toSorted(),
  ).toEqual(Object.keys(STREAMS).toSorted());
});

test('each chunk is one that the convention knows, and the first one reports the role', () => {
  const { client } = translated(fixture('text.sse'));
  const base = {
    id: 'msg_01Tide',
    object: 'chat.completion.chunk',
    created: CREATED,
    model: 'claude-sonnet-5',
  };
  const chunk = (delta: object, reason: string | null = null): object => ({
    ...base,
    choices: [{ index: 0, delta, finish_reason: reason }],
  });
  const words = ['The', ' tide', ' turns', ' at', ' noon', '.'].map((content) => chunk({ content }));
  expect(client.events).toEqual([
    chunk({ role: 'assistant', content: '' }),
    ...words,
    chunk({}, 'stop'),
    { ...base, choices: [], usage: reported(14, 6) },
  ]);
});

test('the usage chunk is for the client that asked, and the relay knows the usage all the same', () => {
  const { client, reader } = translated(fixture('text.sse'), false);
  expect(client).toMatchObject({ usage: undefined, sawDone: true });
  expect(reader.usage).toEqual({ input: 14, cached: 0, output: 6, reasoning: 0 });
});

describe('tool calls', () => {
  test('are named once, come by their index and keep their arguments to the last digit', () => {
    expect(toolCalls(translated(fixture('tool-call.sse')).client.events)).toEqual([
      {
        id: 'toolu_01A',
        type: 'function',
        function: { name: 'tide_at', arguments: '{"harbour": "Leith", "id": 12345678901234567890}' },
      },
    ]);
    expect(toolCalls(translated(fixture('parallel-tools.sse')).client.events)).toEqual([
      { id: 'toolu_01A', type: 'function', function: { name: 'tide_at', arguments: '{"harbour":"Leith"}' } },
      { id: 'toolu_01B', type: 'function', function: { name: 'now', arguments: '{}' } },
    ]);
  });

  test("of tools that the provider runs by itself are not the client's", () => {
    expect(toolCalls(translated(fixture('server-tool.sse')).client.events)).toEqual([]);
  });

  test('without end end the reply with an error and not the process', () => {
    const open = (index: number): string =>
      `data: {"type":"content_block_start","index":${index},` +
      '"content_block":{"type":"tool_use","id":"t","name":"n"}}\n\n';
    const start = 'data: {"type":"message_start","message":{"id":"m","model":"x"}}\n\n';
    const { reader } = translated(
      Buffer.from(start + Array.from({ length: 1_000 }, (_, index) => open(index)).join('')),
    );
    expect(reader.failed).toBe(true);
  });
});

test('thoughts come as text for people, and with their signatures for the way back', () => {
  const format = 'anthropic-claude-v1';
  expect(reasoningDetails(translated(fixture('thinking.sse')).client.events)).toEqual([
    { type: 'reasoning.text', text: 'Noon is', format, index: 0 },
    { type: 'reasoning.text', text: ' high water.', format, index: 0 },
    { type: 'reasoning.text', signature: 'EqQBCgIYAhIM+/=', format, index: 0 },
    { type: 'reasoning.encrypted', data: 'EmwKAhgB', format, index: 1 },
  ]);
});

describe('an error in a reply', () => {
  test("is reported in the relay's words, since the provider's may reports places and credentials", () => {
    const { output } = translated(fixture('broken-error-event.sse'));
    expect(output).toContain('"code":"upstream_rate_limited"');
    expect(output).not.toMatch(/sk-ant|inner\.example|\[DONE\]/);
  });

  test('that comes behind a whole reply takes nothing away from it', () => {
    const whole = fixture('broken-no-stop.sse');
    const { client, reader } = translated(Buffer.concat([whole, fixture('broken-error-first.sse')]));
    expect(client).toMatchObject({ text: WORDS, sawError: false });
    expect([reader.complete, reader.failed]).toEqual([true, false]);
  });
});

describe('progress', () => {
  const PING = Buffer.from('event: ping\ndata: {"type": "ping"}\n\n');

  test('is no ping before the message has begun, and one while the model thinks', () => {
    const reader = new MessageSse(CREATED, false);
    reader.push(PING);
    expect(reader.dataEvents).toBe(0);
    reader.push(fixture('broken-no-finish.sse'));
    const before = reader.dataEvents;
    reader.push(PING);
    expect(before).toBeGreaterThan(0);
    expect(reader.dataEvents).toBe(before + 1);
  });
});

describe('an event beyond the bound', () => {
  const start = 'data: {"type":"message_start","message":{"id":"m","model":"x"}}\n\n';
  const event = (length: number): string => {
    const empty =
      'event: content_block_delta\n' +
      'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}\n\n';
    return empty.replace('""', `"${'a'.repeat(length - empty.length)}"`);
  };
  const inPieces = (text: string): MessageSse => {
    const reader = new MessageSse(CREATED, false);
    for (let at = 0; at < text.length; at += 65_536) reader.push(Buffer.from(text.slice(at, at + 65_536)));
    return reader;
  };

  test('is an error, in one piece or in many, and one at the bound is absent', () => {
    expect(inPieces(start + event(SSE_EVENT_BYTES_MAX)).failed).toBe(false);
    expect(inPieces(start + event(SSE_EVENT_BYTES_MAX + 1)).failed).toBe(true);
    expect(translated(Buffer.from(start + event(SSE_EVENT_BYTES_MAX))).reader.failed).toBe(false);
    expect(translated(Buffer.from(start + event(SSE_EVENT_BYTES_MAX + 1))).reader.failed).toBe(true);
  });

  test('is not waited for without end', () => {
    const reader = inPieces(start + 'data: '.padEnd(3 * SSE_EVENT_BYTES_MAX, 'a'));
    expect(reader.failed).toBe(true);
    expect(reader.push(Buffer.from(event(200)))).toBeNull();
  });
});
