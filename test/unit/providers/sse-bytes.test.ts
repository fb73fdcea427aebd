import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import {
  anyEnd,
  anyEvent,
  chunksOf,
  type Event,
  eventOf,
  isComplete,
  run,
} from '../../support/wire/arbitrary-sse.ts';
import { runs } from '../../fuzz/property-runs.ts';

const USAGE_ONLY =
  '{"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}';

/** Every way to send `bytes` in two parts. */
function cuts(bytes: Buffer): Buffer[][] {
  return Array.from({ length: bytes.length + 1 }, (_, at) => [bytes.subarray(0, at), bytes.subarray(at)]);
}

const WHOLE_RESTS = ['data: [DONE]', 'data: {}\n', 'data: {}\r\n', 'data: {}\r', 'event: x\ndata: {"a":1}'];
const HALF_RESTS = [
  'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"',
  'data: [DON',
  ': comm',
  'dat',
];

const anyStream = fc.record({
  events: fc.array(anyEvent, { maxLength: 8 }),
  /** What an upstream that was cut, or that omits the last blank line, ends with. */
  rest: fc.constantFrom('', ...WHOLE_RESTS, ...HALF_RESTS),
  sizes: fc.array(fc.nat(40), { minLength: 1, maxLength: 60 }),
  strip: fc.boolean(),
});

describe('bytes', () => {
  test('of any reply in any chunks pass unchanged, except a usage chunk only the relay asked for', () => {
    fc.assert(
      fc.property(anyStream, ({ events, rest, sizes, strip }) => {
        const input = Buffer.concat([...events.map(({ bytes }) => bytes), Buffer.from(rest)]);
        const expected = events
          .filter(({ isUsageOnly }) => !(strip && isUsageOnly))
          .map(({ bytes }) => bytes);
        // Behind a reply that is not complete, an error will follow; half an event would swallow it.
        if (!HALF_RESTS.includes(rest) || isComplete(events)) expected.push(Buffer.from(rest));
        const { output } = run(new ChatSse(strip), chunksOf(input, sizes));
        expect(output.toString('latin1')).toBe(Buffer.concat(expected).toString('latin1'));
      }),
      runs(400),
    );
  });

  test('leave in whole events only, as long as no event is oversize', () => {
    fc.assert(
      fc.property(anyStream, ({ events, rest, sizes, strip }) => {
        const borders = new Set([0]);
        let at = 0;
        for (const { bytes, isUsageOnly } of events) {
          if (!(strip && isUsageOnly)) at += bytes.length;
          borders.add(at);
        }
        const tap = new ChatSse(strip);
        let passed = 0;
        for (const chunk of chunksOf(
          Buffer.concat([...events.map(({ bytes }) => bytes), Buffer.from(rest)]),
          sizes,
        )) {
          passed += tap.push(chunk)?.length ?? 0;
          expect(borders).toContain(passed);
          expect(tap.insideEvent).toBe(false);
        }
      }),
      runs(250),
    );
  });

  test('of whole events leave with the push that ends them, whatever came before', () => {
    const endings = ['\n\n', '\r\n\r\n'];
    fc.assert(
      fc.property(
        fc.array(fc.tuple(anyEvent, fc.constantFrom(...endings)), { minLength: 1, maxLength: 6 }),
        (parts) => {
          const tap = new ChatSse(false);
          for (const [{ lines }, ending] of parts) {
            const bytes = Buffer.from(lines.join(ending.slice(ending.length / 2)) + ending);
            expect(tap.push(bytes)?.toString('latin1')).toBe(bytes.toString('latin1'));
          }
        },
      ),
    );
  });

  test.each(['\n', '\r\n', '\r'])(
    'are cut anywhere without harm, in a character or between line ends written %j',
    (lineEnd) => {
      const reply = [
        'data: {"choices":[{"delta":{"content":"t\u00f6k\u20ac\u{1f600}"}}]}',
        '',
        `data: ${USAGE_ONLY}`,
        '',
        'data: [DONE]',
        '',
        '',
      ];
      const bytes = Buffer.from(reply.join(lineEnd));
      const kept = Buffer.from(reply.toSpliced(2, 2).join(lineEnd));
      for (const chunks of cuts(bytes)) {
        const tap = new ChatSse(true);
        expect(run(tap, chunks).output.toString()).toBe(kept.toString());
        expect(tap).toMatchObject({ usage: { input: 3, output: 2 }, countedTokens: 1, complete: true });
      }
    },
  );

  test('that come one by one come out once', () => {
    fc.assert(
      fc.property(anyEvent, anyEvent, anyEnd, (first, second, end) => {
        const input = Buffer.concat([
          first.bytes,
          second.bytes,
          eventOf([': end'], end).bytes,
          Buffer.from('data: {}'),
        ]);
        const { output } = run(
          new ChatSse(false),
          [...input].map((byte) => Buffer.of(byte)),
        );
        expect(output.toString('latin1')).toBe(input.toString('latin1'));
      }),
    );
  });
});

