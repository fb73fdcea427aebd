import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { newestFirst } from '#server/dashboard/newest-first.ts';
import { ApiError } from '#server/errors/api-error.ts';

type Row = { id: string; isListed: boolean };

/** All pages, one after another; `grow` is called between them. */
function pages(all: Row[], limit: number, grow: () => void): string[][] {
  const read: string[][] = [];
  for (let cursor: string | undefined; ;) {
    const page = newestFirst(all, ({ isListed }) => isListed, { limit, cursor });
    if (page instanceof ApiError) throw page;
    read.push(page.rows.map(({ id }) => id));
    if (page.next === null) return read;
    cursor = page.next;
    grow();
  }
}

test('pages have every fitting object once, newest first, whatever is created meanwhile', () => {
  fc.assert(
    fc.property(
      fc.array(fc.boolean(), { maxLength: 40 }),
      fc.integer({ min: 1, max: 7 }),
      (listed, limit) => {
        const all = listed.map((isListed, index) => ({ id: `id${index}`, isListed }));
        const expected = all.filter(({ isListed }) => isListed).map(({ id }) => id);
        const read = pages([...all], limit, () => undefined);
        expect(read.flat()).toEqual(expected.toReversed());
        expect(read.every((page) => page.length <= limit)).toBe(true);
        let more = 0;
        const growing = [...all];
        const grown = pages(growing, limit, () => growing.push({ id: `new${more++}`, isListed: true }));
        expect(grown.flat()).toEqual(read.flat());
      },
    ),
  );
});

test('a page states how many rows follow it, and an unknown cursor is rejected', () => {
  const all = ['a', 'b', 'c'].map((id) => ({ id, isListed: true }));
  expect(newestFirst(all, () => true, { limit: 2 })).toMatchObject({ omitted: 1 });
  expect(newestFirst(all, () => true, { limit: 2, cursor: 'unknown' })).toMatchObject({
    code: 'invalid_value',
    param: 'cursor',
  });
});
