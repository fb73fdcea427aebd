import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Usage } from '#db/money.ts';
import { DIALECTS, type Dialect } from '#db/events/upstream-events.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import type { ProviderError } from '#server/providers/provider.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { readChatBody } from '../../support/wire/chat-body.ts';
import { chunksOf, run } from '../../support/wire/arbitrary-sse.ts';
import { runs } from '../../fuzz/property-runs.ts';

/**
 * Replies recorded from OpenAI-compatible providers, and how the relay reads them. Fixtures of OpenAI itself
 * have their own tests.
 */
const FOLDER = path.join(import.meta.dirname, '../../fixtures');
const RECORDED = DIALECTS.filter((dialect) => dialect !== 'openai' && dialect !== 'other');
/** What each of them has to show. */
const EXPECTED = [
  'broken-cut.sse',
  'broken-error-event.sse',
  'broken-error.html',
  'broken-no-finish.sse',
  'error.json',
  'text.json',
  'text.sse',
  'tool-call.sse',
];

const fixture = (dialect: Dialect, file: string): Buffer => readFileSync(path.join(FOLDER, dialect, file));

type Streamed = { usage: Partial<Usage> | null; counted: number; complete: boolean; failed: boolean };
const whole = (input: number, output: number, counted: number, more: Partial<Usage> = {}): Streamed => ({
  usage: { input, output, cached: 0, reasoning: 0, ...more },
  counted,
  complete: true,
  failed: false,
});
const broken = (counted: number, usage: Partial<Usage> | null = null): Streamed => ({
  usage,
  counted,
  complete: false,
  failed: false,
});
const failed = (counted: number, usage: Partial<Usage> | null = null): Streamed => ({
  ...broken(counted, usage),
  failed: true,
});

/** The reported usage, the deltas counted on the way, and how it ended. */
const STREAMS: Partial<Record<Dialect, Record<string, Streamed>>> = {
  azure: {
    'text.sse': whole(14, 6, 6),
    'tool-call.sse': whole(58, 5, 5),
    'filter-fault.sse': whole(14, 6, 6),
    'broken-cut.sse': broken(4),
    'broken-no-finish.sse': broken(6),
    'broken-error-event.sse': failed(4),
  },
  openrouter: {
    'text.sse': whole(14, 6, 6),
    'tool-call.sse': whole(58, 5, 3),
    'reasoning.sse': whole(14, 9, 9, { reasoning: 3 }),
    'broken-cut.sse': broken(4),
    'broken-no-finish.sse': broken(6),
    'broken-error-event.sse': failed(4),
  },
  vllm: {
    'text.sse': whole(14, 6, 6),
    'tool-call.sse': whole(58, 5, 5),
    'completion.sse': whole(3, 4, 4),
    'broken-cut.sse': broken(3, { input: 14, output: 3 }),
    'broken-no-finish.sse': broken(5, { input: 14, output: 5 }),
    'broken-error-event.sse': failed(3, { input: 14, output: 3 }),
    'broken-error-object.sse': failed(3, { input: 14, output: 3 }),
  },
  ollama: {
    'text.sse': whole(14, 6, 6),
    'tool-call.sse': whole(158, 5, 6),
    'thinking.sse': whole(14, 9, 9),
    'broken-cut.sse': broken(4),
    'broken-no-finish.sse': broken(6),
    'broken-error-event.sse': broken(4),
  },
  lmstudio: {
    'text.sse': whole(14, 6, 6),
    'tool-call.sse': whole(263, 34, 5),
    'broken-cut.sse': broken(4),
    'broken-no-finish.sse': broken(6),
    'broken-error-event.sse': failed(4),
  },
  groq: {
    'text.sse': whole(14, 6, 6),
    'text-usage-asked.sse': whole(14, 6, 6),
    'tool-call.sse': whole(228, 15, 6),
    'broken-cut.sse': broken(4),
    'broken-no-finish.sse': broken(6),
    'broken-error-event.sse': failed(4),
    'broken-error-named.sse': failed(3),
  },
  mistral: {
    'text.sse': whole(14, 6, 6),
    'tool-call.sse': whole(58, 5, 6),
    'thinking.sse': whole(14, 9, 9),
    'broken-cut.sse': broken(4),
    'broken-no-finish.sse': broken(6),
    'broken-error-event.sse': failed(4),
    'broken-thinking-cut.sse': broken(3),
  },
  deepseek: {
    'text.sse': whole(14, 9, 9, { cached: 8, reasoning: 3 }),
    'tool-call.sse': whole(158, 15, 5, { cached: 8 }),
    'broken-cut.sse': broken(7),
    'broken-no-finish.sse': broken(9),
    'broken-error-event.sse': failed(7),
  },
  gemini: {
    // It thought 23 tokens, which only the total tells.
    'text.sse': whole(14, 29, 3, { reasoning: 23 }),
    'tool-call.sse': whole(58, 82, 6, { reasoning: 65 }),
    'broken-cut.sse': broken(1, { input: 14, output: 25 }),
    'broken-no-finish.sse': broken(2, { input: 14, output: 27 }),
    'broken-error-event.sse': failed(1, { input: 14, output: 25 }),
    'broken-error-array.sse': broken(1, { input: 14, output: 25 }),
  },
};

