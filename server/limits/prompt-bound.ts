import {
  AUDIO_TOKENS_MAX,
  CONTEXT_TOKENS_MAX,
  IMAGE_TOKENS_MAX,
  TEMPLATE_TOKENS_MAX,
  TOOLS_TEMPLATE_TOKENS_MAX,
} from '#server/limits/bounds.ts';
import type { PromptParts } from '#server/wire/prompt-parts.ts';

/** An upper bound of the tokens of a prompt, for hard limits. Pure. */

/**
 * An upper bound of every provider's count of a prompt, in tokens. Each token covers at least one
 * byte of text, and JSON is not shorter than the text in it. The provider's template, images and
 * files are added.
 */
export function promptBound(bodyBytes: number, parts: Readonly<PromptParts>): number {
  const { images, recordings, files, hasTools } = parts;
  const tokens = images * IMAGE_TOKENS_MAX + recordings * AUDIO_TOKENS_MAX + files * CONTEXT_TOKENS_MAX;
  const template = hasTools ? TOOLS_TEMPLATE_TOKENS_MAX : TEMPLATE_TOKENS_MAX;
  return bodyBytes + template + Math.min(tokens, CONTEXT_TOKENS_MAX);
}

/** Whether a prompt is text alone, so that its tokens follow from its bytes. */
export const isText = ({ images, recordings, files }: Readonly<PromptParts>): boolean =>
  images === 0 && recordings === 0 && files === 0;
