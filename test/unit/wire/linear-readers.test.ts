import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MessageSse } from '#server/providers/anthropic/sse.ts';
import { NativeSse } from '#server/providers/anthropic/native-sse.ts';
import { boundedFetch } from '#server/providers/bridge/wire.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import type { SseReader } from '#server/wire/sse.ts';
import { readObjects } from '../../../web/lib/api/ndjson.ts';
import { EventReader } from '../../../web/lib/api/sse.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';
import { countBytesRead } from '../../support/wire/count-bytes.ts';
import { runs } from '../../fuzz/property-runs.ts';

/** How often each byte may be looked at: by each of a dozen searches, and copied a few times. */
const LOOKS_MAX = 40;
const anySizes = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 50 });
/** Long text with what careless searches stumble over. */
const anyText = fc
  .array(fc.constantFrom('x', '\\', '"', '\n', '\u20ac', ' ', '"usage":', '"type":"response.', '%', '{'), {
    minLength: 1,
    maxLength: 5,
  })
  .chain((parts) =>
    fc.integer({ min: 1, max: 20_000 }).map((times) => parts.join('').repeat(times).slice(0, 20_000)),
  );

const sse = (...values: object[]): Buffer =>
  Buffer.from(values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join(''));

const READERS: [string, () => SseReader, (text: string) => Buffer][] = [
  [
    'chat completion',
    () => new ChatSse(true),
    (content) =>
      sse(
        { choices: [{ delta: { content } }] },
        { choices: [{ delta: {}, finish_reason: 'stop' }] },
        { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } },
      ),
  ],
  [
    'response',
    () => new ResponsesSse(),
    (delta) =>
      sse(
        { type: 'response.output_text.delta', delta },
        {
          type: 'response.completed',
          response: { output: delta, usage: { input_tokens: 3, output_tokens: 2 } },
        },
      ),
  ],
  ['message', () => new NativeSse(), messageOf],
  ['message translated to a chat completion', () => new MessageSse(1, true), messageOf],
];

function messageOf(text: string): Buffer {
  return sse(
    { type: 'message_start', message: { id: 'm', model: 'm', usage: { input_tokens: 3, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  );
}

function read(reader: SseReader, chunks: readonly Buffer[]): object {
  const out = [...chunks.map((chunk) => reader.push(chunk)), reader.flush()];
  const { usage, facts, countedTokens, dataEvents, complete, failed, insideEvent } = reader;
  const text = Buffer.concat(out.filter((each) => each !== null)).toString('latin1');
  return { text, usage, facts, countedTokens, dataEvents, complete, failed, insideEvent };
}

describe.each(READERS)('a streamed %s', (_, open, bytesOf) => {
  test('costs a bounded number of looks at each byte, and reads the same, in any chunks', async () => {
    await fc.assert(
      fc.asyncProperty(anyText, anySizes, async (text, sizes) => {
        const bytes = bytesOf(text);
        const whole = read(open(), [bytes]);
        expect(whole).toMatchObject({ complete: true, failed: false });
        const chunks = chunksOf(bytes, sizes);
        let divided: object = {};
        const looks = await countBytesRead(() => void (divided = read(open(), chunks)));
        expect(divided).toEqual(whole);
        expect(looks).toBeLessThanOrEqual(LOOKS_MAX * bytes.length);
      }),
      runs(10),
    );
  });
});

test('a package of the bridge gets whole events, in any chunks', async () => {
  await fc.assert(
    fc.asyncProperty(anyText, anySizes, async (text, sizes) => {
      const bytes = Buffer.concat([sse({ text }, { text: 'b' }), Buffer.from('data: half')]);
      const body = ReadableStream.from(chunksOf(bytes, sizes));
      const headers = { 'content-type': 'text/event-stream' };
      const fetch = boundedFetch(() => Promise.resolve(new Response(body, { headers })));
      const received: Buffer[] = [];
      const looks = await countBytesRead(async () => {
        const reply = await fetch('http://upstream.test');
        for await (const chunk of reply.body as ReadableStream<Uint8Array>) received.push(Buffer.from(chunk));
      });
      expect(Buffer.concat(received).equals(bytes)).toBe(true);
      for (const each of received.slice(0, -1)) expect(each.toString().endsWith('\n\n')).toBe(true);
      expect(looks).toBeLessThanOrEqual(LOOKS_MAX * bytes.length);
    }),
    { numRuns: 10 },
  );
});

describe("the page's readers", () => {
  const divide = (text: string, sizes: readonly number[]): string[] =>
    chunksOf(Buffer.from(text, 'latin1'), sizes).map((chunk) => chunk.toString('latin1'));

  test('of events cost a bounded number of looks at each character', async () => {
    await fc.assert(
      fc.asyncProperty(anySizes, fc.constantFrom('\n', '\r\n', '\r'), async (sizes, end) => {
        const text = `data: ${'x'.repeat(50_000)}${end}${end}data: y${end}${end}`;
        const reader = new EventReader();
        const found: string[] = [];
        const chunks = divide(text, sizes);
        const looks = await countBytesRead(() =>
          chunks.forEach((chunk) => found.push(...reader.push(chunk))),
        );
        expect(found).toEqual(['x'.repeat(50_000), 'y']);
        expect(looks).toBeLessThanOrEqual(LOOKS_MAX * text.length);
      }),
      { numRuns: 10 },
    );
  });

  test('of objects cost a bounded number of looks at each character', async () => {
    await fc.assert(
      fc.asyncProperty(anySizes, async (sizes) => {
        const objects = [{ text: 'x'.repeat(50_000) }, { text: 'y' }];
        const text = objects.map((each) => `${JSON.stringify(each)}\n`).join('');
        const found: unknown[] = [];
        const looks = await countBytesRead(async () => {
          const body = ReadableStream.from(chunksOf(Buffer.from(text), sizes));
          for await (const object of readObjects(new Response(body))) found.push(object);
        });
        expect(found).toEqual(objects);
        expect(looks).toBeLessThanOrEqual(LOOKS_MAX * text.length);
      }),
      { numRuns: 5 },
    );
  });
});
