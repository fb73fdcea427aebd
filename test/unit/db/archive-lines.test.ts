import fc from 'fast-check';
import { expect, test } from 'vitest';
import { linesOf, lineSpans, lineChunksOf } from '#db/archive/lines.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

const sizes = fc.array(fc.nat(9), { minLength: 1, maxLength: 9 });
const lines = fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '€', '𝄞', '"', '\r') }), {
  minLength: 1,
  maxLength: 9,
});
const inChunks = async function* (bytes: Buffer, by: number[]): AsyncGenerator<Buffer> {
  yield* chunksOf(bytes, by);
};
const flat = async (text: AsyncIterable<string[]>): Promise<string[]> => (await Array.fromAsync(text)).flat();

test('lines: a text in chunks of any size splits into its lines, also within a character', async () => {
  await fc.assert(
    fc.asyncProperty(lines, sizes, async (said, by) => {
      const bytes = Buffer.from(said.map((each) => `${each}\n`).join(''));
      expect(await flat(linesOf(inChunks(bytes, by)))).toEqual(said);
      const whole = await Array.fromAsync(lineChunksOf(inChunks(bytes, by)));
      expect(
        whole.flatMap((each) =>
          [...lineSpans(each)].map(([start, end]) => each.toString('utf8', start, end)),
        ),
      ).toEqual(said);
    }),
  );
});

test('lines: a last line without a line break is an error', async () => {
  await fc.assert(
    fc.asyncProperty(lines, sizes, async (said, by) => {
      const cut = Buffer.from(`${said.map((each) => `${each}\n`).join('')}x`);
      await expect(flat(linesOf(inChunks(cut, by)))).rejects.toThrow('the last line has no line break');
    }),
  );
});
