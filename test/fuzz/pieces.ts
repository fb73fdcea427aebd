import type { Random } from '../chaos/random.ts';

/** Parts of random input that several targets use. */

export const pick = <T>(random: Random, choices: readonly T[]): T =>
  choices[random.below(choices.length)] as T;
export const chance = (random: Random, oneIn: number): boolean => random.below(oneIn) === 0;

const TEXTS = [
  'tok',
  ' ',
  '"',
  '\\',
  '\n',
  '\r\n',
  '€',
  '\u{1f600}',
  'data: [DONE]',
  '\u2028',
  '%41',
  '\\u0041',
  '',
];
const NUMBERS = ['0', '-1', '7', '1e308', '1e999', '2147483648', '9007199254740993', '0.5', '-0', '1E+2'];

/** A JSON document as text, of bounded depth. */
export function jsonText(random: Random, depth = 4): string {
  switch (random.below(depth > 0 ? 7 : 4)) {
    case 0:
      return pick(random, ['null', 'true', 'false']);
    case 1:
      return pick(random, NUMBERS);
    case 2:
    case 3:
      return JSON.stringify(
        Array.from({ length: random.below(4) }, () => pick(random, TEXTS)).join('') +
          'x'.repeat(random.below(30)),
      );
    case 4: {
      const elements = Array.from({ length: random.below(4) }, () => jsonText(random, depth - 1));
      return `[${elements.join(pick(random, [',', ' , ']))}]`;
    }
    default:
      return objectText(random, {}, depth);
  }
}

const NAMES = [
  'model',
  'messages',
  'stream',
  'usage',
  'choices',
  'error',
  'content',
  'delta',
  'n',
  'a"b',
  '',
  '\u0000',
];

/** An object with these members, in JSON, between random ones. */
export function objectText(random: Random, members: Record<string, string>, depth = 3): string {
  const entries = Object.entries(members).map(([name, value]) => `${JSON.stringify(name)}:${value}`);
  for (let more = random.below(3); more > 0; more--)
    entries.splice(
      random.below(entries.length + 1),
      0,
      `${JSON.stringify(pick(random, NAMES))}${pick(random, [':', ' : '])}${jsonText(random, depth - 1)}`,
    );
  return `{${entries.join(',')}}`;
}

/** Sometimes changes bytes: removes, doubles, overwrites or cuts them. */
export function mutated(random: Random, bytes: Buffer, oneIn = 3): Buffer {
  if (bytes.length === 0 || !chance(random, oneIn)) return bytes;
  const at = random.below(bytes.length);
  const end = Math.min(bytes.length, at + 1 + random.below(8));
  switch (random.below(4)) {
    case 0:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)]);
    case 1:
      return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
    case 2: {
      const copy = Buffer.from(bytes);
      copy[at] = random.below(256);
      return copy;
    }
    default:
      return bytes.subarray(0, at);
  }
}

const PIECES_MAX = 5_000;

/** In pieces of random sizes. */
export function divided(random: Random, bytes: Buffer): Buffer[] {
  // A million writes would stop the event loop by themselves.
  const most = Math.max(pick(random, [1, 3, 20, 200, 5_000, 100_000]), Math.ceil(bytes.length / PIECES_MAX));
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + random.below(most);
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}
