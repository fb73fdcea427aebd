import type { UsageSource } from '#db/events/endings.ts';
import type { Usage } from '#db/money.ts';
import {
  CONTEXT_TOKENS_MAX,
  HIDDEN_OUTPUT_TOKENS_MAX,
  OUTPUT_SLACK_TOKENS,
  REASONING_TOKENS_MAX,
} from '#server/limits/bounds.ts';

/** What the relay itself knows of a call, which its provider's report of usage must agree with. Pure. */
export type CallSize = {
  /** The likely tokens of the prompt, for a reply whose provider reports no usage. */
  promptEstimate: number;
  requestBytes: number;
  /** The limit on all choices together; null: it isn't limited. */
  outputLimit: number | null;
  choices: number;
  unreported?: Unreported;
};
/**
 * The usage where the provider reports none, of a call that isn't measured by the bytes of its body; null: it
 * is.
 */
export type Unreported = ((outputTokens: number) => { usage: Usage; source: UsageSource }) | null;

/**
 * Whether a call can have used this much. Each token of text covers at least a byte, in the request as in
 * the reply. Beyond its bytes a prompt can have files and references, at most the longest context. Beyond its
 * bytes a reply can have tokens that the provider counts and doesn't show, at most its limit or, without one,
 * the longest known. Each bound is generous: usage that is possible must be charged as reported.
 * @param replyBytes as received so far from the upstream.
 */
export function isPlausible(
  { input, output, reasoning }: Usage,
  { requestBytes, outputLimit, choices }: CallSize,
  replyBytes: number,
): boolean {
  const hidden = Math.min(outputLimit ?? Infinity, choices * HIDDEN_OUTPUT_TOKENS_MAX);
  return (
    input <= requestBytes + CONTEXT_TOKENS_MAX &&
    reasoning <= choices * REASONING_TOKENS_MAX &&
    output - reasoning <= replyBytes + hidden + OUTPUT_SLACK_TOKENS
  );
}
