import { BYTES_PER_TOKEN } from '#server/wire/bounds.ts';

/** A delta longer than this on average holds several tokens; 4 bytes a token is the usual measure. */
const ONE_TOKEN_BYTES_MAX = 16;

/**
 * Counts what the model has written, in the way of the relay: a token for each delta, or by the bytes where
 * deltas are long.
 */
export class OutputCounter {
  #deltas = 0;
  #bytes = 0;

  /** @param bytes the length of a delta's text, as it stands in its JSON. */
  add(bytes: number): void {
    if (bytes === 0) return;
    this.#deltas++;
    this.#bytes += bytes;
  }

  get tokens(): number {
    const chunky = this.#bytes > this.#deltas * ONE_TOKEN_BYTES_MAX;
    return chunky ? Math.max(this.#deltas, Math.ceil(this.#bytes / BYTES_PER_TOKEN)) : this.#deltas;
  }
}
