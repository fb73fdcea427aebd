import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { lengthOf, literalOf } from '#server/protocols/literal.ts';

test('a literal has the length of its text, whatever is escaped', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(lengthOf(literalOf(text))).toBe(text.length);
    }),
  );
  for (const text of ['', '\\', '"\n\u0001', 'é', '€', '😀', '\ud83d', '\\u0041'])
    expect(lengthOf(literalOf(text))).toBe(text.length);
  expect(lengthOf(String.raw`\ud83d\ude00\/`)).toBe(3);
});
