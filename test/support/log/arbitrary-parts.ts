import * as fc from 'fast-check';
import { ROLES } from '#db/events/parts.ts';
import { anyCharacter } from '../arbitrary-character.ts';

/** The parts that events of every type are made of, with every kind of value that the vocabulary allows. */

const INT2_MAX = 2 ** 15 - 1;
export const INT4_MAX = 2 ** 31 - 1;

const characters = (text: string): string[] => text.split('');
const BASE62 = characters('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz');

export const id = fc.string({ unit: fc.constantFrom(...BASE62), minLength: 8, maxLength: 8 });
export const request = fc.uuid({ version: 7 });
/** What Postgres' array and composite texts, and JSON, treat specially comes up often. */
const special = fc.constantFrom(
  ...characters('"\\{}(),\' \t\n'),
  'NULL',
  '\u00e9',
  '\u20ac',
  '\u{1f600}',
  '\u2028',
  '\u007f',
  '\u00a0',
);
export const name = fc
  .array(fc.oneof(special, fc.string({ unit: anyCharacter, minLength: 1, maxLength: 3 })), {
    minLength: 1,
    maxLength: 12,
  })
  .map((parts) => parts.join('').trim())
  .filter((text) => text !== '' && text.length <= 100);
export const modelName = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...characters('"\\{}(), \'')),
    fc.integer({ min: 0x20, max: 0x7e }).map((unit) => String.fromCharCode(unit)),
  ),
  minLength: 1,
  maxLength: 40,
});
/** The names of upstreams and plans. */
export const slug = fc
  .tuple(
    fc.constantFrom(...characters('az09')),
    fc.string({ unit: fc.constantFrom(...characters('az09._-')), maxLength: 10 }),
  )
  .map((parts) => parts.join(''));
export const actor = fc.constantFrom('command-line', 'first-start', 'worker', 'member/AbCd1234');
export const role = fc.constantFrom(...ROLES);
export const digest = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
export const last4 = fc.string({ unit: fc.constantFrom(...BASE62), minLength: 4, maxLength: 4 });
export const time = fc
  .date({ min: new Date('2000-01-01T00:00:00Z'), max: new Date('2200-01-01T00:00:00Z'), noInvalidDate: true })
  .map((date) => date.toISOString());
const edge = (max: number): fc.Arbitrary<number> =>
  fc.oneof(fc.nat(1_000), fc.constantFrom(0, 1, max), fc.nat(max));
export const int2 = edge(INT2_MAX);
export const int4 = edge(INT4_MAX);
export const int8 = fc.oneof(
  int4,
  fc.constantFrom(2 ** 31, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER),
  fc.nat(Number.MAX_SAFE_INTEGER),
);
export const one = <T>(value: T): fc.Arbitrary<T> => fc.constant(value);

/** All of it may be there or not. Nested objects are compared with what JSON makes: with a prototype. */
export const perhaps = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<Partial<T>> =>
  fc.record(model, { requiredKeys: [], noNullPrototype: true }) as fc.Arbitrary<Partial<T>>;
export const few = <T>(item: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(item, { maxLength: 4 });
