import {
  BYTES_PER_TOKEN_MAX,
  BYTES_PER_TOKEN_MIN,
  PAST_CALLS_MAX,
  REPLY_FIRST_TOKENS,
  REPLY_LEAST_TOKENS,
} from '#server/limits/bounds.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';

/** What past calls were like: the length of their replies, and the bytes of their prompts per token. Pure. */

/** The share of the difference by which an estimate moves to a longer reply, and to a shorter one. */
const STEP_UP = 1 / 2;
const STEP_DOWN = 1 / 32;
/** A reply is counted as at most this many times the estimate: it may be an outlier. */
const SURPRISE = 4;

/** The share of the sums of bytes and tokens that each measured prompt replaces. */
const PROMPT_DECAY = 1 / 32;
/** So many first prompts are measured, then one in so many: whether a prompt is all text takes a search. */
const PROMPTS_FIRST = 8;
const PROMPT_EVERY = 16;

/** An entry moves to the end of its map once in so many replies: each time would cost more than learning. */
const REFRESH_EVERY = 64;

/** What the next call is expected to be like. */
export type ExpectedCall = {
  /** An upper estimate of the tokens of its reply: about nine of ten replies are not longer. */
  readonly replyTokens: number;
  /** The bytes of the request's body for each token of its prompt; null: no prompt was measured yet. */
  readonly bytesPerToken: number | null;
  /** Whether the next prompt is to be measured. */
  readonly isPromptDue: boolean;
};

/** The past calls of a key to a model, or of all keys to it. */
export class PastCalls implements ExpectedCall {
  /** The past calls of all keys to the same model; null: these are they. */
  readonly ofModel: PastCalls | null;
  #replyTokens = REPLY_FIRST_TOKENS;
  #replies = 0;
  #prompts = 0;
  /** Decayed sums over the measured prompts. */
  #promptBytes = 0;
  #promptTokens = 0;

  constructor(ofModel: PastCalls | null) {
    this.ofModel = ofModel;
  }

  get replyTokens(): number {
    return Math.min(Math.max(Math.ceil(this.#reply), REPLY_LEAST_TOKENS), TOKENS_MAX);
  }

  /** The estimate of the reply, which is that of the model before the first one. */
  get #reply(): number {
    return this.#replies > 0 || this.ofModel === null ? this.#replyTokens : this.ofModel.#replyTokens;
  }

  get bytesPerToken(): number | null {
    if (this.#prompts > 0) return this.#promptBytes / this.#promptTokens;
    return this.ofModel === null ? null : this.ofModel.bytesPerToken;
  }

  get isPromptDue(): boolean {
    return this.#prompts < PROMPTS_FIRST || this.#replies % PROMPT_EVERY === 0;
  }

  /** Whether the entry is to be moved to the end of its map. */
  get isRefreshDue(): boolean {
    return this.#replies % REFRESH_EVERY === 0;
  }

  /** Learns the length of a reply. A length that is not a count changes nothing. */
  learnReply(outputTokens: number): void {
    if (!(outputTokens >= 0)) return;
    const before = this.#reply;
    // The first replies have more weight, so that the initial constant soon has none.
    const step = outputTokens > before ? STEP_UP : Math.max(STEP_DOWN, 1 / (this.#replies + 2));
    const most = Math.min(Math.max(before, REPLY_LEAST_TOKENS) * SURPRISE, TOKENS_MAX);
    this.#replyTokens = before + (Math.min(outputTokens, most) - before) * step;
    this.#replies++;
    this.ofModel?.learnReply(outputTokens);
  }

  /** Learns a prompt that is all text. One whose tokens don't follow from its bytes changes nothing. */
  learnPrompt(bytes: number, tokens: number): void {
    const ratio = bytes / tokens;
    if (!(ratio >= BYTES_PER_TOKEN_MIN && ratio <= BYTES_PER_TOKEN_MAX)) return;
    this.#promptBytes += bytes - this.#promptBytes * PROMPT_DECAY;
    this.#promptTokens += tokens - this.#promptTokens * PROMPT_DECAY;
    this.#prompts++;
    this.ofModel?.learnPrompt(bytes, tokens);
  }
}

/**
 * The past calls of each key to each model, of this process. Approximately the least recently used pairs and
 * models are dropped first.
 */
export class CallHistory {
  readonly #pairs = new Map<string, PastCalls>();
  readonly #models = new Map<string, PastCalls>();

  /**
   * The past calls of a key to a model, which calls learn into when they end.
   * @param pair the name of the two, by {@link pairOf}.
   */
  of(keyId: string, model: string, pair: string = pairOf(keyId, model)): PastCalls {
    const known = this.#pairs.get(pair);
    if (known !== undefined && !known.isRefreshDue) return known;
    const ofModel = known?.ofModel ?? this.#models.get(model) ?? new PastCalls(null);
    keep(this.#models, model, ofModel);
    const past = known ?? new PastCalls(ofModel);
    keep(this.#pairs, pair, past);
    return past;
  }

  /** The number of entries kept. */
  get size(): number {
    return this.#pairs.size + this.#models.size;
  }
}

/** Key ids have a fixed length, so no two pairs share a name. */
export const pairOf = (keyId: string, model: string): string => `${keyId} ${model}`;

/** Moves an entry to the end of the map, whose first entry is dropped when there are too many. */
function keep(map: Map<string, PastCalls>, name: string, past: PastCalls): void {
  map.delete(name);
  map.set(name, past);
  if (map.size > PAST_CALLS_MAX / 2) map.delete(map.keys().next().value as string);
}
