import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TEXT_BYTES } from '#db/archive/bounds.ts';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { batchText, type Header, otherLineFrom, parseBatchLine } from '#db/archive/line.ts';
import { linesIn } from '#db/archive/lines.ts';
import { readFilePages } from '#db/archive/read-file.ts';
import type { Batch } from '#db/log/chain.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

const sizes = fc.array(fc.nat(9), { minLength: 1, maxLength: 9 });
const lines = fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '€', '𝄞', '"', '\r') }), {
  minLength: 1,
  maxLength: 9,
});
const inChunks = async function* (bytes: Buffer, by: number[]): AsyncGenerator<Buffer> {
  yield* chunksOf(bytes, by);
};

test('lines: a text in chunks of any size splits at line breaks, never within a character', async () => {
  await fc.assert(
    fc.asyncProperty(lines, sizes, async (said, by) => {
      const text = said.map((each) => `${each}\n`).join('');
      const parts = await Array.fromAsync(linesIn(inChunks(Buffer.from(text), by)));
      expect(parts.join('')).toBe(text);
      expect(parts.every((part) => part.endsWith('\n'))).toBe(true);
    }),
  );
});

test('lines: a last line without a line break is an error', async () => {
  await fc.assert(
    fc.asyncProperty(lines, sizes, async (said, by) => {
      const cut = Buffer.from(`${said.map((each) => `${each}\n`).join('')}x`);
      await expect(Array.fromAsync(linesIn(inChunks(cut, by)))).rejects.toThrow(
        'the last line has no line break',
      );
    }),
  );
});

test('lines: the line of a batch reads back, and is no event', () => {
  const number = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }).map(String);
  const batch = fc.record({
    row: fc.record({
      shard: number,
      lastPosition: number,
      eventCount: number,
      instance: number,
      batchNo: number,
      at: number,
      format: number,
      chain: fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes)),
    }),
    events: fc.constantFrom('(a,b)', '(a,"x (y)")\n(b)'),
  });
  fc.assert(
    fc.property(batch, batch, (one, other) => {
      const text = batchText(one) + batchText(other);
      expect(otherLineFrom(text, 0)).toBe(0);
      const at = text.indexOf('\n') + 1;
      expect(parseBatchLine(text.slice(0, at - 1))).toEqual(one.row);
      expect(otherLineFrom(text, at)).toBe(batchText(one).length);
      expect(otherLineFrom(text, batchText(one).length + batchText(other).indexOf('\n') + 1)).toBe(-1);
    }),
  );
  for (const line of ['', '(100,a)', `${'0'.repeat(64)} (0,1,1,1,1,1)`, `${'0'.repeat(63)} (0,1,1,1,1,1,1)`])
    expect(() => parseBatchLine(line)).toThrow('neither that of a batch nor that of an event');
});

test('lines: batches longer than a read are whole, and those before a damaged line are read', async () => {
  const directory = await makeTestDirectory();
  const header: Header = {
    archive: 'daybook log 1',
    log_id: '00000000-0000-4000-8000-000000000000',
    shard: 0,
    partition: null,
    first_position: 1,
    last_position: 9_004,
    chain_before: '0'.repeat(64),
  };
  let last = 0;
  const batches = [1, 3_000, 2, 6_000, 1].map((count): Batch => {
    last += count;
    const facts = { shard: '0', lastPosition: String(last), eventCount: String(count), format: '1' };
    return {
      row: { ...facts, instance: '1', batchNo: String(last), at: '7', chain: Buffer.alloc(32, count) },
      events: Array.from({ length: count }, (_, index) => `(100,${'x'.repeat(100)},${index})`).join('\n'),
    };
  });
  expect(batches[1]?.events.length).toBeGreaterThan(2 * TEXT_BYTES);
  const file = path.join(directory, 'x.log.zst');
  const text = `${JSON.stringify(header)}\n${batches.map(batchText).join('')}`;
  const read = async (content: string): Promise<[Batch[], unknown]> => {
    await writeFile(file, zstdCompressSync(content));
    const found: Batch[] = [];
    try {
      for await (const page of readFilePages(file)) {
        expect(page.header).toEqual(header);
        found.push(...page.batches);
      }
      return [found, null];
    } catch (error) {
      return [found, error];
    }
  };
  try {
    expect(await read(text)).toEqual([batches, null]);
    const [found, error] = await read(`${text}damaged\n`);
    expect(found).toEqual(batches);
    expect(error).toBeInstanceOf(ArchiveDamageError);
    expect((error as ArchiveDamageError).position).toBe(9_005);
    expect((await read(''))[1]).toMatchObject({ position: 0 });
  } finally {
    await removeTestDirectory(directory);
  }
});
