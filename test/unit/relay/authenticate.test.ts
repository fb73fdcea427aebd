import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import type { ControlEvent, Placed } from '#db/events/events.ts';
import { type ErrorCode, ApiError } from '#server/errors/api-error.ts';
import { createSecret, digestSecret } from '#server/secrets/key-secret.ts';
import { ReadModel } from '#server/read-model/read-model.ts';
import { authenticate } from '#server/access/authenticate.ts';
import { anyCharacter } from '../../support/arbitrary-character.ts';

const PEPPER = Buffer.alloc(32, 7);
const ACTOR = 'command-line';
const NOW = new Date('2026-06-01T12:00:00.000Z');
const minutes = (count: number): Date => new Date(NOW.getTime() + count * 60_000);

const SECRET = createSecret('Key00001');
const OTHER = createSecret('Key00002');
const described = (secret: string) => ({ digest: digestSecret(PEPPER, secret), last4: secret.slice(-4) });
const created = (key: string, secret: string, expiresAt?: Date): ControlEvent => ({
  type: 'key.created',
  account: 'Account1',
  key,
  name: 'laptop',
  ...described(secret),
  ...(expiresAt === undefined ? {} : { expires_at: expiresAt.toISOString() }),
  actor: ACTOR,
});
const rotated = (secret: string, overlapEndsAt?: Date): ControlEvent => ({
  type: 'key.rotated',
  account: 'Account1',
  key: 'Key00001',
  ...described(secret),
  ...(overlapEndsAt === undefined ? {} : { overlap_ends_at: overlapEndsAt.toISOString() }),
  actor: ACTOR,
});
const revoked: ControlEvent = { type: 'key.revoked', account: 'Account1', key: 'Key00001', actor: ACTOR };
const registered: ControlEvent = {
  type: 'account.registered',
  account: 'Account1',
  name: 'first',
  actor: ACTOR,
};

let model: ReadModel;

/** Feeds the read model with what comes next in the log, an hour before now. */
function happened(...events: ControlEvent[]): void {
  const placed = events.map((event, index): Placed => ({
    shard: 0,
    position: model.position + index + 1,
    at: minutes(-60),
    instance: 1,
    stream: 'of no interest here',
    version: 1,
    event,
  }));
  model.apply(placed);
}

const knock = (...rawHeaders: string[]) => authenticate(['Host', 'x', ...rawHeaders], model, PEPPER);
const knockWith = (secret: string) => knock('Authorization', `Bearer ${secret}`);

/** The code of a refusal, or the id of the key that was let in. */
function outcome(result: ReturnType<typeof authenticate>): string {
  if (!(result instanceof ApiError)) return result.id;
  expect(result.status).toBe(401);
  return result.code;
}

beforeEach(() => {
  model = new ReadModel();
  model.setClock(NOW);
  happened(registered, created('Key00001', SECRET), created('Key00002', OTHER));
});

