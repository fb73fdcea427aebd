import { TOKENS_MAX } from '#server/bounds.ts';

/** Token counts of one reply. `cached` is a part of `input`, `reasoning` a part of `output`. */
export type Usage = { input: number; cached: number; output: number; reasoning: number };

/**
 * The usage object of a chat completion, as OpenAI and those who speak its convention report it.
 * @returns null when the value is not a usage object, or its totals are no counts: then it is no
 *   report at all, and what was relayed is counted instead. A part that is missing counts as 0.
 */
export function readUsage(value: unknown): Usage | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const usage = value as Record<string, unknown>;
  if (!('prompt_tokens' in usage) && !('completion_tokens' in usage)) return null;
  if (isAbsurd(usage['prompt_tokens']) || isAbsurd(usage['completion_tokens'])) return null;
  const input = count(usage['prompt_tokens']);
  const output = count(usage['completion_tokens']);
  return {
    input,
    cached: Math.min(input, detail(usage['prompt_tokens_details'], 'cached_tokens')),
    output,
    reasoning: Math.min(output, detail(usage['completion_tokens_details'], 'reasoning_tokens')),
  };
}

function isAbsurd(value: unknown): boolean {
  return value !== undefined && value !== null && !(typeof value === 'number' && value >= 0);
}

function detail(details: unknown, name: string): number {
  return typeof details === 'object' && details !== null ? count((details as Record<string, unknown>)[name]) : 0;
}

function count(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.min(Math.floor(value), TOKENS_MAX) : 0;
}