describe('the usage chunk', () => {
  const event = (data: string): Event => eventOf([`data: ${data}`], '\n');
  const passes = (data: string, strip: boolean): boolean =>
    new ChatSse(strip).push(event(data).bytes) !== null;

  test('goes through to a client that asked for it, and not to one that did not', () => {
    expect(passes(USAGE_ONLY, false)).toBe(true);
    expect(passes(USAGE_ONLY, true)).toBe(false);
  });

  test.each([
    [
      'carries a choice',
      '{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}',
    ],
    ['has null for usage', '{"choices":[],"usage":null}'],
    ['has no choices at all', '{"usage":{"prompt_tokens":3,"completion_tokens":2}}'],
    ["is a content filter's report", '{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}'],
    ['only speaks of usage', '{"choices":[],"note":"\\"usage\\":{}"}'],
    ['is not JSON', '{"choices":[],"usage":{"prompt_tokens":3}'],
  ])('is nothing that %s', (_, data) => {
    expect(passes(data, true)).toBe(true);
  });

  test('is omitted however its JSON is spaced and its data is split over lines', () => {
    const spaced = '{ "choices" : [ ] , "usage" : { "prompt_tokens" : 3 , "completion_tokens" : 2 } }';
    expect(passes(spaced, true)).toBe(false);
    const tap = new ChatSse(true);
    const lines = [
      'event: chunk',
      'data: {"choices":[],',
      'data:"usage": {"prompt_tokens":3,"completion_tokens":2}}',
    ];
    expect(tap.push(eventOf(lines, '\r\n').bytes)).toBeNull();
    expect(tap.usage).toMatchObject({ input: 3, output: 2 });
  });

  test('is omitted at the very end too, where its blank line never came', () => {
    const tap = new ChatSse(true);
    expect(tap.push(Buffer.from(`data: ${USAGE_ONLY}`))).toBeNull();
    expect(tap.flush()).toBeNull();
    expect(tap.usage).toMatchObject({ input: 3, output: 2 });
  });
});

describe('an event beyond the bound', () => {
  const huge = Buffer.from(
    `data: {"choices":[{"delta":{"content":"${'x'.repeat(3 * SSE_EVENT_BYTES_MAX)}"}}]}\n\n`,
  );
  const before = eventOf([`data: ${USAGE_ONLY}`], '\n').bytes;
  const after = eventOf(['data: {"choices":[{"delta":{},"finish_reason":"stop"}]}'], '\n').bytes;

  test.each([4, 64, 1_024, 2_000, 5_000])(
    'passes in pieces, and what stands around it is read as ever: chunks of %i KiB',
    (kib) => {
      const input = Buffer.concat([before, huge, after]);
      const tap = new ChatSse(true);
      const chunks = chunksOf(input, [kib * 1024]);
      let heldMost = 0;
      let held = 0;
      const output: Buffer[] = [];
      for (const chunk of chunks) {
        const out = tap.push(chunk);
        held += chunk.length - (out?.length ?? 0);
        heldMost = Math.max(heldMost, held);
        if (out) output.push(out);
      }
      expect(Buffer.concat(output).equals(Buffer.concat([huge, after]))).toBe(true);
      expect(tap.flush()).toBeNull();
      expect(tap).toMatchObject({ usage: { input: 3, output: 2 }, complete: true, insideEvent: false });
      expect(heldMost).toBeLessThanOrEqual(SSE_EVENT_BYTES_MAX + before.length);
    },
  );

  test('is said to be open until its end has come, so that no error is glued into it', () => {
    const tap = new ChatSse(false);
    const middle = huge.length - 10;
    tap.push(huge.subarray(0, middle));
    expect(tap.insideEvent).toBe(true);
    tap.push(huge.subarray(middle));
    expect(tap.insideEvent).toBe(false);
  });
});