/** Replies with a status of success; null for what no client could read. */
const REPLIES: Partial<
  Record<Dialect, Record<string, { usage: Partial<Usage> | null; failed: boolean } | null>>
> = {
  azure: { 'text.json': { usage: { input: 14, output: 6, cached: 8 }, failed: false } },
  openrouter: {
    'text.json': { usage: { input: 14, output: 6 }, failed: false },
    'broken-choice-error.json': { usage: { input: 14, output: 2 }, failed: true },
    'broken-error-as-success.json': { usage: null, failed: true },
  },
  vllm: {
    'text.json': { usage: { input: 14, output: 6, cached: 8 }, failed: false },
    'completion.json': { usage: { input: 3, output: 4 }, failed: false },
    'embeddings.json': { usage: { input: 5, output: 0 }, failed: false },
  },
  ollama: { 'text.json': { usage: { input: 14, output: 6 }, failed: false } },
  lmstudio: {
    'text.json': { usage: { input: 14, output: 6 }, failed: false },
    'broken-error-as-success.json': { usage: null, failed: true },
  },
  groq: { 'text.json': { usage: { input: 14, output: 6 }, failed: false } },
  mistral: { 'text.json': { usage: { input: 14, output: 6 }, failed: false } },
  deepseek: { 'text.json': { usage: { input: 14, output: 6, cached: 8 }, failed: false } },
  gemini: {
    'text.json': { usage: { input: 14, output: 29, reasoning: 23 }, failed: false },
    'broken-error-as-success.json': null,
  },
};

/** What replies say whose status is no success. */
const FAULTS: Partial<Record<Dialect, Record<string, ProviderError | null>>> = {
  azure: {
    'error.json': {
      message:
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. " +
        'Please modify your prompt and retry.',
      param: 'prompt',
    },
    'error-gateway.json': { message: 'Resource not found', param: null },
  },
  openrouter: {
    'error.json': { message: 'Provider returned error: max_tokens is too large: 900000.', param: null },
  },
  vllm: {
    'error.json': {
      message: "This model's maximum context length is 4096 tokens. However, you requested 9014 tokens.",
      param: 'max_tokens',
    },
    'error-object.json': { message: 'The model `tides` does not exist.', param: null },
    'error-detail.json': {
      message: 'messages: Field required; temperature: Input should be a valid number',
      param: 'messages',
    },
    'error-detail-text.json': { message: 'Not Found', param: null },
  },
  ollama: { 'error.json': { message: 'model "tides" not found, try pulling it first', param: null } },
  lmstudio: {
    'error.json': { message: 'Model "tides" not found. Please specify a valid model.', param: 'model' },
    'error-text.json': { message: "'response_format.type' must be 'json_schema' or 'text'", param: null },
  },
  groq: { 'error.json': { message: '`logprobs` is not supported with this model', param: 'logprobs' } },
  mistral: {
    'error.json': {
      message: 'max_completion_tokens: Extra inputs are not permitted',
      param: 'max_completion_tokens',
    },
    'error-text.json': { message: 'Invalid model: tides', param: null },
    'error-in-text.json': {
      message: 'frequency_penalty: Extra inputs are not permitted',
      param: 'frequency_penalty',
    },
  },
  deepseek: {
    'error.json': { message: 'Model Not Exist', param: null },
    'error-line.txt': { message: fixture('deepseek', 'error-line.txt').toString(), param: null },
  },
  gemini: { 'error.json': { message: "Invalid value at 'tools[0]': unknown type.", param: null } },
};

const cases = <T>(table: Partial<Record<Dialect, Record<string, T>>>): [Dialect, string, T][] =>
  Object.entries(table).flatMap(([dialect, files]) =>
    Object.entries(files).map(([file, expected]): [Dialect, string, T] => [
      dialect as Dialect,
      file,
      expected,
    ]),
  );

test('each dialect shows all that it has to, and no fixture is without its line in a table', () => {
  for (const dialect of RECORDED) {
    const files = readdirSync(path.join(FOLDER, dialect)).toSorted();
    expect(files, dialect).toEqual(expect.arrayContaining(EXPECTED));
    const told = [STREAMS, REPLIES, FAULTS].flatMap((table) => Object.keys(table[dialect] ?? {}));
    expect([...told, 'broken-error.html'].toSorted(), dialect).toEqual(files);
  }
});

