import { OVERSIZE_END_BYTES } from '#server/wire/bounds.ts';

/** The beginning and the end of an event that is too large to be held, as latin-1 text. */
export type EventEnds = { head: string; tail: string };

/** Keeps both ends of an oversize event as its parts pass. Each byte is copied twice at most. Pure. */
export class OversizeEvent {
  #head = '';
  #tail = '';

  push(part: string): void {
    if (this.#head.length < OVERSIZE_END_BYTES)
      this.#head += part.slice(0, OVERSIZE_END_BYTES - this.#head.length);
    this.#tail += part;
    if (this.#tail.length > 2 * OVERSIZE_END_BYTES) this.#tail = this.#tail.slice(-OVERSIZE_END_BYTES);
  }

  /** The ends of the event, which is over. */
  take(): EventEnds {
    const ends = { head: this.#head, tail: this.#tail };
    this.#head = '';
    this.#tail = '';
    return ends;
  }
}
