import { expect, test } from 'vitest';
import { scopeOf } from '#server/read/scope.ts';

const key = { id: 'Key00001', account: 'Account1' };

test("a key sees its own calls alone, unless its terms say that it reads its account's", () => {
  expect(scopeOf({ ...key, terms: null })).toEqual({ account: 'Account1', key: 'Key00001' });
  expect(scopeOf({ ...key, terms: { models: ['a'] } })).toEqual({ account: 'Account1', key: 'Key00001' });
  expect(scopeOf({ ...key, terms: { reads: 'key' } })).toEqual({ account: 'Account1', key: 'Key00001' });
  expect(scopeOf({ ...key, terms: { reads: 'account' } })).toEqual({ account: 'Account1', key: null });
});
