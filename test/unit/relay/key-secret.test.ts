import { createHmac } from 'node:crypto';
import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { publicId, randomBase62, toBase62, uuidv7 } from '#db/ids.ts';
import { createSecret, digestSecret, keyIdOf, sameDigest } from '#server/secrets/key-secret.ts';
import { runs } from '../../fuzz/property-runs.ts';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const base62 = (length: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...BASE62.split('')), minLength: length, maxLength: length });

/** A well-formed secret, made here by the grammar and not by the code that is tested. */
const anySecret = fc.tuple(base62(8), base62(43)).map(([id, random]) => {
  const unsigned = `dbk_${id}_${random}`;
  let checksum = '';
  for (let rest = crc32(unsigned); checksum.length < 6; rest = Math.floor(rest / 62))
    checksum = `${BASE62[rest % 62]}${checksum}`;
  return { id, secret: unsigned + checksum };
});

const swapped = (text: string, at: number, to: number): string => {
  const characters = text.split('');
  [characters[at], characters[to]] = [characters[to] as string, characters[at] as string];
  return characters.join('');
};

describe('a secret', () => {
  test('that was just made has the grammar, names its key and is new every time', () => {
    const made = Array.from({ length: 500 }, () => createSecret('0aZ9bY8c'));
    for (const secret of made) {
      expect(secret).toMatch(/^dbk_0aZ9bY8c_[0-9A-Za-z]{49}$/);
      expect(keyIdOf(secret)).toBe('0aZ9bY8c');
    }
    expect(new Set(made).size).toBe(made.length);
  });

  test('names its key when its checksum is right', () => {
    fc.assert(
      fc.property(anySecret, ({ id, secret }) => {
        expect(keyIdOf(secret)).toBe(id);
      }),
    );
  });

  test('with any one character changed is refused without looking anything up', () => {
    fc.assert(
      fc.property(anySecret, ({ secret }) => {
        for (let at = 0; at < secret.length; at++) {
          for (const other of [...BASE62.split(''), '_', '-', ' ', '\u00e9']) {
            if (other === secret[at]) continue;
            expect(keyIdOf(secret.slice(0, at) + other + secret.slice(at + 1))).toBeNull();
          }
        }
      }),
      { numRuns: 15 },
    );
  });

  test('with any two of its characters exchanged is refused', () => {
    fc.assert(
      fc.property(anySecret, ({ secret }) => {
        for (let at = 0; at < secret.length; at++) {
          for (let to = at + 1; to < secret.length; to++) {
            if (secret[at] !== secret[to]) expect(keyIdOf(swapped(secret, at, to))).toBeNull();
          }
        }
      }),
      runs(10),
    );
  });

  test.each<[string, (secret: string) => string]>([
    ['cut short', (secret) => secret.slice(0, -1)],
    ['too long', (secret) => `${secret}0`],
    ['in lower case', (secret) => secret.toLowerCase()],
    ['with another prefix', (secret) => secret.replace('dbk_', 'sk-_')],
    ['with a prefix in upper case', (secret) => secret.replace('dbk_', 'DBK_')],
    ['with a line end', (secret) => `${secret}\n`],
    ['with a blank before', (secret) => ` ${secret}`],
    ['doubled', (secret) => secret + secret],
    ['of nothing', () => ''],
    ['of a megabyte', (secret) => secret.repeat(16_000)],
  ])('that is %s is none', (_, change) => {
    expect(keyIdOf(change(createSecret('0aZ9bY8c')))).toBeNull();
  });
});

describe('a digest', () => {
  test('is HMAC-SHA-256 under the pepper, whatever secrets were digested before', () => {
    const pepper = fc.uint8Array({ minLength: 1, maxLength: 64 }).map((bytes) => Buffer.from(bytes));
    const texts = fc.array(fc.string({ unit: 'binary-ascii', maxLength: 128 }), {
      minLength: 1,
      maxLength: 5,
    });
    fc.assert(
      fc.property(pepper, texts, (key, secrets) => {
        for (const secret of secrets) {
          expect(digestSecret(key, secret)).toBe(createHmac('sha256', key).update(secret).digest('hex'));
        }
      }),
    );
  });

  test('under one pepper says nothing under another', () => {
    const [one, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
    const digest = digestSecret(one, 'a');
    expect(digestSecret(other, 'a')).not.toBe(digest);
    expect(digestSecret(one, 'a')).toBe(digest);
  });

  test('equals itself only', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.nat(31),
        fc.integer({ min: 1, max: 255 }),
        (bytes, at, change) => {
          const digest = Buffer.from(bytes).toString('hex');
          const changed = Buffer.from(bytes.with(at, (bytes[at] as number) ^ change)).toString('hex');
          expect(sameDigest(digest, digest)).toBe(true);
          expect(sameDigest(digest, changed)).toBe(false);
          expect(sameDigest(digest, digest.slice(1))).toBe(false);
        },
      ),
    );
  });
});

describe('ids', () => {
  test('of requests are UUIDv7, carry their time and sort by it', () => {
    const time = fc.integer({ min: 0, max: 2 ** 48 - 1 });
    fc.assert(
      fc.property(time, time, (one, other) => {
        const [first, second] = [uuidv7(Math.min(one, other)), uuidv7(Math.max(one, other))];
        expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(Number.parseInt(first.replace('-', '').slice(0, 12), 16)).toBe(Math.min(one, other));
        if (one !== other) expect(first < second).toBe(true);
      }),
    );
  });

  test('made in the same millisecond differ', () => {
    const made = Array.from({ length: 10_000 }, () => uuidv7(1_700_000_000_000));
    expect(new Set(made).size).toBe(made.length);
  });

  test('of keys use every character of base 62', () => {
    expect(new Set(randomBase62(5_000))).toEqual(new Set(BASE62));
    expect(publicId()).toMatch(/^[0-9A-Za-z]{8}$/);
  });

  test('in base 62 have a fixed length and keep their order', () => {
    const uint32 = fc.nat(2 ** 32 - 1);
    fc.assert(
      fc.property(uint32, uint32, (one, other) => {
        const [first, second] = [toBase62(one, 6), toBase62(other, 6)];
        expect(first).toHaveLength(6);
        expect(first < second).toBe(one < other);
        expect(first.split('').reduce((value, digit) => value * 62 + BASE62.indexOf(digit), 0)).toBe(one);
      }),
    );
  });
});
