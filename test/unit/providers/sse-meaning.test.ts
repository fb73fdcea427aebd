import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { anyEvent, chunksOf, eventOf, isComplete, run } from '../../support/wire/arbitrary-sse.ts';

const FIXTURES = path.join(import.meta.dirname, '../../fixtures/openai');

/** A tap that has seen events with these data, a line each. */
function seen(...data: string[]): ChatSse {
  const tap = new ChatSse(false);
  run(tap, [Buffer.from(data.map((each) => `data: ${each}\n\n`).join(''))]);
  return tap;
}

const delta = (content: string, more = ''): string =>
  `{"choices":[{"index":0,"delta":{"content":${JSON.stringify(content)}}${more}}]}`;

test('a reply is read the same however its events are chunked, spaced and terminated', () => {
  const stream = fc.record({
    events: fc.array(anyEvent, { maxLength: 10 }),
    sizes: fc.array(fc.nat(60), { minLength: 1, maxLength: 40 }),
    strip: fc.boolean(),
  });
  fc.assert(
    fc.property(stream, ({ events, sizes, strip }) => {
      const tap = new ChatSse(strip);
      run(tap, chunksOf(Buffer.concat(events.map(({ bytes }) => bytes)), sizes));
      expect({
        ...view(tap),
        usage: tap.usage && { input: tap.usage.input, output: tap.usage.output },
      }).toEqual({
        dataEvents: events.filter(({ hasData }) => hasData).length,
        countedTokens: events.filter(({ isDelta }) => isDelta).length,
        complete: isComplete(events),
        failed: events.some(({ isError }) => isError),
        usage: events.findLast(({ usage }) => usage !== null)?.usage ?? null,
      });
    }),
    { numRuns: 2_000 },
  );
});

function view({ dataEvents, countedTokens, complete, failed }: ChatSse) {
  return { dataEvents, countedTokens, complete, failed };
}

describe('tokens', () => {
  test.each(['content', 'reasoning_content', 'reasoning', 'refusal', 'text'])(
    'in "%s" count, and empty ones do not',
    (member) => {
      expect(
        seen(`{"choices":[{"delta":{"${member}":"a"}}]}`, `{"choices":[{"delta":{"${member}":""}}]}`)
          .countedTokens,
      ).toBe(1);
      expect(seen(`{"choices":[{"delta":{"${member}":null}}]}`).countedTokens).toBe(0);
    },
  );

  test('of a tool call count, though its content is null', () => {
    expect(
      seen('{"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"arguments":"{\\"a"}}]}}]}')
        .countedTokens,
    ).toBe(1);
  });

  test('in the parts of a content that is a list count', () => {
    expect(
      seen(
        '{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}}]}',
      ).countedTokens,
    ).toBe(1);
    expect(seen('{"choices":[{"delta":{"content":[{"type":"text","text":""}]}}]}').countedTokens).toBe(0);
  });

  test('are not the words that a reply quotes', () => {
    expect(seen(delta('"text":"x"'), delta('"content":""')).countedTokens).toBe(2);
    expect(seen('{"choices":[],"note":"\\"content\\":\\"x\\""}').countedTokens).toBe(0);
  });

  test('that come many in one delta are estimated by their size, never fewer than the deltas', () => {
    expect(seen(delta('a'.repeat(400))).countedTokens).toBe(100);
    expect(seen(delta('a'.repeat(16)), delta('b'.repeat(16))).countedTokens).toBe(2);
    expect(seen(delta(`${'\\'.repeat(50)}"${'a'.repeat(49)}`)).countedTokens).toBe(
      Math.ceil((2 * 51 + 49) / 4),
    );
  });
});

describe('the end of a reply', () => {
  test.each([
    ['a finish reason', delta('', ',"finish_reason":"stop"'), true],
    ['a finish reason with blanks', '{"choices":[{"finish_reason" : "length"}]}', true],
    ['a null finish reason', delta('', ',"finish_reason":null'), false],
    ['[DONE]', '[DONE]', true],
    ['[DONE] in the text', delta('[DONE]'), false],
    ['a line "data: [DONE]" in the text', delta('\n\ndata: [DONE]\n\n'), false],
    ['a finish reason in the text', delta('"finish_reason":"stop"'), false],
    ['a finish reason that is an error', delta('', ',"finish_reason": "error"'), false],
    ['usage', '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}', false],
    ['an error', '{"error":{"message":"no"}}', false],
  ])('told by %s: %s is %s', (_, data, complete) => {
    expect(seen(data).complete).toBe(complete);
  });

  test('is not a [DONE] behind an error, as servers send that send it behind everything', () => {
    expect(seen(delta('a'), '{"error":{"message":"no"}}', '[DONE]').complete).toBe(false);
    expect(seen(delta('a', ',"finish_reason":"stop"'), '{"error":{"message":"no"}}', '[DONE]').complete).toBe(
      true,
    );
  });

  test('is not a comment that says so', () => {
    const tap = new ChatSse(false);
    run(tap, [Buffer.from(': data: [DONE]\n\n: "finish_reason":"stop"\n\ndata: {}\n\n')]);
    expect(view(tap)).toEqual({ dataEvents: 1, countedTokens: 0, complete: false, failed: false });
  });

  test.each(['[DON', delta('b', ',"finish_reason":"stop"').slice(0, -1), delta('b').slice(0, -3)])(
    'is not reported by half an event: %s',
    (half) => {
      const tap = new ChatSse(false);
      const { output } = run(tap, [Buffer.from(`data: ${delta('a')}\n\ndata: ${half}`)]);
      expect(output.toString()).toBe(`data: ${delta('a')}\n\n`);
      expect(view(tap)).toEqual({ dataEvents: 1, countedTokens: 1, complete: false, failed: false });
      expect(tap.insideEvent).toBe(false);
    },
  );

  test('may lack its blank line; what follows is then reported that the event is still open', () => {
    const tap = new ChatSse(false);
    expect(tap.push(Buffer.from(`data: ${delta('a')}`))).toBeNull();
    expect(tap.flush()?.toString()).toBe(`data: ${delta('a')}`);
    expect(view(tap)).toEqual({ dataEvents: 1, countedTokens: 1, complete: false, failed: false });
    expect(tap.insideEvent).toBe(true);
  });
});

