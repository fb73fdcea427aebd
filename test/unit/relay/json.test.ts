import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { JSON_DEPTH_MAX } from '#server/wire/bounds.ts';
import { JsonError, scanObject, valueOf } from '#server/wire/json.ts';
import {
  blanks,
  hasNoBackslash,
  objectText,
  stringText,
  valueText,
  writtenName,
} from '../../support/wire/json-text.ts';
import { anyCharacter } from '../../support/arbitrary-character.ts';
import { runs } from '../../fuzz/property-runs.ts';

type Verdict = 'object' | JsonError['problem'];

function verdictOf(bytes: Buffer, wanted: readonly string[] = []): Verdict {
  try {
    scanObject(bytes, wanted);
    return 'object';
  } catch (error) {
    if (error instanceof JsonError) return error.problem;
    throw error;
  }
}

/** What JSON.parse says of the same bytes, once a strict decoder has taken them for UTF-8. */
function expectedOf(bytes: Buffer): Verdict {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? 'object' : 'not_an_object';
  } catch {
    return 'invalid';
  }
}

const document = fc
  .tuple(blanks, fc.oneof(objectText, valueText, fc.json().filter(hasNoBackslash)), blanks)
  .map((parts) => parts.join(''));

/** A document with a few bytes changed, put in or taken out. */
const damaged = fc
  .tuple(
    document,
    fc.array(fc.record({ at: fc.nat(), remove: fc.nat(2), insert: fc.uint8Array({ maxLength: 2 }) }), {
      minLength: 1,
      maxLength: 3,
    }),
  )
  .map(([text, edits]) => {
    let bytes = Buffer.from(text);
    for (const { at, remove, insert } of edits) {
      const start = at % (bytes.length + 1);
      bytes = Buffer.concat([bytes.subarray(0, start), insert, bytes.subarray(start + remove)]);
    }
    return bytes;
  });