describe('forms of the header', () => {
  const invalid: ErrorCode = 'invalid_api_key';
  test.each<[string, string[], string]>([
    ['the documented form', ['Authorization', `Bearer ${SECRET}`], 'Key00001'],
    ['the name in lower case', ['authorization', `Bearer ${SECRET}`], 'Key00001'],
    ['the name in upper case', ['AUTHORIZATION', `Bearer ${SECRET}`], 'Key00001'],
    ['the scheme in lower case', ['Authorization', `bearer ${SECRET}`], 'Key00001'],
    ['the scheme in mixed case', ['Authorization', `bEaReR ${SECRET}`], 'Key00001'],
    [
      'among other headers',
      ['X-Api-Key', 'x', 'Authorization', `Bearer ${SECRET}`, 'X-Authorization', 'y'],
      'Key00001',
    ],
    ['no header', [], 'missing_api_key'],
    ['the key in another header', ['X-Api-Key', SECRET], 'missing_api_key'],
    ['a name that only begins like it', ['Authorization-Too', `Bearer ${SECRET}`], 'missing_api_key'],
    ['Proxy-Authorization', ['Proxy-Authorization', `Bearer ${SECRET}`], 'missing_api_key'],
    ['the header twice', ['Authorization', `Bearer ${SECRET}`, 'Authorization', `Bearer ${SECRET}`], invalid],
    [
      'the header twice in two casings',
      ['authorization', `Bearer ${SECRET}`, 'Authorization', 'Bearer x'],
      invalid,
    ],
    ['an empty value', ['Authorization', ''], invalid],
    ['the scheme alone', ['Authorization', 'Bearer'], invalid],
    ['the scheme and a blank', ['Authorization', 'Bearer '], invalid],
    ['the key alone', ['Authorization', SECRET], invalid],
    ['no blank', ['Authorization', `Bearer${SECRET}`], invalid],
    ['two blanks', ['Authorization', `Bearer  ${SECRET}`], invalid],
    ['a tab', ['Authorization', `Bearer\t${SECRET}`], invalid],
    ['a blank before the scheme', ['Authorization', ` Bearer ${SECRET}`], invalid],
    ['a blank after the key', ['Authorization', `Bearer ${SECRET} `], invalid],
    ['a tab after the key', ['Authorization', `Bearer ${SECRET}\t`], invalid],
    ['a line end after the key', ['Authorization', `Bearer ${SECRET}\n`], invalid],
    ['a no-break space after the key', ['Authorization', `Bearer ${SECRET}\u00a0`], invalid],
    ['a no-break space for the blank', ['Authorization', `Bearer\u00a0${SECRET}`], invalid],
    ['a zero-width space as latin-1', ['Authorization', `Bearer ${SECRET}\u00e2\u0080\u008b`], invalid],
    ['a NUL after the key', ['Authorization', `Bearer ${SECRET}\0`], invalid],
    ['quotes around the key', ['Authorization', `Bearer "${SECRET}"`], invalid],
    ['two keys', ['Authorization', `Bearer ${SECRET}, Bearer ${OTHER}`], invalid],
    ['two keys without blanks', ['Authorization', `Bearer ${SECRET},${SECRET}`], invalid],
    ['a key and more words', ['Authorization', `Bearer ${SECRET} realm=x`], invalid],
    ['the scheme twice', ['Authorization', `Bearer Bearer ${SECRET}`], invalid],
    ['Basic', ['Authorization', `Basic ${Buffer.from(`${SECRET}:`).toString('base64')}`], invalid],
    ['Basic with the key as it is', ['Authorization', `Basic ${SECRET}`], invalid],
    ['the name as a part of the value', ['Authorization', `Authorization: Bearer ${SECRET}`], invalid],
    ['a key of another maker', ['Authorization', 'Bearer sk-proj-abcdefghijklmnopqrstuvwxyz'], invalid],
    ['a megabyte', ['Authorization', `Bearer ${'x'.repeat(1024 ** 2)}`], invalid],
    ['a megabyte of blanks', ['Authorization', `Bearer${' '.repeat(1024 ** 2)}${SECRET}`], invalid],
  ])('%s', (_, rawHeaders, expected) => {
    expect(outcome(knock(...rawHeaders))).toBe(expected);
  });

  test('whatever a value holds, only the exact form gets in', () => {
    const value = fc.oneof(
      fc.string({ unit: anyCharacter }),
      fc
        .tuple(
          fc.constantFrom('Bearer', 'bearer', 'Basic', ''),
          fc.string({ maxLength: 2 }),
          fc.constantFrom(SECRET, OTHER, ''),
          fc.string({ maxLength: 2 }),
        )
        .map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(value, (text) => {
        const scheme = text.slice(0, 7).toLowerCase();
        const isExact = scheme === 'bearer ' && (text.slice(7) === SECRET || text.slice(7) === OTHER);
        expect(outcome(knock('Authorization', text)).startsWith('Key')).toBe(isExact);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('keys', () => {
  test('that no one made are invalid, with a right checksum too', () => {
    expect(outcome(knockWith(createSecret('Key00009')))).toBe('invalid_api_key');
    expect(outcome(knockWith(createSecret('Key00001')))).toBe('invalid_api_key');
  });

  test('made under another pepper are invalid', () => {
    expect(outcome(authenticate(['Authorization', `Bearer ${SECRET}`], model, Buffer.alloc(32, 8)))).toBe(
      'invalid_api_key',
    );
  });

  test('that were revoked say so to their holder, and to no one who only knows the id', () => {
    happened(revoked);
    expect(outcome(knockWith(SECRET))).toBe('api_key_revoked');
    expect(outcome(knockWith(createSecret('Key00001')))).toBe('invalid_api_key');
    expect(outcome(knockWith(OTHER))).toBe('Key00002');
  });

  test('that were rotated accept the new secret at once, and the old one until the overlap ends', () => {
    const renewed = createSecret('Key00001');
    happened(rotated(renewed, minutes(10)));
    expect([SECRET, renewed].map((each) => outcome(knockWith(each)))).toEqual(['Key00001', 'Key00001']);
    model.setClock(minutes(10));
    expect([SECRET, renewed].map((each) => outcome(knockWith(each)))).toEqual([
      'api_key_revoked',
      'Key00001',
    ]);
  });

  test('that were rotated without overlap open with the new secret only', () => {
    const renewed = createSecret('Key00001');
    happened(rotated(renewed));
    expect([SECRET, renewed].map((each) => outcome(knockWith(each)))).toEqual([
      'invalid_api_key',
      'Key00001',
    ]);
  });

  test("that were rotated twice don't open with the first secret, overlap or not", () => {
    const [second, third] = [createSecret('Key00001'), createSecret('Key00001')];
    happened(rotated(second, minutes(60)), rotated(third, minutes(60)));
    expect([SECRET, second, third].map((each) => outcome(knockWith(each)))).toEqual([
      'invalid_api_key',
      'Key00001',
      'Key00001',
    ]);
  });

  test('that were revoked within an overlap open with neither secret', () => {
    const renewed = createSecret('Key00001');
    happened(rotated(renewed, minutes(60)), revoked);
    expect([SECRET, renewed].map((each) => outcome(knockWith(each)))).toEqual([
      'invalid_api_key',
      'api_key_revoked',
    ]);
  });

  test('of a flood get answers that share nothing of one caller with another', () => {
    const [first, second] = [knockWith(createSecret('Key00009')), knockWith('x')] as [ApiError, ApiError];
    expect(first.body('request-1')).toContain('"request_id":"request-1"');
    expect(second.body('request-2')).toBe(first.body('request-1').replace('request-1', 'request-2'));
  });
});

describe('expiry', () => {
  beforeEach(() => happened(created('Key00003', EXPIRING, minutes(10))));
  const EXPIRING = createSecret('Key00003');

  test("is decided by the clock of the store, whatever this machine's says", () => {
    // The machine's own clock is months away from NOW, on one side or the other.
    expect(Math.abs(Date.now() - NOW.getTime())).toBeGreaterThan(60 * 60_000);
    expect(outcome(knockWith(EXPIRING))).toBe('Key00003');
    model.setClock(minutes(10));
    expect(outcome(knockWith(EXPIRING))).toBe('api_key_expired');
    model.setClock(minutes(9));
    expect(outcome(knockWith(EXPIRING))).toBe('Key00003');
  });

  test('is asked to a holder of the secret only', () => {
    model.setClock(minutes(10));
    expect(outcome(knockWith(createSecret('Key00003')))).toBe('invalid_api_key');
  });
});
