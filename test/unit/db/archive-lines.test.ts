import fc from 'fast-check';
import { expect, test } from 'vitest';
import { linesOf, spansOf, wholeLinesOf } from '#db/archive/lines-of.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

const sizes = fc.array(fc.nat(9), { minLength: 1, maxLength: 9 });
const lines = fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '€', '𝄞', '"', '\r') }), {
  minLength: 1,
  maxLength: 9,
});
const inPieces = async function* (bytes: Buffer, by: number[]): AsyncGenerator<Buffer> {
  yield* chunksOf(bytes, by);
};
const flat = async (text: AsyncIterable<string[]>): Promise<string[]> => (await Array.fromAsync(text)).flat();

test('a text in any pieces comes as its lines, also where a piece ends within a character', async () => {
  await fc.assert(
    fc.asyncProperty(lines, sizes, async (said, by) => {
      const bytes = Buffer.from(said.map((each) => `${each}\n`).join(''));
      expect(await flat(linesOf(inPieces(bytes, by)))).toEqual(said);
      const whole = await Array.fromAsync(wholeLinesOf(inPieces(bytes, by)));
      expect(
        whole.flatMap((each) => [...spansOf(each)].map(([start, end]) => each.toString('utf8', start, end))),
      ).toEqual(said);
    }),
  );
});

test('a last line without an end is told from one that is there', async () => {
  await fc.assert(
    fc.asyncProperty(lines, sizes, async (said, by) => {
      const cut = Buffer.from(`${said.map((each) => `${each}\n`).join('')}x`);
      await expect(flat(linesOf(inPieces(cut, by)))).rejects.toThrow('its last line has no end');
    }),
  );
});
