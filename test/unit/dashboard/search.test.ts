import { expect, test } from 'vitest';
import { findBest, Matcher } from '#server/dashboard/search/find.ts';

const find = (names: readonly string[], text: string, limit = 10): Promise<string[]> =>
  findBest(names, new Matcher(text), limit, (name) => [name]);

test('a search finds whole names first, then beginnings, words and parts, the newest first', async () => {
  const names = ['precious', 'ci', 'night-ci-2', 'ci-nightly', 'Team CI', 'CI-weekly', 'batch'];
  expect(await find(names, ' ci ')).toEqual([
    'ci',
    'CI-weekly',
    'ci-nightly',
    'Team CI',
    'night-ci-2',
    'precious',
  ]);
  expect(await find(names, 'ci', 2)).toEqual(['ci', 'CI-weekly']);
  expect(await find(names, 'none')).toEqual([]);
});

test('a search takes the text literally, and folds the case of any script', async () => {
  expect(await find(['a.b', 'axb', '(', 'ÄRZTE'], '.')).toEqual(['a.b']);
  expect(await find(['a.b', '('], '(')).toEqual(['(']);
  expect(await find(['ÄRZTE'], 'ärz')).toEqual(['ÄRZTE']);
});

test('without a text the newest are found', async () => {
  expect(await find(['one', 'two', 'three'], '', 2)).toEqual(['three', 'two']);
});
