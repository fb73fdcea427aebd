import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readChatBody, type ChatBody } from '../../support/wire/chat-body.ts';

const FOLDER = path.join(import.meta.dirname, '../../fixtures/openai');
const WORDS = 'The tide turns at noon.';

function read(file: string): ChatBody {
  const bytes = readFileSync(path.join(FOLDER, file));
  const reader = readChatBody(() => undefined);
  reader.begin(file.endsWith('.sse') ? 'text/event-stream' : 'application/json');
  reader.push(bytes);
  return reader.end(bytes);
}

const told = (prompt: number, completion: number): object => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
});
const whole = { tokens: 6, text: WORDS, finishReason: 'stop', sawDone: true, sawError: false };
const withUsage = { ...whole, usage: told(14, 6) };

const STREAMS: Record<string, Partial<ChatBody>> = {
  'text.sse': withUsage,
  'text-usage-not-asked.sse': { ...whole, usage: undefined },
  'usage-on-finish.sse': withUsage,
  'usage-on-every-chunk.sse': withUsage,
  'crlf.sse': withUsage,
  'no-space.sse': withUsage,
  'comments.sse': { ...withUsage, comments: ['keep-alive', 'keep-alive', 'keep-alive'] },
  'azure-prompt-filter.sse': { ...withUsage, id: '' },
  'utf8.sse': {
    tokens: 5,
    text: '\u6f6e\u6c50 \u2014 mar\u00e9e \u{1f30a}\u{1f469}\u200d\u{1f680}',
    usage: told(11, 5),
  },
  'refusal.sse': { tokens: 4, text: "I can't help with that.", usage: told(17, 4), sawDone: true },
  'reasoning-content.sse': {
    tokens: 8,
    text: 'Noon is high water.At noon.',
    usage: told(12, 8),
    sawDone: true,
  },
  'tool-call.sse': { tokens: 5, text: '{"harbour":"Leith"}', finishReason: 'tool_calls', usage: told(58, 5) },
  'parallel-tool-calls.sse': { tokens: 4, text: '{"harbour":"Leith"}{"at":"noon"}', usage: told(61, 4) },
  'broken-cut-in-line.sse': { tokens: 2, text: 'The tide', finishReason: null, sawDone: false },
  'broken-cut-in-character.sse': { tokens: 1, text: '\u6f6e', finishReason: null, sawDone: false },
  'broken-no-finish.sse': { ...whole, finishReason: null, sawDone: false },
  'broken-no-done.sse': { ...withUsage, sawDone: false },
  'broken-error-event.sse': { tokens: 3, finishReason: null, sawDone: false, sawError: true },
  'broken-not-json.sse': withUsage,
  'broken-usage.sse': {
    ...whole,
    usage: { prompt_tokens: -14, completion_tokens: 'six', total_tokens: null },
  },
  'broken-after-done.sse': { ...withUsage, tokens: 8, text: `${WORDS} And more` },
  'broken-two-usages.sse': { ...whole, usage: told(14, 9) },
};

const BODIES: Record<string, Partial<ChatBody>> = {
  'text.json': {
    text: 'The tide turns at noon \u2014 high water.',
    finishReason: 'stop',
    usage: told(14, 9),
    sawError: false,
  },
  'text-without-usage.json': { text: WORDS, usage: undefined },
  'parallel-tool-calls.json': {
    text: '{"harbour":"Leith"}{"at":"noon"}',
    finishReason: 'tool_calls',
    usage: told(61, 36),
  },
  'broken-truncated.json': { json: undefined },
  'error-400.json': { sawError: true },
  'error-401.json': { sawError: true },
  'error-429.json': { sawError: true },
  'error-500.json': { sawError: true },
  'error-text.json': { sawError: true },
};

test.each(Object.entries({ ...STREAMS, ...BODIES }))(
  'the fixture %s says what its name says',
  (file, expected) => {
    expect(read(file)).toMatchObject(expected);
  },
);

test('no fixture is without its line in this table', () => {
  const files = readdirSync(FOLDER).filter((file) => !file.startsWith('.'));
  expect(files.toSorted()).toEqual(Object.keys({ ...STREAMS, ...BODIES }).toSorted());
});

test('the broken cuts are where their names say', () => {
  expect(readFileSync(path.join(FOLDER, 'broken-cut-in-character.sse')).toString()).toMatch(/\ufffd$/);
  expect(readFileSync(path.join(FOLDER, 'broken-cut-in-line.sse')).toString()).toMatch(/data: [^\n]+$/);
});
