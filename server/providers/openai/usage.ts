import type { Usage } from '#db/money.ts';
import { asRecord, count, detail } from '#server/wire/counts.ts';
import { usageDetails } from '#server/providers/openai/usage-details.ts';
import type { PromptUsage } from '#server/wire/sse.ts';
import { TOKENS_BELIEVED_MAX } from '#server/wire/bounds.ts';

/** A report of usage as understood; null: no report. `implausible`: it has a count that no call can have. */
export type ParsedUsage = Usage | 'implausible' | null;

/**
 * Normalizes the usage of a reply, as OpenAI and compatible providers report it: `cached` and `cacheWrite`
 * are parts of `input`, and `reasoning` a part of `output`.
 *
 * Providers differ in just that. OpenAI counts cached tokens inside the prompt and reasoning inside
 * the completion; xAI and Gemini count reasoning beside the completion; Anthropic, and gateways that
 * pass its counts on, count cached tokens beside the prompt. Taking one for the other charges twice
 * or not at all. `total_tokens` decides: the reading that adds up to it is the true one.
 * Where none does, or no total is reported, a part that is larger than its whole is counted beside it.
 *
 * @returns null when the value is not a usage object, a count is not a number, or nothing reveals the size of
 *   the output; `implausible` when a count is negative or above {@link TOKENS_BELIEVED_MAX}. The relayed text
 *   is counted instead. Another part that is missing counts as 0.
 */
export function parseUsage(value: unknown): ParsedUsage {
  const usage = asRecord(value);
  if (!usage) return null;
  const anthropic = !('prompt_tokens' in usage) && !('completion_tokens' in usage);
  const [promptName, completionName] = anthropic
    ? ['input_tokens', 'output_tokens']
    : ['prompt_tokens', 'completion_tokens'];
  if (!(promptName in usage) && !(completionName in usage)) return null;
  if (isMalformed(usage[promptName]) || isMalformed(usage[completionName])) return null;
  if (isNegative(usage[promptName]) || isNegative(usage[completionName])) return 'implausible';

  const reported: ReportedUsage = {
    prompt: count(usage[promptName]),
    completion: count(usage[completionName]),
    cached: cachedTokens(usage),
    // Written to a cache: a part of the prompt like any other, once it is known to be in it or not.
    written: writtenTokens(usage),
    reasoning: reasoningTokens(usage),
    total: count(usage['total_tokens']),
  };
  const { prompt, completion, cached, written, reasoning, total } = reported;
  if (Math.max(prompt, completion, cached, written, reasoning, total) > TOKENS_BELIEVED_MAX)
    return 'implausible';
  const hasOutput = (usage[completionName] ?? usage['total_tokens'] ?? null) !== null;
  if (!hasOutput && reported.reasoning === 0) return null;
  const besides = READINGS.find(
    (reading) => isPossible(reported, reading) && sum(reported, reading) === reported.total,
  );
  const cacheBeside =
    anthropic && ('cache_read_input_tokens' in usage || 'cache_creation_input_tokens' in usage);
  const settled = settle(reported, besides ?? likelyReading(reported, cacheBeside));
  // Perplexity charges the sources that it has read like the prompt, and counts them nowhere else.
  const citations = count(usage['citation_tokens']);
  if (citations > TOKENS_BELIEVED_MAX) return 'implausible';
  settled.input += citations;
  const details = usageDetails(usage, settled);
  if (details === 'implausible') return details;
  if (details !== undefined) settled.details = details;
  return settled;
}

/**
 * The usage of the prompt, of a report without that of the output. @returns null: there is no such report.
 */
export function parsePromptUsage(value: unknown): PromptUsage | null {
  const usage = asRecord(value);
  const prompt = usage?.['prompt_tokens'] ?? usage?.['input_tokens'];
  if (!usage || typeof prompt !== 'number') return null;
  const whole = parseUsage({ ...usage, total_tokens: usage['total_tokens'] ?? prompt });
  return whole === null || whole === 'implausible' ? null : promptOf(whole);
}

