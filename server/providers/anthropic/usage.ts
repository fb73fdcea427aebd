import type { Usage } from '#db/money.ts';
import { TOKENS_BELIEVED_MAX } from '#server/wire/bounds.ts';
import { membersOf, objectOf } from '#server/providers/anthropic/raw.ts';
import type { PromptUsage } from '#server/wire/sse.ts';

/**
 * The usage that Anthropic reports, in tokens. It counts tokens read from a cache and
 * written to one beside the rest of the prompt, where the convention has them within it. Pure.
 */
export type ReportedUsage = {
  fresh: number;
  read: number;
  written: number;
  output: number;
  thinking: number;
};

const NAMES = {
  fresh: 'input_tokens',
  read: 'cache_read_input_tokens',
  written: 'cache_creation_input_tokens',
  output: 'output_tokens',
} as const;

/**
 * @param text a usage object, as JSON.
 * @returns null: not a usage object, or a count that is malformed or above the bound.
 */
export function parseReportedUsage(text: string | undefined): ReportedUsage | null {
  const members = membersOf(text ?? '');
  if (!members.has(NAMES.fresh) && !members.has(NAMES.output)) return null;
  if (Object.values(NAMES).some((name) => isAbsurd(members.get(name)))) return null;
  const count = (name: string): number => countOf(members.get(name));
  const thinking = countOf(membersOf(members.get('output_tokens_details') ?? '').get('thinking_tokens'));
  if (thinking > TOKENS_BELIEVED_MAX) return null;
  const output = count(NAMES.output);
  return {
    fresh: count(NAMES.fresh),
    read: count(NAMES.read),
    written: count(NAMES.written),
    output,
    thinking: Math.min(thinking, output),
  };
}

/** Whether a report says how much the model has written. */
export function reportsOutput(text: string | undefined): boolean {
  return (membersOf(text ?? '').get(NAMES.output) ?? 'null') !== 'null';
}

/** Counts only grow during a reply, and each report may omit a count that an earlier one had. */
export function mergeReported(before: ReportedUsage | null, now: ReportedUsage | null): ReportedUsage | null {
  if (!before || !now) return now ?? before;
  const most = (name: keyof ReportedUsage): number => Math.max(before[name], now[name]);
  return {
    fresh: most('fresh'),
    read: most('read'),
    written: most('written'),
    output: most('output'),
    thinking: most('thinking'),
  };
}

export function usageOf(reported: ReportedUsage): Usage {
  const input = reported.fresh + reported.read + reported.written;
  return {
    input,
    cached: Math.min(reported.read, input),
    output: reported.output,
    reasoning: reported.thinking,
  };
}

/** The usage of the prompt alone, where the beginning of a reply reports it. */
export function promptUsageOf(reported: ReportedUsage | null): PromptUsage | null {
  if (!reported) return null;
  const { input, cached } = usageOf(reported);
  return input > 0 ? { input, cached } : null;
}

/** The same in the convention's words, as JSON. */
export function usageJson(reported: ReportedUsage): string {
  const { input, cached, output, reasoning } = usageOf(reported);
  const written = reported.written > 0 ? String(reported.written) : null;
  return objectOf({
    prompt_tokens: String(input),
    completion_tokens: String(output),
    total_tokens: String(input + output),
    prompt_tokens_details: objectOf({ cached_tokens: String(cached), cache_write_tokens: written }),
    completion_tokens_details: reasoning > 0 ? objectOf({ reasoning_tokens: String(reasoning) }) : null,
  });
}

function isAbsurd(text: string | undefined): boolean {
  return text !== undefined && text !== 'null' && !(/^\d/.test(text) && Number(text) <= TOKENS_BELIEVED_MAX);
}

function countOf(text: string | undefined): number {
  const value = text !== undefined && /^\d/.test(text) ? Number(text) : 0;
  return value > 0 ? Math.floor(value) : 0;
}
