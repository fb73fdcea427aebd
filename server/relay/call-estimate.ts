import type { SubjectLimits } from '#db/limits/limits.ts';
import type { Amounts } from '#db/limits/meters.ts';
import { costBound, type CostBound, outputTokensFor } from '#db/pricing/bound.ts';
import { type CallPrice, chargeBound } from '#db/pricing/charge.ts';
import type { Unit } from '#db/pricing/parts.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';
import type { CallNeed } from '#server/limits/waiting-call.ts';
import type { ExpectedCall, PastCalls } from '#server/limits/call-history.ts';
import { unitsOf } from '#server/limits/call-units.ts';
import type { CallSize, Unreported } from '#server/limits/plausible-usage.ts';
import { isText, promptBound } from '#server/limits/prompt-bound.ts';
import { promptSize, type PromptSize } from '#server/limits/prompt-estimate.ts';
import { callNeed, countsCost, hasHardLimit } from '#server/limits/call-need.ts';
import { type CallEnd, isAllText } from '#server/relay/reply-usage.ts';
import type { ParsedRequest, StatedSize } from '#server/wire/request-parser.ts';

/**
 * What a call has to reserve before it may leave. Pure.
 *
 * Under a soft limit that is what the call will likely use: its prompt by an estimate, its reply
 * by what this key's replies from this model were like, at most the call's own limit. A long
 * streamed reply grows its hold as it goes; see budget.ts.
 *
 * Under a hard quota it is the most that the call can use: its prompt bounded from above, and a
 * limit on the reply that the upstream is asked to stop at: the call's own or, where less than
 * that is left, the remainder.
 *
 * Where the provider reports no usage, the prompt is charged by the bytes per token of earlier prompts of the
 * key to the model. That figure reserves nothing.
 */
export type CallEstimate = {
  need: CallNeed;
  isHard: boolean;
  unreported: Unreported;
  /** Tokens reserved for the prompt. */
  promptTokens: number;
  /** The tokens charged for the prompt where the provider reports no usage. */
  promptLikely: number;
  /** Whether the tokens that are reported for the prompt are to be learned: it is all text. */
  isMeasured: boolean;
  choices: number;
  /** The call's own limit for one choice, if it has one. */
  ownLimit: number | null;
  /** What the call can cost; null where nothing is known of the model's price: it then costs nothing. */
  cost: CostBound | null;
};

/**
 * @param subjects the limits that the call is charged to.
 * @param price null where the model has none.
 * @param expected by past calls; its reply is that of all choices together.
 * @param minute now, in minutes since 1970.
 */
export function estimateCall(
  body: Buffer,
  asked: ParsedRequest,
  subjects: readonly SubjectLimits[],
  price: CallPrice | null,
  expected: ExpectedCall,
  minute: number,
): CallEstimate {
  const { choices, completionLimit: ownLimit } = asked;
  const isHard = subjects.some(hasHardLimit);
  // Also without a limit: a back-test of other limits reads the estimate from the log.
  const { sized } = asked;
  const size = sized ? sizeOf(sized) : promptSize(body);
  const promptTokens = Math.min(
    TOKENS_MAX,
    isHard ? promptBound(body.length, asked.scanned.parts) : size.tokens,
  );
  const allPriced = (price?.sell ?? price?.cost)?.schedule.units ?? NO_UNITS;
  const priced = subjects.some(countsCost) ? allPriced : NO_UNITS;
  const units = sized?.units ?? unitsOf(body, asked, priced);
  const cost = price && chargeBound(price, isHard ? 'highest' : 'likely', promptTokens, minute, units);
  const replySize = { promptTokens, expectedTokens: expected.replyTokens, choices, ownLimit };
  const need = callNeed(replySize, subjects, isHard, cost);
  return {
    need,
    isHard,
    unreported: sized ? (output) => sized.unreported(allPriced, output) : null,
    promptTokens,
    promptLikely: sized
      ? promptTokens
      : Math.min(likelyPrompt(size, expected), isHard ? promptTokens : TOKENS_MAX),
    isMeasured:
      sized === undefined &&
      expected.isPromptDue &&
      asked.storage !== 'refers' &&
      size.textBytes === body.length &&
      isText(asked.scanned.parts),
    choices,
    ownLimit,
    cost,
  };
}

const NO_UNITS: readonly Unit[] = [];
const sizeOf = ({ promptTokens: tokens }: StatedSize): PromptSize => ({
  tokens,
  textBytes: 0,
  fileTokens: 0,
});

/** The tokens of a prompt by the measured bytes per token, else by the weights of its bytes. */
export function likelyPrompt(
  { tokens, textBytes, fileTokens }: PromptSize,
  { bytesPerToken }: Pick<ExpectedCall, 'bytesPerToken'>,
): number {
  return bytesPerToken === null ? tokens : Math.ceil(textBytes / bytesPerToken) + fileTokens;
}

/**
 * The charge of a streamed call that is lost after so many tokens of its reply; null: its whole reservation,
 * which alone bounds its usage under a hard limit.
 */
export function lostCharge(
  { promptLikely, cost, isHard }: CallEstimate,
  outputTokens: number,
): Amounts | null {
  if (isHard) return null;
  return {
    tokens: promptLikely + outputTokens,
    cost: cost ? costBound(cost, promptLikely, outputTokens) : 0,
  };
}

/** Learns an ended call for the estimates of later ones. */
export function learnCall(
  past: PastCalls,
  { isMeasured }: CallEstimate,
  end: CallEnd,
  bodyBytes: number,
): void {
  if (end.reason === 'completed') past.learnReply(end.usage.output);
  if (isMeasured && isAllText(end)) past.learnPrompt(bodyBytes, end.usage.input);
}

/**
 * The size of a call, for its report of usage.
 * @param tokenLimit the limit on each choice in place of the client's own; null: the client's is kept.
 */
export function callSize(
  { promptLikely, choices, ownLimit, unreported }: CallEstimate,
  requestBytes: number,
  tokenLimit: number | null,
): CallSize {
  const limit = tokenLimit ?? ownLimit;
  const outputLimit = limit === null ? null : limit * choices;
  return { promptEstimate: promptLikely, requestBytes, outputLimit, choices, unreported };
}

/** The limit on each choice that the upstream is to be asked to keep; null where the call's own will do. */
export function tokenLimitOf(
  {
    isHard,
    promptTokens,
    choices,
    ownLimit,
    cost,
  }: Omit<CallEstimate, 'need' | 'promptLikely' | 'isMeasured' | 'unreported'>,
  hold: Readonly<Amounts>,
): number | null {
  if (!isHard) return null;
  const byTokens = hold.tokens - promptTokens;
  const byCost = cost ? outputTokensFor(cost, hold.cost, promptTokens) : Infinity;
  const limit = Math.floor(Math.min(byTokens, byCost) / choices);
  return ownLimit !== null && ownLimit <= limit ? null : limit;
}

/** The request's own limit on its reply, over all choices; undefined: it has none. */
export function maxOutputTokens({ ownLimit, choices }: Pick<CallEstimate, 'ownLimit' | 'choices'>) {
  return ownLimit === null ? undefined : Math.min(ownLimit * choices, TOKENS_MAX);
}
