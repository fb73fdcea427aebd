import { z } from 'zod';
import { Count } from '#db/events/parts.ts';

/** How token counts are known; `USAGE_SOURCES` has their codes. */
export const USAGE_SOURCE_NAMES = ['provider', 'counted', 'estimated', 'none', 'implausible'] as const;

/**
 * Usage of which few calls have any. Token classes are parts of the prompt (`input`) or of the reply
 * (`output`); units are counted beside the tokens. An absent field is 0. Pure.
 */
export const UsageDetails = z.strictObject({
  /** The part of `cache_write_tokens` that is kept for an hour; the rest is kept for five minutes. */
  cache_write_1h_tokens: Count.optional(),
  audio_input_tokens: Count.optional(),
  audio_output_tokens: Count.optional(),
  image_input_tokens: Count.optional(),
  image_output_tokens: Count.optional(),
  web_searches: Count.optional(),
  images: Count.optional(),
  /** Of audio or video, in milliseconds. */
  media_ms: Count.optional(),
  characters: Count.optional(),
  /** Calls of tools that the provider ran itself and charges for, besides web searches. */
  tool_calls: Count.optional(),
});
export type UsageDetails = z.infer<typeof UsageDetails>;
