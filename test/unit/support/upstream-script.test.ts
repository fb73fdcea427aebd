import { expect, test } from 'vitest';
import { parsePlan, parseScript, type Split } from '../../support/upstream/script.ts';
import { seededRandom, splitBytes } from '../../support/upstream/split.ts';

test('an empty script is a healthy reply', () => {
  expect(parseScript('')).toMatchObject({
    tokens: 8,
    every: 0,
    status: 200,
    end: { how: 'stop', where: 'done' },
  });
});

test('every kind of value is read in its own unit', () => {
  const text =
    'tokens=40,every=5ms,head=2s,end=cut@12,usage=always,pad=200KB,length=-5,split=3,idle=0ms,retry=a=b';
  expect(parseScript(text)).toMatchObject({
    tokens: 40,
    every: 5,
    head: 2000,
    end: { how: 'cut', where: 12 },
    usage: 'always',
    pad: 204_800,
    length: -5,
    split: 3,
    idle: 0,
    retry: 'a=b',
  });
});

test.each([
  ['tokenz=3', 'there is no field "tokenz"'],
  ['tokens', 'tokens: ""'],
  ['tokens=-1', 'tokens: "-1"'],
  ['tokens=99999999', 'tokens: "99999999"'],
  ['every=5', 'every: "5"'],
  ['every=9999s', 'every: "9999s"'],
  ['pad=9GB', 'pad: "9GB"'],
  ['usage=maybe', 'usage: "maybe" is none of asked, always'],
  ['end=cut', 'end: "cut"'],
  ['end=explode@3', 'end: "explode@3"'],
  ['end=cut@never', 'end: "cut@never"'],
  ['tokens=3,end=cut@4', 'end: there is no token 4 among 3'],
  ['end=stop@head', 'end: stop@head is not possible'],
  ['length=5', 'length: "5"'],
  ['length=+5,framing=chunked', 'length: only a body with Content-Length'],
  ['encoding=gzip,tokens=1,pad=1GB', 'pad: compressed and batch'],
  ['split=0', 'split: "0"'],
])('a script that does not say what to do is refused by name: %s', (text, message) => {
  expect(() => parseScript(text)).toThrow(message);
});

test('a plan has one script for each successive attempt', () => {
  expect(
    parsePlan('status=503|status=429,retry=2|tokens=3').map(({ status, tokens }) => [status, tokens]),
  ).toEqual([
    [503, 8],
    [429, 8],
    [200, 3],
  ]);
});

const event = Buffer.from('data: {"a":"t\u00f6k\u20ac\u{1f600} "}\n\ndata: [DONE]\r\n\r\n');
const pieces = (split: Split, seed = 1): Buffer[] => [...splitBytes(event, split, seededRandom(seed))];

test.each(['random', 'chars', 'lines', 1, 7, 10_000] as const)(
  'pieces cut by %s join to what was cut',
  (split) => {
    expect(Buffer.concat(pieces(split))).toEqual(event);
  },
);

test('cuts through characters leave no multi-byte character in one piece', () => {
  const characters = pieces('chars')
    .map((piece) => piece.toString())
    .join('');
  expect(characters).not.toMatch(/[\u00f6\u20ac\u{1f600}]/u);
});

test('cuts through lines leave no field name and no blank line in one piece', () => {
  for (const piece of pieces('lines')) expect(piece.toString()).not.toMatch(/data:|\n\n|\r\n/);
});

test('random cuts are the same for the same seed, and others for another', () => {
  expect(pieces('random', 7)).toEqual(pieces('random', 7));
  expect(pieces('random', 7)).not.toEqual(pieces('random', 8));
});
