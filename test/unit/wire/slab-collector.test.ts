import * as fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { SLAB_BYTES_MAX, SLAB_FROM_BYTES, SLABS_KEPT_BYTES_MAX } from '#server/wire/bounds.ts';
import { SlabCollector } from '#server/wire/slab-collector.ts';
import { acquireSlab, bytesHeldFor, keptSlabBytes, releaseSlab, trimSlabs } from '#server/wire/slabs.ts';

afterEach(() => {
  trimSlabs();
  trimSlabs();
});

test('a message is collected byte by byte as it came, in whatever chunks', () => {
  const source = Buffer.from(
    Array.from({ length: 3 * SLAB_BYTES_MAX }, (_, index) => index * 31 + (index >> 8)),
  );
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 400_000 }), { maxLength: 12 }),
      fc.boolean(),
      (sizes, isDeclared) => {
        const ends = sizes.map((_, index) => sizes.slice(0, index + 1).reduce((sum, size) => sum + size, 0));
        const total = Math.min(ends.at(-1) ?? 0, source.length);
        const collector = new SlabCollector(source.length, isDeclared ? total : 0);
        let at = 0;
        for (const end of ends) {
          collector.push(source.subarray(at, Math.min(end, source.length)));
          at = Math.min(end, source.length);
        }
        expect([collector.size, collector.heldBytes]).toEqual([total, bytesHeldFor(total)]);
        const { bytes, slab } = collector.take();
        expect(bytes.equals(source.subarray(0, total))).toBe(true);
        if (total > SLAB_FROM_BYTES) expect(slab).not.toBeNull();
        if (slab) releaseSlab(slab);
      },
    ),
    { numRuns: 30 },
  );
});

test('a body is charged at least its length, and at most twice that or one MiB more', () => {
  for (const length of [
    0,
    1,
    SLAB_FROM_BYTES,
    SLAB_FROM_BYTES + 1,
    200_000,
    SLAB_BYTES_MAX,
    32 * SLAB_BYTES_MAX,
  ]) {
    const held = bytesHeldFor(length);
    expect(held).toBeGreaterThanOrEqual(length);
    expect(held).toBeLessThanOrEqual(Math.max(2 * length + 256, length + SLAB_BYTES_MAX));
  }
});

test('free slabs are kept up to a bound, reused, and freed when they were not needed', () => {
  const slabs = Array.from({ length: SLABS_KEPT_BYTES_MAX / SLAB_BYTES_MAX + 8 }, () =>
    acquireSlab(SLAB_BYTES_MAX / 2),
  );
  for (const slab of slabs) releaseSlab(slab);
  expect(keptSlabBytes()).toBe(SLABS_KEPT_BYTES_MAX);
  // Those beyond the bound are freed at once, and so is every region.
  expect(slabs.filter(({ buffer }) => buffer.byteLength === 0)).toHaveLength(8);
  const region = acquireSlab(SLAB_BYTES_MAX);
  releaseSlab(region);
  expect(region.buffer.byteLength).toBe(0);

  trimSlabs();
  const used = acquireSlab(SLAB_BYTES_MAX / 2);
  releaseSlab(used);
  trimSlabs();
  // One slab was needed in the meantime.
  expect(keptSlabBytes()).toBe(SLAB_BYTES_MAX);
  trimSlabs();
  expect(keptSlabBytes()).toBe(0);
});
