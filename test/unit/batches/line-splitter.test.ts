import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LineSplitter, LineTooLong } from '#server/wire/line-splitter.ts';

/** Lines of a stream, however it is cut into chunks. */

function linesOf(text: string, cuts: readonly number[], bytesMax = 1_000): string[] {
  const bytes = Buffer.from(text);
  const splitter = new LineSplitter(bytesMax);
  const lines: string[] = [];
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  for (let index = 1; index < at.length; index++) {
    // A chunk's memory is used again for the next one.
    const chunk = Buffer.from(bytes.subarray(at[index - 1], at[index]));
    for (const line of splitter.push(chunk)) lines.push(line.toString());
    chunk.fill(0);
  }
  return [...lines, splitter.end().toString()];
}

test('chunks of any size give the same lines', () => {
  const texts = fc.array(
    fc.string({ unit: 'grapheme', maxLength: 20 }).filter((text) => !text.includes('\n')),
  );
  fc.assert(
    fc.property(texts, fc.array(fc.nat()), (lines, cuts) => {
      const text = lines.join('\n');
      expect(linesOf(text, cuts)).toEqual(text.split('\n'));
    }),
  );
});

test('a line that is too long is refused before its end has come', () => {
  expect(() => linesOf(`short\n${'x'.repeat(20)}`, [], 10)).toThrow(LineTooLong);
  const splitter = new LineSplitter(10);
  expect([...splitter.push(Buffer.from('0123456789'))]).toEqual([]);
  expect(() => [...splitter.push(Buffer.from('x'))]).toThrow(LineTooLong);
});
