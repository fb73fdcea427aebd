/** Fragments are joined from this length on. */
const JOINED_CHARACTERS = 4096;

/**
 * A text that comes in many fragments. Fragments that were cut out of larger texts keep those in memory until
 * they are joined into a text of their own, which happens every few kilobytes.
 */
export class TextCollector {
  readonly #joined: string[] = [];
  #last = '';

  add(text: string): void {
    this.#last += text;
    if (this.#last.length < JOINED_CHARACTERS) return;
    // To read a character makes V8 join the fragments.
    this.#last.charCodeAt(0);
    this.#joined.push(this.#last);
    this.#last = '';
  }

  get isEmpty(): boolean {
    return this.#last === '' && this.#joined.length === 0;
  }

  get text(): string {
    return this.#joined.length === 0 ? this.#last : this.#joined.join('') + this.#last;
  }
}