/** The part of a usage that is the prompt's. */
function promptOf({ output: _output, reasoning: _reasoning, ...prompt }: Usage): PromptUsage {
  return prompt;
}

/** The counts as reported by the provider. */
type ReportedUsage = {
  prompt: number;
  completion: number;
  cached: number;
  written: number;
  reasoning: number;
  total: number;
};

/** Which parts stand beside their wholes and not within. */
type Reading = { cache: boolean; reasoning: boolean };

/** All readings, the most common first: it is taken where several add up. */
const READINGS: readonly Reading[] = [
  { cache: false, reasoning: false },
  { cache: false, reasoning: true },
  { cache: true, reasoning: false },
  { cache: true, reasoning: true },
];

/** A part can only be within a whole that is as large. */
function isPossible(reported: ReportedUsage, reading: Reading): boolean {
  return (
    (reading.cache || reported.cached + reported.written <= reported.prompt) &&
    (reading.reasoning || reported.reasoning <= reported.completion)
  );
}

function sum(reported: ReportedUsage, reading: Reading): number {
  return (
    reported.prompt +
    (reading.cache ? reported.cached + reported.written : 0) +
    reported.completion +
    (reading.reasoning ? reported.reasoning : 0)
  );
}

/** The reading without the help of a total. */
function likelyReading(reported: ReportedUsage, cacheBeside: boolean): Reading {
  return {
    cache: cacheBeside || reported.cached + reported.written > reported.prompt,
    reasoning: reported.reasoning > reported.completion,
  };
}

function settle(reported: ReportedUsage, reading: Reading): Usage {
  const input = reported.prompt + (reading.cache ? reported.cached + reported.written : 0);
  // Gemini's compatible endpoint leaves the tokens it thought with out of everything but the total.
  const unnamed = reported.reasoning === 0 ? Math.max(0, reported.total - sum(reported, reading)) : 0;
  const reasoning = reported.reasoning + unnamed;
  const output = reported.completion + (reading.reasoning || unnamed > 0 ? reasoning : 0);
  const cached = Math.min(reported.cached, input);
  const usage: Usage = { input, cached, output, reasoning: Math.min(reasoning, output) };
  const cacheWrite = Math.min(reported.written, input - cached);
  if (cacheWrite > 0) usage.cacheWrite = cacheWrite;
  return usage;
}

/** Under the first name that has a count: gateways often repeat the same count under several. */
function cachedTokens(usage: Record<string, unknown>): number {
  return (
    detail(usage['prompt_tokens_details'], 'cached_tokens') ||
    detail(usage['input_tokens_details'], 'cached_tokens') ||
    detail(usage['prompt_token_details'], 'cached_tokens') ||
    count(usage['prompt_cache_hit_tokens']) ||
    count(usage['cached_tokens']) ||
    count(usage['num_cached_tokens']) ||
    count(usage['cache_read_input_tokens'])
  );
}

/** Written to a cache, in the spellings of OpenAI, OpenRouter, LiteLLM, Qwen and Anthropic. */
function writtenTokens(usage: Record<string, unknown>): number {
  const prompt = usage['prompt_tokens_details'] ?? usage['input_tokens_details'];
  const creation = usage['cache_creation'];
  return (
    detail(prompt, 'cache_write_tokens') ||
    detail(prompt, 'cache_creation_tokens') ||
    detail(prompt, 'cache_creation_input_tokens') ||
    count(usage['cache_creation_input_tokens']) ||
    detail(creation, 'ephemeral_5m_input_tokens') + detail(creation, 'ephemeral_1h_input_tokens')
  );
}

function reasoningTokens(usage: Record<string, unknown>): number {
  return (
    detail(usage['completion_tokens_details'], 'reasoning_tokens') ||
    detail(usage['output_tokens_details'], 'reasoning_tokens') ||
    detail(usage['output_tokens_details'], 'thinking_tokens') ||
    count(usage['reasoning_tokens'])
  );
}

const isMalformed = (value: unknown): boolean =>
  value !== undefined && value !== null && typeof value !== 'number';

const isNegative = (value: unknown): boolean => typeof value === 'number' && !(value >= 0);
