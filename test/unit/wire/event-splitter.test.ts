import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ByteCollector } from '#server/wire/byte-collector.ts';
import { EventSplitter } from '#server/wire/event-splitter.ts';
import { countBytesRead } from '../../support/wire/count-bytes.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

const BLANK_LINE = /(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n|$))/g;
const anySizes = fc.array(fc.nat(9), { minLength: 1, maxLength: 20 });
const anyText = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '\r', '\r\n', 'data: {}'), maxLength: 60 });

/** The events of a text, found in a single search of the text, and the incomplete rest. */
function eventsIn(text: string): { events: string[]; rest: string } {
  const events: string[] = [];
  let start = 0;
  for (const { 0: blank, index } of text.matchAll(BLANK_LINE)) {
    // A match that begins inside the event before does not end an event.
    if (index < start) continue;
    events.push(text.slice(start, index + blank.length));
    start = index + blank.length;
  }
  return { events, rest: text.slice(start) };
}

type Found = { text: string; isWhole: boolean };

function split(splitter: EventSplitter, chunks: readonly Buffer[]): { events: Found[]; rest: string } {
  const events: Found[] = [];
  let open = '';
  for (const chunk of chunks) {
    const batch = splitter.push(chunk);
    if (!batch) continue;
    expect(batch.text).toBe(batch.bytes.toString('latin1'));
    expect(batch.ends.at(-1)).toBe(batch.bytes.length);
    let start = 0;
    for (const [index, end] of batch.ends.entries()) {
      const text = batch.text.slice(start, end);
      start = end;
      if (batch.whole?.[index] !== false) events.push({ text, isWhole: true });
      else {
        open += text;
        if (index === batch.ends.length - 1 && splitter.isInsideEvent) continue;
        events.push({ text: open, isWhole: false });
        open = '';
      }
    }
  }
  return { events, rest: open + (splitter.rest()?.toString('latin1') ?? '') };
}

describe('events', () => {
  test('are the same for any chunks and any line ends', () => {
    fc.assert(
      fc.property(anyText, anySizes, (text, sizes) => {
        const expected = eventsIn(text);
        const { events, rest } = split(new EventSplitter(), chunksOf(Buffer.from(text), sizes));
        expect(events.map((event) => event.text)).toEqual(expected.events);
        expect(rest).toBe(expected.rest);
      }),
      { numRuns: 3_000 },
    );
  });

  test('above the bound pass in parts, the same ones for any chunks', () => {
    fc.assert(
      fc.property(anyText, anySizes, fc.integer({ min: 1, max: 12 }), (text, sizes, max) => {
        const bytes = Buffer.from(text);
        const { events } = split(new EventSplitter(max), chunksOf(bytes, sizes));
        const expected = eventsIn(text).events;
        const isWhole = (event: string): boolean => event.length <= max;
        expect(events).toEqual(expected.map((event) => ({ text: event, isWhole: isWhole(event) })));
      }),
      { numRuns: 3_000 },
    );
  });

  test('above the bound are never held beyond it', () => {
    const splitter = new EventSplitter(1_000);
    let held = 0;
    for (const chunk of chunksOf(Buffer.alloc(50_000, 'x'), [7])) {
      held += chunk.length - (splitter.push(chunk)?.bytes.length ?? 0);
      expect(held).toBeLessThanOrEqual(1_000);
    }
  });
});

test('bytes in pieces are collected by copying each a bounded number of times', async () => {
  const bytes = Buffer.from('0123456789'.repeat(10_000));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 3_000 }), { minLength: 1 }), async (sizes) => {
      const collector = new ByteCollector();
      const pieces = chunksOf(bytes, sizes);
      const copied = await countBytesRead(() => pieces.forEach((piece) => collector.push(piece)));
      expect(collector.length).toBe(bytes.length);
      expect(collector.take()?.equals(bytes)).toBe(true);
      expect(collector.take()).toBeNull();
      expect(copied).toBeLessThanOrEqual(3 * bytes.length);
    }),
    { numRuns: 50 },
  );
});
