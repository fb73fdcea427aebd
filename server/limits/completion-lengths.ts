import { REPLY_FIRST_TOKENS, REPLY_LEAST_TOKENS, REPLY_LENGTHS_MAX } from '#server/limits/bounds.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';

/** The lengths of completions, learned from past ones, for the reservations of soft limits. Pure. */

/** The share of the difference by which an estimate moves to a longer reply, and to a shorter one. */
const STEP_UP = 1 / 2;
const STEP_DOWN = 1 / 32;
/** A reply is counted as at most this many times the estimate: it may be an outlier. */
const SURPRISE = 4;

/** A length moves to the end of its map once in so many replies: each time would cost more than learning. */
const REFRESH_EVERY = 64;

/** An upper estimate of the length of similar replies: about nine of ten are not longer. */
type Length = { tokens: number; seen: number };

/**
 * The length of completions: learned per key and model, else per model, else a constant. It rises
 * fast with long replies and falls slowly with short ones. Approximately the least recently updated
 * lengths are dropped first.
 */
export class CompletionLengths {
  readonly #pairs = new Map<string, Length>();
  readonly #models = new Map<string, Length>();

  /** An upper estimate of the reply to this key by this model, in tokens. */
  estimate(keyId: string, model: string): number {
    const length = this.#pairs.get(pairOf(keyId, model)) ?? this.#models.get(model);
    return length
      ? Math.min(Math.max(Math.ceil(length.tokens), REPLY_LEAST_TOKENS), TOKENS_MAX)
      : REPLY_FIRST_TOKENS;
  }

  /** Learns the length of a reply. A length that is not a count changes nothing. */
  learn(keyId: string, model: string, outputTokens: number): void {
    if (!(outputTokens >= 0)) return;
    const tokens = Math.min(outputTokens, TOKENS_MAX);
    const pair = pairOf(keyId, model);
    const before = this.#models.get(model);
    // A new pair starts with the estimate of its model.
    const known = this.#pairs.get(pair);
    const length = known ?? { tokens: before?.tokens ?? REPLY_FIRST_TOKENS, seen: 0 };
    learnInto(length, tokens);
    if (!known || length.seen % REFRESH_EVERY === 0) keep(this.#pairs, pair, length);
    const ofModel = before ?? { tokens: REPLY_FIRST_TOKENS, seen: 0 };
    learnInto(ofModel, tokens);
    if (!before || ofModel.seen % REFRESH_EVERY === 0) keep(this.#models, model, ofModel);
  }

  /** The number of lengths kept. */
  get size(): number {
    return this.#pairs.size + this.#models.size;
  }
}

/** Key ids have a fixed length, so no two pairs share a name. */
const pairOf = (keyId: string, model: string): string => `${keyId} ${model}`;

function learnInto(length: Length, tokens: number): void {
  // The first replies have more weight, so that the initial constant soon has none.
  const step = tokens > length.tokens ? STEP_UP : Math.max(STEP_DOWN, 1 / (length.seen + 2));
  const taken = Math.min(tokens, Math.max(length.tokens, REPLY_LEAST_TOKENS) * SURPRISE);
  length.tokens += (taken - length.tokens) * step;
  length.seen++;
}

/** Moves an entry to the end of the map, whose first entry is dropped when there are too many. */
function keep(map: Map<string, Length>, name: string, length: Length): void {
  map.delete(name);
  map.set(name, length);
  if (map.size > REPLY_LENGTHS_MAX / 2) map.delete(map.keys().next().value as string);
}
