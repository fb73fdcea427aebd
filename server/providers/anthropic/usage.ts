import type { Usage } from '#db/money.ts';
import { TOKENS_BELIEVED_MAX, UNITS_BELIEVED_MAX } from '#server/wire/bounds.ts';
import { asRecord, count, detail } from '#server/wire/counts.ts';
import { providerText } from '#server/wire/reply-facts.ts';
import { objectOf } from '#server/wire/raw-json.ts';
import type { PromptUsage } from '#server/wire/sse.ts';

/**
 * The usage that Anthropic reports, in tokens. It counts tokens read from a cache and written to one beside
 * the rest of the prompt, where the convention has them within it. Pure.
 */
export type ReportedUsage = {
  fresh: number;
  read: number;
  written: number;
  /** The part of `written` that is kept for an hour. */
  writtenHour: number;
  output: number;
  thinking: number;
  /** Searches of the web by the provider's own tool, for each of which it charges. */
  searches: number;
  /** Whether the report says how much the model has written. */
  reportsOutput: boolean;
  /** The service tier; null: not stated. */
  tier: string | null;
};

const NAMES = {
  fresh: 'input_tokens',
  read: 'cache_read_input_tokens',
  written: 'cache_creation_input_tokens',
  output: 'output_tokens',
} as const;

/**
 * @param text a usage object, as JSON.
 * @returns null: not a usage object, or a malformed count. `implausible`: a count that no call can have.
 */
export function parseReportedUsage(text: string | undefined): ReportedUsage | 'implausible' | null {
  const usage = text === undefined ? null : asRecord(JSON.parse(text));
  if (!usage || !(NAMES.fresh in usage || NAMES.output in usage)) return null;
  const { fresh, read, written, output } = NAMES;
  for (const name of [fresh, read, written, output]) {
    if (typeof (usage[name] ?? 0) !== 'number') return null;
    if ((usage[name] as number) < 0) return 'implausible';
  }
  const reported: ReportedUsage = {
    fresh: 0,
    read: 0,
    written: 0,
    writtenHour: 0,
    output: 0,
    thinking: detail(usage['output_tokens_details'], 'thinking_tokens'),
    searches: detail(usage['server_tool_use'], 'web_search_requests'),
    reportsOutput: typeof usage[output] === 'number',
    tier: providerText(usage['service_tier']),
  };
  addCounts(reported, usage);
  addCompactions(reported, usage['iterations']);
  if (!isPossible(reported)) return 'implausible';
  reported.thinking = Math.min(reported.thinking, reported.output);
  return reported;
}

const isPossible = ({ fresh, read, written, output, thinking, searches }: ReportedUsage): boolean =>
  Math.max(fresh, read, written, output, thinking) <= TOKENS_BELIEVED_MAX && searches <= UNITS_BELIEVED_MAX;

function addCounts(reported: ReportedUsage, usage: Record<string, unknown>): void {
  const creation = usage['cache_creation'];
  const hour = detail(creation, 'ephemeral_1h_input_tokens');
  const written = count(usage[NAMES.written]) || hour + detail(creation, 'ephemeral_5m_input_tokens');
  reported.fresh += count(usage[NAMES.fresh]);
  reported.read += count(usage[NAMES.read]);
  reported.written += written;
  reported.writtenHour += Math.min(hour, written);
  reported.output += count(usage[NAMES.output]);
}

/**
 * Adds what the compaction of a conversation used, which the provider charges for and leaves out of the
 * counts at the top.
 */
function addCompactions(reported: ReportedUsage, iterations: unknown): void {
  if (!Array.isArray(iterations)) return;
  for (const iteration of iterations.map(asRecord))
    if (iteration?.['type'] === 'compaction') addCounts(reported, iteration);
}

/** Counts only grow during a reply, and each report may omit a count that an earlier one had. */
export function mergeReported(before: ReportedUsage | null, now: ReportedUsage | null): ReportedUsage | null {
  if (!before || !now) return now ?? before;
  const most = (name: keyof Omit<ReportedUsage, 'reportsOutput' | 'tier'>): number =>
    Math.max(before[name], now[name]);
  return {
    fresh: most('fresh'),
    read: most('read'),
    written: most('written'),
    writtenHour: most('writtenHour'),
    output: most('output'),
    thinking: most('thinking'),
    searches: most('searches'),
    reportsOutput: before.reportsOutput || now.reportsOutput,
    tier: now.tier ?? before.tier,
  };
}

export function usageOf(reported: ReportedUsage): Usage {
  const input = reported.fresh + reported.read + reported.written;
  const usage: Usage = {
    input,
    cached: reported.read,
    output: reported.output,
    reasoning: reported.thinking,
  };
  if (reported.written > 0) usage.cacheWrite = reported.written;
  if (reported.writtenHour + reported.searches > 0) {
    usage.details = {};
    if (reported.writtenHour > 0) usage.details.cache_write_1h_tokens = reported.writtenHour;
    if (reported.searches > 0) usage.details.web_searches = reported.searches;
  }
  return usage;
}

/** The usage of the prompt alone, where the beginning of a reply reports it. */
export function promptUsageOf(reported: ReportedUsage | null): PromptUsage | null {
  if (!reported) return null;
  const { output: _output, reasoning: _reasoning, ...prompt } = usageOf(reported);
  return prompt.input > 0 ? prompt : null;
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
