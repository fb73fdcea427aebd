import type { Usage } from '#db/money.ts';
import type { PromptUsage } from '#server/wire/sse.ts';
import { TOKENS_BELIEVED_MAX } from '#server/wire/bounds.ts';

/**
 * Normalizes the usage of a chat completion, as OpenAI and compatible providers report it:
 * `cached` is a part of `input`, and `reasoning` a part of `output`.
 *
 * Providers differ in just that. OpenAI counts cached tokens inside the prompt and reasoning inside
 * the completion; xAI and Gemini count reasoning beside the completion; Anthropic, and gateways that
 * pass its counts on, count cached tokens beside the prompt. Taking one for the other charges twice
 * or not at all. `total_tokens` decides: the reading that adds up to it is the true one.
 * Where none does, or no total is reported, a part that is larger than its whole is counted beside it.
 *
 * @returns null when the value is not a usage object, or any count is not one or above
 *   {@link TOKENS_BELIEVED_MAX}, or nothing reveals the size of the output: then the relayed text is counted
 *   instead. Another part that is missing counts as 0.
 */
export function parseUsage(value: unknown): Usage | null {
  const usage = asRecord(value);
  if (!usage) return null;
  const anthropic = !('prompt_tokens' in usage) && !('completion_tokens' in usage);
  const [promptName, completionName] = anthropic
    ? ['input_tokens', 'output_tokens']
    : ['prompt_tokens', 'completion_tokens'];
  if (!(promptName in usage) && !(completionName in usage)) return null;
  if (isAbsurd(usage[promptName]) || isAbsurd(usage[completionName])) return null;

  const reported: ReportedUsage = {
    prompt: count(usage[promptName]),
    completion: count(usage[completionName]),
    cached: cachedTokens(usage),
    // Written to a cache: a part of the prompt like any other, once it is known to be in it or not.
    written: count(usage['cache_creation_input_tokens']),
    reasoning: reasoningTokens(usage),
    total: count(usage['total_tokens']),
  };
  const { prompt, completion, cached, written, reasoning, total } = reported;
  if (Math.max(prompt, completion, cached, written, reasoning, total) > TOKENS_BELIEVED_MAX) return null;
  const hasOutput = (usage[completionName] ?? usage['total_tokens'] ?? null) !== null;
  if (!hasOutput && reported.reasoning === 0) return null;
  const besides = READINGS.find(
    (reading) => isPossible(reported, reading) && sum(reported, reading) === reported.total,
  );
  return settle(
    reported,
    besides ?? likelyReading(reported, anthropic && 'cache_read_input_tokens' in usage),
  );
}

/**
 * The usage of the prompt, of a report without that of the output. @returns null: there is no such report.
 */
export function parsePromptUsage(value: unknown): PromptUsage | null {
  const usage = asRecord(value);
  const prompt = usage?.['prompt_tokens'] ?? usage?.['input_tokens'];
  if (!usage || typeof prompt !== 'number') return null;
  const whole = parseUsage({ ...usage, total_tokens: usage['total_tokens'] ?? prompt });
  return whole && { input: whole.input, cached: whole.cached };
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
  return {
    input,
    cached: Math.min(reported.cached, input),
    output,
    reasoning: Math.min(reasoning, output),
  };
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

function reasoningTokens(usage: Record<string, unknown>): number {
  return (
    detail(usage['completion_tokens_details'], 'reasoning_tokens') ||
    detail(usage['output_tokens_details'], 'reasoning_tokens') ||
    detail(usage['output_tokens_details'], 'thinking_tokens') ||
    count(usage['reasoning_tokens'])
  );
}

function isAbsurd(value: unknown): boolean {
  return value !== undefined && value !== null && !(typeof value === 'number' && value >= 0);
}

function asRecord(value: unknown): Record<string, unknown> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

function detail(details: unknown, name: string): number {
  return count(asRecord(details)?.[name]);
}

function count(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : 0;
}
