import type { UsageDetails } from '#db/events/usage-details.ts';
import type { Usage } from '#db/money.ts';
import { asRecord, count, detail } from '#server/wire/counts.ts';
import { TOKENS_BELIEVED_MAX, UNITS_BELIEVED_MAX } from '#server/wire/bounds.ts';
import { nanousdOfNumber } from '#server/wire/reply-facts.ts';

/** What few reports of usage have: rare classes of tokens, units, and the provider's own cost. Pure. */

const TICKS_PER_NANOUSD = 10;

/**
 * The rare classes and units of a report, in the spellings of all providers that are known to have them.
 * A class is at most what the others leave of its whole: providers don't say how classes overlap.
 * @returns undefined: it has none, and nothing is allocated.
 */
export function usageDetails(
  usage: Record<string, unknown>,
  { input, cached, cacheWrite = 0, output, reasoning }: Usage,
): UsageDetails | 'implausible' | undefined {
  const prompt =
    usage['prompt_tokens_details'] ?? usage['input_tokens_details'] ?? usage['input_token_details'];
  const reply = usage['completion_tokens_details'] ?? usage['output_tokens_details'];
  const serverTools = asRecord(usage['server_side_tool_usage_details']);
  const hour = Math.min(detail(usage['cache_creation'], 'ephemeral_1h_input_tokens'), cacheWrite);
  const audioIn = Math.min(detail(prompt, 'audio_tokens'), input - cached - cacheWrite);
  const imageIn = Math.min(detail(prompt, 'image_tokens'), input - cached - cacheWrite - audioIn);
  const audioOut = Math.min(detail(reply, 'audio_tokens'), output - reasoning);
  const imageOut = Math.min(detail(reply, 'image_tokens'), output - reasoning - audioOut);
  const searches =
    detail(usage['server_tool_use'], 'web_search_requests') ||
    count(usage['num_search_queries']) ||
    count(usage['num_sources_used']) ||
    detail(serverTools, 'web_search_calls') + detail(serverTools, 'x_search_calls');
  const tools =
    detail(serverTools, 'code_interpreter_calls') +
    detail(serverTools, 'file_search_calls') +
    detail(serverTools, 'document_search_calls');
  const mediaMs = milliseconds(usage['prompt_audio_seconds'] ?? usage['seconds']);
  const characters = count(usage['characters']);
  if (searches > UNITS_BELIEVED_MAX || tools > UNITS_BELIEVED_MAX) return 'implausible';
  if (mediaMs > TOKENS_BELIEVED_MAX || characters > TOKENS_BELIEVED_MAX) return 'implausible';
  if (hour + audioIn + imageIn + audioOut + imageOut + searches + tools + mediaMs + characters === 0)
    return undefined;
  const details: UsageDetails = {};
  if (hour > 0) details.cache_write_1h_tokens = hour;
  if (audioIn > 0) details.audio_input_tokens = audioIn;
  if (audioOut > 0) details.audio_output_tokens = audioOut;
  if (imageIn > 0) details.image_input_tokens = imageIn;
  if (imageOut > 0) details.image_output_tokens = imageOut;
  if (searches > 0) details.web_searches = searches;
  if (mediaMs > 0) details.media_ms = mediaMs;
  if (characters > 0) details.characters = characters;
  if (tools > 0) details.tool_calls = tools;
  return details;
}

/**
 * What the provider says that it charges, in nano-dollars: OpenRouter's `cost`, to which the bill of the
 * operator's own key at the provider behind it is added; xAI's ticks; Perplexity's `cost.total_cost`;
 * DeepInfra's `estimated_cost`.
 * @returns null: it doesn't say.
 */
export function statedCost(report: unknown): number | null {
  const usage = asRecord(report);
  if (!usage) return null;
  const { cost } = usage;
  if (typeof cost === 'number') {
    const own = nanousdOfNumber(cost);
    if (own === null || usage['is_byok'] !== true) return own;
    const behind = nanousdOfNumber(asRecord(usage['cost_details'])?.['upstream_inference_cost']);
    return own + (behind ?? 0);
  }
  if (typeof cost === 'object' && cost !== null) return nanousdOfNumber(asRecord(cost)?.['total_cost']);
  const ticks = usage['cost_in_usd_ticks'];
  if (typeof ticks === 'number' && Number.isSafeInteger(ticks) && ticks >= 0)
    return Math.floor((ticks + TICKS_PER_NANOUSD / 2) / TICKS_PER_NANOUSD);
  return nanousdOfNumber(usage['estimated_cost']);
}

const milliseconds = (seconds: unknown): number =>
  typeof seconds === 'number' && seconds > 0 ? Math.ceil(seconds * 1_000) : 0;
