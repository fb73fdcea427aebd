import * as fc from 'fast-check';
import { anyCharacter } from '../arbitrary-character.ts';

/**
 * JSON documents as texts, in every way that RFC 8259 lets a value be written: blanks of all four
 * kinds, escapes where none are needed, numbers that no double holds, lone surrogates as escapes.
 * `fc.json` alone writes each value in one way.
 */

export const blanks = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 });

const plainCharacter = fc
  .string({ unit: anyCharacter, minLength: 1, maxLength: 1 })
  .filter((character) => character >= ' ' && character !== '"' && character !== '\\');
const shortEscape = fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t');
const unicodeEscape = fc.tuple(fc.nat(0xffff), fc.boolean()).map(([unit, isUpper]) => {
  const digits = unit.toString(16).padStart(4, '0');
  return `\\u${isUpper ? digits.toUpperCase() : digits}`;
});

export const stringText = fc
  .array(fc.oneof({ weight: 4, arbitrary: plainCharacter }, shortEscape, unicodeEscape), { maxLength: 8 })
  .map((pieces) => `"${pieces.join('')}"`);

/**
 * Whether no string of a JSON text has a backslash. After an object with a name that has one, V8 takes an
 * escape in a later name for it, such as `a\"` for `a\` (nodejs/node#63785, in Node 24 and 26), so that two
 * results of `JSON.parse` for the same text differ. No name here has any.
 */
export const hasNoBackslash = (text: string): boolean => !/\\\\|\\u005c/i.test(text);
const nameText = stringText.filter(hasNoBackslash);

const digits = fc.string({ unit: fc.nat(9).map(String), minLength: 1, maxLength: 25 });
const numberText = fc
  .record({
    minus: fc.constantFrom('', '-'),
    whole: digits.map((text) => text.replace(/^0+(?=\d)/, '')),
    fraction: fc.oneof(
      fc.constant(''),
      digits.map((text) => `.${text}`),
    ),
    exponent: fc.oneof(
      fc.constant(''),
      fc.tuple(fc.constantFrom('e', 'E', 'e+', 'E-'), fc.nat(400)).map(([sign, power]) => `${sign}${power}`),
    ),
  })
  .map(({ minus, whole, fraction, exponent }) => minus + whole + fraction + exponent);

const scalarText = fc.oneof(
  stringText,
  numberText,
  fc.constantFrom('true', 'false', 'null', '-0', '12345678901234567890'),
);

const { value, object } = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof({ maxDepth: 5, depthSize: 'small' }, scalarText, tie('array'), tie('object')),
  array: listOf(tie('value'), '[', ']'),
  object: listOf(memberOf(tie('value')), '{', '}'),
}));

function memberOf(valueText: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .tuple(nameText, blanks, blanks, valueText)
    .map(([name, before, after, text]) => `${name}${before}:${after}${text}`);
}

function listOf(element: fc.Arbitrary<string>, open: string, close: string): fc.Arbitrary<string> {
  const padded = fc.tuple(blanks, element, blanks).map((parts) => parts.join(''));
  return fc
    .tuple(blanks, fc.array(padded, { maxLength: 4 }))
    .map(([inside, elements]) => open + (elements.length === 0 ? inside : elements.join(',')) + close);
}

/** The text of any JSON value, without blanks around it. */
export const valueText: fc.Arbitrary<string> = value;

/** The text of any JSON object, without blanks around it. */
export const objectText: fc.Arbitrary<string> = object;

/** A member's name written in one of its many ways: any of its characters may be an escape. */
export function writtenName(name: string): fc.Arbitrary<string> {
  const units = Array.from({ length: name.length }, (_, index) => name.charCodeAt(index));
  return fc
    .array(fc.integer({ min: 0, max: 3 }), { minLength: units.length, maxLength: units.length })
    .map((ways) => {
      const written = units.map((unit, index) => {
        const plain = String.fromCharCode(unit);
        const mustEscape =
          unit < 0x20 || plain === '"' || plain === '\\' || (unit >= 0xd800 && unit <= 0xdfff);
        return mustEscape || ways[index] === 0 ? `\\u${unit.toString(16).padStart(4, '0')}` : plain;
      });
      return `"${written.join('')}"`;
    });
}
