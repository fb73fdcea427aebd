import { expect, test } from 'vitest';
import { readFilterSearch } from '../../../web/lib/search/filter.ts';

/** URLs are typed and pasted, so invalid parameters are dropped. */

const [from, to] = ['2026-05-04T10:00:00.000Z', '2026-05-04T11:00:00.000Z'];

test('an end without a start is ignored', () => {
  expect(readFilterSearch({ from, to })).toEqual({ from, to });
  expect(readFilterSearch({ to, range: '1h' })).toEqual({ range: '1h' });
  expect(readFilterSearch({ from: 'yesterday', to })).toEqual({});
});

test('names of Object.prototype are no range and no outcome', () => {
  for (const word of ['constructor', 'toString', '__proto__'])
    expect(readFilterSearch({ range: word, outcome: word })).toEqual({});
});
