import type { Usage } from '#db/money.ts';
import { TOKENS_BELIEVED_MAX, UNITS_BELIEVED_MAX } from '#server/wire/bounds.ts';
import { elementsOf, membersOf, objectOf } from '#server/providers/anthropic/raw.ts';
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
};

const NAMES = {
  fresh: 'input_tokens',
  read: 'cache_read_input_tokens',
  written: 'cache_creation_input_tokens',
  output: 'output_tokens',
} as const;
const HOUR = 'ephemeral_1h_input_tokens';

/**
 * @param text a usage object, as JSON.
 * @returns null: not a usage object, or a malformed count. `implausible`: a count that no call can have.
 */
export function parseReportedUsage(text: string | undefined): ReportedUsage | 'implausible' | null {
  const members = membersOf(text ?? '');
  if (!members.has(NAMES.fresh) && !members.has(NAMES.output)) return null;
  if (Object.values(NAMES).some((name) => isMalformed(members.get(name)))) return null;
  const count = (name: string): number => countOf(members.get(name));
  const within = (object: string, name: string): number =>
    members.has(object) ? countOf(membersOf(members.get(object) as string).get(name)) : 0;
  const reported: ReportedUsage = {
    fresh: count(NAMES.fresh),
    read: count(NAMES.read),
    written: count(NAMES.written),
    writtenHour: within('cache_creation', HOUR),
    output: count(NAMES.output),
    thinking: within('output_tokens_details', 'thinking_tokens'),
    searches: within('server_tool_use', 'web_search_requests'),
  };
  addCompactions(reported, members.get('iterations'));
  const { searches, ...tokens } = reported;
  const isPossible =
    !Object.values(NAMES).some((name) => members.get(name)?.[0] === '-') &&
    Math.max(...Object.values(tokens)) <= TOKENS_BELIEVED_MAX &&
    searches <= UNITS_BELIEVED_MAX;
  if (!isPossible) return 'implausible';
  reported.thinking = Math.min(reported.thinking, reported.output);
  reported.writtenHour = Math.min(reported.writtenHour, reported.written);
  return reported;
}

/**
 * Adds what the compaction of a conversation used, which the provider charges for and leaves out of the
 * counts at the top.
 */
function addCompactions(reported: ReportedUsage, iterations: string | undefined): void {
  if (iterations === undefined) return;
  for (const iteration of elementsOf(iterations).map(membersOf)) {
    if (iteration.get('type') !== '"compaction"') continue;
    reported.fresh += countOf(iteration.get(NAMES.fresh));
    reported.read += countOf(iteration.get(NAMES.read));
    reported.written += countOf(iteration.get(NAMES.written));
    reported.writtenHour += countOf(membersOf(iteration.get('cache_creation') ?? '').get(HOUR));
    reported.output += countOf(iteration.get(NAMES.output));
  }
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
    writtenHour: most('writtenHour'),
    output: most('output'),
    thinking: most('thinking'),
    searches: most('searches'),
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

const isMalformed = (text: string | undefined): boolean =>
  text !== undefined && text !== 'null' && !/^-?\d/.test(text);

function countOf(text: string | undefined): number {
  const value = text !== undefined && /^\d/.test(text) ? Number(text) : 0;
  return value > 0 ? Math.floor(value) : 0;
}
