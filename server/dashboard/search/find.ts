import { setImmediate as nextTurn } from 'node:timers/promises';
import { SEARCH_SLICE } from '#server/dashboard/bounds.ts';

/** The search over names in memory. */

/** How well a text matches: the whole name, its beginning, the beginning of a word, any other part. */
const RANKS = 4;

/** Finds a text in names and ids, whatever its case. Without allocation for each name. */
export class Matcher {
  readonly #text: string;
  readonly #any: RegExp;
  readonly #word: RegExp;

  constructor(text: string) {
    this.#text = text.trim();
    const pattern = RegExp.escape(this.#text);
    this.#any = new RegExp(pattern, 'iu');
    this.#word = new RegExp(`(?<![\\p{L}\\p{N}])${pattern}`, 'iu');
  }

  /** Whether a name contains the text. */
  fits(name: string): boolean {
    return this.#any.test(name);
  }

  /** The rank of a name, 0 for the best; null: it doesn't contain the text. */
  rank(name: string): number | null {
    const match = this.#any.exec(name);
    if (match === null) return null;
    if (match.index === 0) return match[0].length === name.length ? 0 : 1;
    return this.#word.test(name) ? 2 : 3;
  }
}

/**
 * The best matches, and of equal ones the newest. Looks through all, in slices between which other work of
 * the process has its turn.
 * @param all in the order of their creation.
 * @param textsOf the texts by which one is found: its name, its id.
 */
export async function findBest<T>(
  all: Iterable<T>,
  matcher: Matcher,
  limit: number,
  textsOf: (each: T) => readonly string[],
): Promise<T[]> {
  const found: T[][] = Array.from({ length: RANKS }, () => []);
  let looked = 0;
  for (const each of all) {
    looked += 1;
    if (looked % SEARCH_SLICE === 0) await nextTurn();
    let best = RANKS;
    for (const text of textsOf(each)) best = Math.min(best, matcher.rank(text) ?? RANKS);
    const equals = found[best];
    if (!equals) continue;
    equals.push(each);
    if (equals.length > limit) equals.shift();
  }
  return found.flatMap((equals) => equals.toReversed()).slice(0, limit);
}