describe('validity', () => {
  test('every way to write a JSON document is accepted, and an object is reported from the rest', () => {
    fc.assert(
      fc.property(document, (text) => {
        const bytes = Buffer.from(text);
        expect(verdictOf(bytes)).toBe(expectedOf(bytes));
        expect(expectedOf(bytes)).not.toBe('invalid');
      }),
      runs(250),
    );
  });

  test('damaged bytes are refused exactly where JSON.parse refuses them', () => {
    let refused = 0;
    const tried = runs(800);
    fc.assert(
      fc.property(damaged, (bytes) => {
        const expected = expectedOf(bytes);
        if (expected === 'invalid') refused++;
        expect(verdictOf(bytes)).toBe(expected);
      }),
      tried,
    );
    expect(refused).toBeGreaterThan(tried.numRuns / 3);
  });

  test("so is everything that is put together from JSON's own characters", () => {
    const soup = fc.string({
      unit: fc.constantFrom(
        ...'{}[]",:\\u0 1.eE+-tn'.split(''),
        'true',
        'null',
        '"a"',
        '\u0001',
        '\u00a0',
        '\ufeff',
      ),
      maxLength: 12,
    });
    fc.assert(
      fc.property(fc.tuple(soup, fc.boolean()), ([text, isInside]) => {
        const bytes = Buffer.from(isInside ? `{"a":${text}}` : text);
        expect(verdictOf(bytes)).toBe(expectedOf(bytes));
      }),
      runs(800),
    );
  });

  test.each([
    ['an empty body', ''],
    ['blanks alone', ' \n'],
    ['a byte-order mark', '\ufeff{}'],
    ['two documents', '{}{}'],
    ['a trailing comma', '{"a":1,}'],
    ['a comma for an element', '[,]'],
    ['a name without quotes', '{a:1}'],
    ['single quotes', "{'a':1}"],
    ['a comment', '{}//'],
    ['a leading zero', '{"a":01}'],
    ['a plus sign', '{"a":+1}'],
    ['a bare point', '{"a":1.}'],
    ['NaN', '{"a":NaN}'],
    ['a line end in a string', '{"a":"\n"}'],
    ['an unknown escape', '{"a":"\\x41"}'],
    ['an escape cut short', '{"a":"\\u00"}'],
    ['an unfinished word', '{"a":tru'],
    ['a vertical tab for a blank', '{\v}'],
    ['a no-break space for a blank', '{\u00a0}'],
  ])('%s is not JSON', (_, text) => {
    expect(verdictOf(Buffer.from(text))).toBe('invalid');
  });

  test.each([
    ['a lone continuation byte', [0x80]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['a surrogate in UTF-8', [0xed, 0xa0, 0x80]],
    ['a character cut off', [0xe2, 0x82]],
    ['a code point beyond Unicode', [0xf4, 0x90, 0x80, 0x80]],
  ])('%s is refused, although JavaScript would replace it silently', (_, bytes) => {
    const body = Buffer.concat([Buffer.from('{"model":"m","x":"'), Buffer.from(bytes), Buffer.from('"}')]);
    expect(verdictOf(body)).toBe('invalid');
    expect(() => JSON.parse(body.toString()) as unknown).not.toThrow();
  });
});

describe('depth', () => {
  const nested = (open: string, close: string, levels: number): Buffer =>
    Buffer.from(open.repeat(levels) + '1' + close.repeat(levels));

  test('is counted from the document itself, whichever brackets it has', () => {
    expect(verdictOf(nested('{"a":', '}', JSON_DEPTH_MAX))).toBe('object');
    expect(verdictOf(nested('{"a":', '}', JSON_DEPTH_MAX + 1))).toBe('too_deep');
    expect(verdictOf(nested('[', ']', JSON_DEPTH_MAX))).toBe('not_an_object');
    expect(verdictOf(nested('[', ']', JSON_DEPTH_MAX + 1))).toBe('too_deep');
    expect(verdictOf(Buffer.from(`{"a":${nested('[', ']', JSON_DEPTH_MAX - 1).toString()}}`))).toBe('object');
    expect(verdictOf(Buffer.from(`{"a":${nested('[', ']', JSON_DEPTH_MAX).toString()}}`))).toBe('too_deep');
  });

  test.each(['[', '{"a":', '[{"a":', '{"a":[{"b":'])(
    'ten megabytes of %s are refused and not followed',
    (open) => {
      expect(verdictOf(Buffer.from(open.repeat(10_000_000 / open.length)))).toBe('too_deep');
    },
  );

  test('many shallow siblings are no depth', () => {
    expect(verdictOf(Buffer.from(`{"a":[${'[],'.repeat(100_000)}[]]}`))).toBe('object');
  });
});

describe('members', () => {
  /** The names that the relay looks for are ASCII; those of other members are anything. */
  const isAscii = (name: string): boolean => /^[\0-\x7f]*$/.test(name);
  const someMembers = fc.uniqueArray(
    fc.tuple(
      fc.oneof(fc.string({ maxLength: 6 }), fc.string({ unit: anyCharacter, maxLength: 6 })),
      valueText,
    ),
    {
      selector: ([name]) => name,
      maxLength: 6,
    },
  );

  test('each wanted member is found with its exact bytes, and no other', () => {
    const object = someMembers.chain((members) =>
      fc.record({
        members: fc.constant(members),
        names: fc.tuple(...members.map(([name]) => writtenName(name))),
        blanks: fc.array(blanks, { minLength: members.length * 4 + 3, maxLength: members.length * 4 + 3 }),
        wanted: fc.subarray(members.map(([name]) => name).filter(isAscii)),
      }),
    );
    fc.assert(
      fc.property(object, ({ members, names, blanks: gaps, wanted }) => {
        const gap = (): string => gaps.pop() ?? '';
        const body = members
          .map(([, text], index) => `${gap()}${names[index]}${gap()}:${gap()}${text}${gap()}`)
          .join(',');
        const text = `${gap()}{${members.length === 0 ? gap() : body}}`;
        const bytes = Buffer.from(text + gap());
        const scanned = scanObject(bytes, [...wanted, 'never there']);

        expect([...scanned.members.keys()].toSorted()).toEqual(wanted.toSorted());
        for (const [name, expected] of members.filter(([each]) => wanted.includes(each))) {
          const span = scanned.members.get(name);
          expect(span && bytes.toString('utf8', span.start, span.end)).toBe(expected);
          expect(span && valueOf(bytes, span)).toStrictEqual(JSON.parse(expected));
        }
        expect(scanned.close).toBe(Buffer.byteLength(text) - 1);
        expect(scanned.empty).toBe(members.length === 0);
      }),
      runs(175),
    );
  });

  test('a wanted member that is written twice is refused, escapes or not', () => {
    const twice = fc
      .constantFrom('model', 'stream', 'messages')
      .chain((name) =>
        fc.tuple(fc.constant(name), writtenName(name), writtenName(name), valueText, stringText),
      );
    fc.assert(
      fc.property(twice, ([name, first, second, value, other]) => {
        const bytes = Buffer.from(`{${first}:${value},"x":${other},${second}:${value}}`);
        expect(verdictOf(bytes, ['model', 'stream', 'messages'])).toBe('duplicate');
        expect(() => scanObject(bytes, [name])).toThrow(expect.objectContaining({ member: name }));
        expect(verdictOf(bytes, [])).toBe('object');
      }),
    );
  });

  test('a name deeper down is another member', () => {
    const bytes = Buffer.from('{"a":{"model":1,"model":2},"model":"m"}');
    const span = scanObject(bytes, ['model']).members.get('model');
    expect(span && valueOf(bytes, span)).toBe('m');
  });

  test.each(['-0', '12345678901234567890', '1e400', '"\\ud800"', '1.0'])(
    '%s stays as it was written',
    (text) => {
      const bytes = Buffer.from(`{"a":${text}}`);
      const span = scanObject(bytes, ['a']).members.get('a');
      expect(span && bytes.toString('utf8', span.start, span.end)).toBe(text);
    },
  );

  test('names that are only nearly the wanted one are not it', () => {
    const bytes = Buffer.from('{"mode":1,"models":2,"MODEL":3,"model ":4,"m\\u006fdel2":5,"":6}');
    expect(scanObject(bytes, ['model']).members.size).toBe(0);
  });
});