describe('usage', () => {
  const usage = (prompt: unknown, completion: unknown): string =>
    JSON.stringify({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: completion } });

  test('that comes on every chunk is the last one', () => {
    expect(seen(usage(5, 1), usage(5, 2), usage(5, 3)).usage).toMatchObject({ input: 5, output: 3 });
  });

  test("that only Groq's own member reports is taken", () => {
    const groq = '"x_groq":{"id":"r","usage":{"prompt_tokens":5,"completion_tokens":2,"queue_time":0.1}}';
    expect(seen(`{"choices":[{"finish_reason":"stop"}],${groq}}`).usage).toMatchObject({
      input: 5,
      output: 2,
    });
    expect(seen(`{"choices":[],"usage":null,${groq}}`).usage).toMatchObject({ input: 5, output: 2 });
    expect(
      seen(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3},${groq}}`).usage,
    ).toMatchObject({ input: 9, output: 3 });
  });

  test('that is null, quoted or garbage takes nothing away from everything that was reported', () => {
    const tap = seen(
      usage(5, 2),
      '{"choices":[],"usage":null}',
      delta('"usage":{"prompt_tokens":9}'),
      usage('many', -1),
    );
    expect(tap.usage).toMatchObject({ input: 5, output: 2 });
    expect(seen(delta('hello')).usage).toBeNull();
  });
});

describe('an error', () => {
  test.each([
    ['as an object', '{"error":{"message":"overloaded"}}', true],
    ['beside choices', '{"choices":[],"error":{"code":"x"}}', true],
    ['as a text', '{"error":"out of memory"}', true],
    ['as an empty text', '{"choices":[],"error":""}', false],
    ['as the object itself', '{"object":"error","message":"no","code":500}', true],
    ['as a finish reason', delta('', ',"finish_reason":"error"'), true],
    ['in what Groq adds', '{"choices":[],"x_groq":{"id":"r","error":"over capacity"}}', true],
    ['as a word', delta('error'), false],
    ['as null', '{"choices":[],"error":null}', false],
    ['in the text', delta('{"error":{"message":"no"}}'), false],
  ])('%s is told from none', (_, data, isFailure) => {
    expect(seen(data).failed).toBe(isFailure);
  });

  test('is found in an event with a name of its own', () => {
    const tap = new ChatSse(false);
    tap.push(eventOf(['event: error', 'data: {"error":{"message":"no"}}'], '\n').bytes);
    expect(tap.failed).toBe(true);
  });
});

test.each([
  ['text.sse', { usage: { input: 14, output: 6 }, countedTokens: 6, complete: true, failed: false }],
  ['crlf.sse', { usage: { input: 14, output: 6 }, countedTokens: 6, complete: true, failed: false }],
  ['usage-on-every-chunk.sse', { usage: { input: 14, output: 6 }, complete: true }],
  ['parallel-tool-calls.sse', { usage: { input: 61 }, countedTokens: 4, complete: true }],
  ['broken-error-event.sse', { complete: false, failed: true, countedTokens: 3 }],
  ['broken-cut-in-character.sse', { complete: false, countedTokens: 1 }],
  ['broken-no-done.sse', { complete: true }],
  ['broken-no-finish.sse', { complete: false }],
  ['broken-usage.sse', { usage: null, complete: true }],
])('the recorded reply %s is understood at every cut', (file, expected) => {
  const bytes = readFileSync(path.join(FIXTURES, file));
  for (const size of [1, 7, 100, bytes.length]) {
    const tap = new ChatSse(false);
    const { output } = run(tap, chunksOf(bytes, [size]));
    const isCut = !tap.complete && !tap.failed;
    expect(output.equals(isCut ? bytes.subarray(0, output.length) : bytes)).toBe(true);
    expect({ ...view(tap), usage: tap.usage }).toMatchObject(expected);
  }
});
