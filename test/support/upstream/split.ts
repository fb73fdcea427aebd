import type { Split } from './script.ts';

const RANDOM_PIECE_BYTES_MAX = 40;
const CONTINUATION_MASK = 0xc0;
const CONTINUATION = 0x80;
const LF = 0x0a;
const CR = 0x0d;

/** Cuts bytes into the pieces that a script wants to be separate writes. Joined they are the bytes. */
export function* splitBytes(bytes: Buffer, split: Split, random: () => number): Generator<Buffer> {
  if (split === 'none') {
    yield bytes;
    return;
  }
  let start = 0;
  for (
    let end = nextCut(bytes, start, split, random);
    end < bytes.length;
    end = nextCut(bytes, start, split, random)
  ) {
    yield bytes.subarray(start, end);
    start = end;
  }
  yield bytes.subarray(start);
}

function nextCut(bytes: Buffer, start: number, split: Exclude<Split, 'none'>, random: () => number): number {
  if (split === 'random') return start + 1 + Math.floor(random() * RANDOM_PIECE_BYTES_MAX);
  if (typeof split === 'number') return start + split;
  const isCut = split === 'chars' ? isInsideCharacter : isInsideLine;
  let at = start + 1;
  while (at < bytes.length && !isCut(bytes, at)) at += 1;
  return at;
}

/** Whether a cut before this byte goes through a multi-byte character. */
function isInsideCharacter(bytes: Buffer, at: number): boolean {
  return ((bytes[at] ?? 0) & CONTINUATION_MASK) === CONTINUATION;
}

/** Whether a cut before this byte goes through the word `data:`, a CR LF or a blank line. */
function isInsideLine(bytes: Buffer, at: number): boolean {
  const before = bytes[at - 1];
  if (bytes[at] === LF && (before === LF || before === CR)) return true;
  return bytes.toString('latin1', at - 2, at + 3) === 'data:';
}

/** A repeatable source of numbers in [0, 1), so that a failing cut can be seen again. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
