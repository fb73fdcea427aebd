import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventReader } from '../../../web/lib/api/sse.ts';

describe("the playground's reader of replies", () => {
  it('returns the same events for any chunking and any line ends', () => {
    const line = fc.string({ unit: fc.constantFrom('a', '{', ' ', ':', 'é') });
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 6 }),
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.infiniteStream(fc.nat(5)),
        (data, end, cuts) => {
          // A line end that is cut in two must not end an event between its lines.
          const events = data.flatMap((each) => [[each], [each, 'b']]);
          const text = events
            .map((lines) => `: comment${end}${lines.map((each) => `data: ${each}${end}`).join('')}${end}`)
            .join('');
          const reader = new EventReader();
          const found: string[] = [];
          for (let at = 0; at < text.length;) {
            const length = 1 + (cuts.next().value as number);
            found.push(...reader.push(text.slice(at, at + length)));
            at += length;
          }
          found.push(...reader.push('\n\n'));
          expect(found).toEqual(events.map((lines) => lines.join('\n')));
        },
      ),
    );
  });
  it('joins the data lines of one event', () =>
    expect(new EventReader().push('data: a\ndata:b\n\n')).toEqual(['a\nb']));
  it('accepts an event up to the maximum length in any chunks', () => {
    const data = 'x'.repeat(999_000);
    for (const size of [100, 1_000_000]) {
      const reader = new EventReader();
      const text = `data: ${data}\n\n`;
      const found: string[] = [];
      for (let at = 0; at < text.length; at += size) found.push(...reader.push(text.slice(at, at + size)));
      expect(found).toEqual([data]);
    }
  });
  it('rejects an event above the maximum length instead of buffering it', () => {
    const reader = new EventReader();
    expect(() => {
      for (let n = 0; n < 200; n++) reader.push(`data: ${'x'.repeat(10_000)}\n`);
    }).toThrow(RangeError);
  });
});
