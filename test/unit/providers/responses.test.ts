import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { responses } from '#server/providers/openai/responses.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { runThrough } from '../../support/providers/anthropic-calls.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

/** Replies of the Responses API as they are recorded, on their way through. */

const FOLDER = path.join(import.meta.dirname, '../../fixtures/responses');
const fixture = (name: string): Buffer => readFileSync(path.join(FOLDER, name));
const STREAMS = readdirSync(FOLDER).filter((name) => name.endsWith('.sse'));

function read(name: string, pieces?: readonly Buffer[]): { reader: ResponsesSse; out: Buffer } {
  const reader = new ResponsesSse();
  return { reader, out: runThrough(reader, pieces ?? [fixture(name)]) };
}
const seen = ({ usage, complete, failed, countedTokens, dataEvents }: ResponsesSse): object => ({
  usage,
  complete,
  failed,
  countedTokens,
  dataEvents,
});

describe('a streamed response', () => {
  test.each([
    [
      'text.sse',
      { complete: true, failed: false, usage: { input: 36, cached: 12, output: 87, reasoning: 64 } },
    ],
    [
      'tool-call.sse',
      { complete: true, failed: false, usage: { input: 61, cached: 0, output: 24, reasoning: 0 } },
    ],
    [
      'incomplete.sse',
      { complete: true, failed: false, usage: { input: 36, cached: 0, output: 16, reasoning: 12 } },
    ],
    [
      'failed.sse',
      { complete: false, failed: true, usage: { input: 36, cached: 0, output: 4, reasoning: 0 } },
    ],
    ['failed-without-usage.sse', { complete: false, failed: true, usage: null }],
    ['error-event.sse', { complete: false, failed: true, usage: null }],
    ['gateway-error.sse', { complete: false, failed: true, usage: null }],
    ['broken-cut.sse', { complete: false, failed: false, usage: null }],
    ['broken-cut-in-event.sse', { complete: false, failed: false, usage: null }],
  ])('%s tells how it ended, and what it cost', (name, expected) => {
    expect(read(name).reader).toMatchObject(expected);
  });

  test('is counted by what the model writes, text and arguments of calls', () => {
    expect([
      read('text.sse').reader.countedTokens,
      read('tool-call.sse').reader.countedTokens,
      read('failed-without-usage.sse').reader.countedTokens,
    ]).toEqual([7, expect.any(Number), 0]);
    expect(read('tool-call.sse').reader.countedTokens).toBeGreaterThanOrEqual(3);
  });

  test.each(STREAMS)('%s: goes through byte for byte, in any pieces and in whole events', (name) => {
    const bytes = fixture(name);
    const whole = read(name);
    const isHalf = name === 'broken-cut-in-event.sse';
    expect(whole.out.equals(isHalf ? bytes.subarray(0, bytes.lastIndexOf('\n\n') + 2) : bytes)).toBe(true);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 12 }), (sizes) => {
        const { reader, out } = read(name, chunksOf(bytes, sizes));
        expect(out.equals(whole.out)).toBe(true);
        expect(seen(reader)).toEqual(seen(whole.reader));
      }),
      { numRuns: 30 },
    );
  });
});

describe('a response that is not streamed', () => {
  const json = (name: string): unknown => responses.json(fixture(name), {} as never);

  test.each([
    ['text.json', { failed: false, usage: { input: 36, cached: 12, output: 87, reasoning: 64 } }],
    ['incomplete.json', { failed: false, usage: { input: 36, cached: 0, output: 16, reasoning: 16 } }],
    ['failed.json', { failed: true, usage: null }],
    ['error-as-success.json', { failed: true, usage: null }],
    ['text-without-usage.json', { failed: false, usage: null }],
  ])('%s tells how it ended, and what it cost', (name, expected) => {
    expect(json(name)).toMatchObject({ bytes: fixture(name), ...expected });
  });

  test('that is no object is absent', () => {
    expect([
      responses.json(Buffer.from('{"status":"completed"'), {} as never),
      responses.json(Buffer.from('[]'), {} as never),
    ]).toEqual([null, null]);
  });
});
