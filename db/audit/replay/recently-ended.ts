/** About as many as end within a minute of a very busy log; eight megabytes. */
const SLOTS = 2 ** 20;

/**
 * The requests that ended most recently, as a hash table over the random digits of their ids. It detects a
 * second acceptance or a second ending of a request. A second ending is found at any later time, since no
 * open request matches it. A second acceptance that comes later than this table reaches back is not detected
 * here; it violates the primary key of the requests projection. Pure.
 */
export class RecentlyEnded {
  readonly #left = new Uint32Array(SLOTS);
  readonly #right = new Uint32Array(SLOTS);

  /** @param id a UUID as text. */
  add(id: string): void {
    const slot = digitsOf(id, 24, 5);
    this.#left[slot] = leftOf(id);
    this.#right[slot] = digitsOf(id, 29, 7);
  }

  has(id: string): boolean {
    const slot = digitsOf(id, 24, 5);
    return this.#left[slot] === leftOf(id) && this.#right[slot] === digitsOf(id, 29, 7);
  }
}

/** The six random digits before the last hyphen; never 0, which marks an empty slot. */
const leftOf = (id: string): number => 1 + digitsOf(id, 15, 3) * 0x1000 + digitsOf(id, 20, 3);

/** Parses hexadecimal digits of an id. */
function digitsOf(id: string, from: number, count: number): number {
  let value = 0;
  for (let at = from; at < from + count; at++) {
    const code = id.charCodeAt(at);
    value = value * 16 + (code < 0x40 ? code - 0x30 : (code | 0x20) - 0x57);
  }
  return value;
}