test.each(RECORDED)('the fixtures of %s say what their names say', (dialect) => {
  for (const file of ['text.sse', 'text.json', 'tool-call.sse']) {
    const bytes = fixture(dialect, file);
    const reader = readChatBody(() => undefined);
    reader.begin(file.endsWith('.sse') ? 'text/event-stream' : 'application/json');
    reader.push(bytes);
    const said = reader.end(bytes);
    const isTool = file === 'tool-call.sse';
    expect(said.text?.replace(/^Noon is high/, '').replaceAll(' ', ''), file).toBe(
      isTool ? '{"harbour":"Leith"}' : 'Thetideturnsatnoon.',
    );
    expect(said.finishReason, file).toBe(isTool ? 'tool_calls' : 'stop');
  }
});

describe.each(cases(STREAMS))('%s: the streamed reply %s', (dialect, file, expected) => {
  const bytes = fixture(dialect, file);
  const isCut = !expected.complete && !expected.failed;

  test('is understood in any pieces, and its bytes pass', () => {
    const sizes = fc.oneof(
      fc.constantFrom([1], [7], [bytes.length]),
      fc.array(fc.nat(300), { minLength: 1, maxLength: 30 }),
    );
    fc.assert(
      fc.property(sizes, (pieces) => {
        const tap = new ChatSse(false);
        const { output } = run(tap, chunksOf(bytes, pieces));
        // Of a reply that was cut the half event at its end does not go out: an error follows.
        expect(output.toString()).toBe(isCut ? wholeEvents(bytes) : bytes.toString());
        expect({
          usage: tap.usage,
          counted: tap.countedTokens,
          complete: tap.complete,
          failed: tap.failed,
        }).toMatchObject(expected);
      }),
      runs(10),
    );
  });

  test('loses the usage that only the relay asked for, and nothing else', () => {
    const tap = new ChatSse(true);
    const { output } = run(tap, chunksOf(bytes, [100]));
    const kept = eventsOf(isCut ? wholeEvents(bytes) : bytes.toString()).filter(
      (event) => !isUsageOnly(event),
    );
    expect(output.toString()).toBe(kept.join(''));
    expect({ usage: tap.usage, complete: tap.complete }).toMatchObject({
      usage: expected.usage,
      complete: expected.complete,
    });
  });
});

const eventsOf = (text: string): string[] => text.split(/(?<=\n\n)/);
const wholeEvents = (bytes: Buffer): string => bytes.toString().slice(0, bytes.lastIndexOf('\n\n') + 2);

function isUsageOnly(event: string): boolean {
  if (!event.startsWith('data: {')) return false;
  const { choices, usage } = JSON.parse(event.slice('data: '.length)) as {
    choices?: unknown[];
    usage?: unknown;
  };
  return choices?.length === 0 && typeof usage === 'object' && usage !== null;
}

test.each(RECORDED)(
  'a stream of %s that is cut anywhere is complete only behind its finish reason',
  (dialect) => {
    const bytes = fixture(dialect, 'text.sse');
    const finish = /"finish_reason": ?"stop"/.exec(bytes.toString())?.index ?? 0;
    const complete = bytes.indexOf('\n\n', finish);
    for (let at = 0; at < bytes.length; at += 13) {
      const tap = new ChatSse(false);
      run(tap, [bytes.subarray(0, at)]);
      // The blank line may lack, the event's own end may not.
      expect(tap.complete, `cut at ${at} of ${complete}`).toBe(at >= complete);
      expect(tap.failed).toBe(false);
    }
  },
);

test.each(cases(REPLIES))('%s: the reply %s is understood, and its bytes pass', (dialect, file, expected) => {
  const bytes = fixture(dialect, file);
  const reply = parseJsonReply(bytes);
  if (expected === null) {
    expect(reply).toBeNull();
    return;
  }
  expect(reply).toMatchObject(expected);
  expect(reply?.bytes).toBe(bytes);
  expect(reply?.outputBytes()).toBeGreaterThanOrEqual(reply?.usage?.output ?? 0);
});

test.each(cases(FAULTS))('%s: the error %s is found', (dialect, file, expected) => {
  expect(createOpenai(dialect).parseError(fixture(dialect, file))).toEqual(expected);
});

test.each(RECORDED)('a page of HTML before %s says nothing that is passed on', (dialect) => {
  expect(createOpenai(dialect).parseError(fixture(dialect, 'broken-error.html'))).toBeNull();
  expect(parseJsonReply(fixture(dialect, 'broken-error.html'))).toBeNull();
});
