/** About as many as end in a minute of a very busy log; eight megabytes. */
const PLACES = 2 ** 20;

/**
 * The calls that ended last, by the random digits of their ids: what comes for them again is told to
 * be a second time. A second ending is found however late it comes, since it has no beginning. Of a
 * second acceptance that comes later than this reaches back nothing is known here; in the table of
 * calls it breaks the key. Pure.
 */
export class EndedLast {
  readonly #left = new Uint32Array(PLACES);
  readonly #right = new Uint32Array(PLACES);

  /** @param id a UUID as text. */
  add(id: string): void {
    const place = digitsOf(id, 24, 5);
    this.#left[place] = leftOf(id);
    this.#right[place] = digitsOf(id, 29, 7);
  }

  has(id: string): boolean {
    const place = digitsOf(id, 24, 5);
    return this.#left[place] === leftOf(id) && this.#right[place] === digitsOf(id, 29, 7);
  }
}

/** The six random digits before the last hyphen; never 0, which is an empty place. */
const leftOf = (id: string): number => 1 + digitsOf(id, 15, 3) * 0x1000 + digitsOf(id, 20, 3);

/** Hexadecimal digits of an id as a number. */
function digitsOf(id: string, from: number, count: number): number {
  let value = 0;
  for (let at = from; at < from + count; at++) {
    const code = id.charCodeAt(at);
    value = value * 16 + (code < 0x40 ? code - 0x30 : (code | 0x20) - 0x57);
  }
  return value;
}
