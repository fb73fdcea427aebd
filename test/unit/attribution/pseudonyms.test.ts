import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  type AccountKey,
  createAccountKey,
  openAccountKey,
  openValue,
  pseudonymOf,
  rewrapAccountKey,
  sealValue,
} from '#db/attribution/keys.ts';
import { masterKeyId, type MasterKeys } from '#db/secrets/envelope.ts';
import { PseudonymCache } from '#server/attribution/pseudonym-cache.ts';

function masterKeys(...keys: Buffer[]): MasterKeys {
  const all = new Map(keys.map((key) => [masterKeyId(key), key]));
  return { current: [...all.keys()][0] as string, all };
}

const key: AccountKey = {
  account: 'Abcdefgh',
  generation: 1,
  key: Buffer.alloc(32, 1),
  valueKey: Buffer.alloc(32, 2),
};

test('pseudonyms never change: they are in the log', () => {
  // Computed with Python from the definition in docs/attribution.md.
  expect(pseudonymOf(key, 'end_user', 'ada@example.com')).toBe('qKReA7NzJWfhITI9');
  expect(pseudonymOf(key, 'session', 'ada@example.com')).toBe('aHm48Srn0VCA26Of');
  const values = Array.from({ length: 2_000 }, (_, n) => pseudonymOf(key, 'tag', `tag-${n}`));
  expect(new Set(values).size).toBe(values.length);
  expect(values.every((each) => /^[0-9A-Za-z]{16}$/.test(each))).toBe(true);
});

test('a key opens under its master key, for its account and number only', () => {
  const [old, fresh] = [randomBytes(32), randomBytes(32)];
  const sealed = createAccountKey(masterKeys(old), 'Abcdefgh', 1);
  const opened = openAccountKey(masterKeys(fresh, old), sealed);
  expect(() => openAccountKey(masterKeys(fresh), sealed)).toThrow('is not available');
  expect(() => openAccountKey(masterKeys(old), { ...sealed, account: 'Bbcdefgh' })).toThrow();
  expect(() => openAccountKey(masterKeys(old), { ...sealed, generation: 2 })).toThrow();
  const rewrapped = rewrapAccountKey(masterKeys(fresh, old), sealed);
  expect(rewrapped.master_key).toBe(masterKeyId(fresh));
  expect(openAccountKey(masterKeys(fresh), rewrapped)).toEqual(opened);
});

test('a value opens for its own pseudonym, kind and account only', () => {
  const named = { kind: 'end_user', pseudonym: 'aaaaaaaaaaaaaaaa' } as const;
  const sealed = sealValue(key, named, 'ada@example.com');
  expect(openValue(key, named, sealed)).toBe('ada@example.com');
  expect(sealed.includes('ada@example.com')).toBe(false);
  expect(() => openValue(key, { ...named, pseudonym: 'baaaaaaaaaaaaaaa' }, sealed)).toThrow();
  expect(() => openValue(key, { ...named, kind: 'tag' }, sealed)).toThrow();
  expect(() => openValue({ ...key, account: 'Bbcdefgh' }, named, sealed)).toThrow();
});

test('the cache is bounded, and keeps what is in use', () => {
  const cache = new PseudonymCache(100);
  for (let n = 0; n < 1_000; n++) {
    cache.set('Abcdefgh', 'end_user', `user-${n}`, String(n));
    expect(cache.get('Abcdefgh', 'end_user', 'user-0')).toBe('0');
    expect(cache.size).toBeLessThanOrEqual(100);
  }
  expect(cache.get('Abcdefgh', 'end_user', 'user-500')).toBeUndefined();
  expect(cache.get('Abcdefgh', 'session', 'user-0')).toBeUndefined();
  expect(cache.get('Bbcdefgh', 'end_user', 'user-0')).toBeUndefined();
});

test('the cache forgets one value, or those of an account', () => {
  const cache = new PseudonymCache(100);
  cache.set('Abcdefgh', 'end_user', 'ada', 'p1');
  cache.set('Abcdefgh', 'session', 's', 'p2');
  cache.set('Bbcdefgh', 'end_user', 'ada', 'p1');
  cache.forget('Abcdefgh', { kind: 'end_user', pseudonym: 'p1' });
  expect(cache.get('Abcdefgh', 'end_user', 'ada')).toBeUndefined();
  expect(cache.get('Abcdefgh', 'session', 's')).toBe('p2');
  cache.forgetAccount('Abcdefgh');
  expect(cache.get('Abcdefgh', 'session', 's')).toBeUndefined();
  expect(cache.get('Bbcdefgh', 'end_user', 'ada')).toBe('p1');
});
