import type { Conversation, ReportLoss } from '#server/protocols/conversation.ts';

/** How much a model of Gemini's thinks, and settings that it lacks. Pure. */

/** Models that take a number of tokens in place of a level. */
const WITH_BUDGET = /gemini-2\.5/;
/** The budgets by which Google's own endpoint for OpenAI's clients reads levels. */
const BUDGETS_TOKENS: Readonly<Record<string, number>> = {
  none: 0,
  minimal: 1_024,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
};
const LEVELS: Readonly<Record<string, string>> = {
  none: 'MINIMAL',
  minimal: 'MINIMAL',
  low: 'LOW',
  medium: 'MEDIUM',
};

/** @param effort a level in the words of OpenAI, whose highest ones are Gemini's highest. */
export function thinkingOf(effort: string | null, model: string): object | null {
  if (effort === null) return null;
  const isShown = effort !== 'none';
  if (WITH_BUDGET.test(model))
    return {
      thinkingBudget: BUDGETS_TOKENS[effort] ?? BUDGETS_TOKENS['high'],
      ...(isShown && { includeThoughts: true }),
    };
  return { thinkingLevel: LEVELS[effort] ?? 'HIGH', ...(isShown && { includeThoughts: true }) };
}

/** Reports settings without a member there. */
export function parallelOf({ parallelToolCalls, tools }: Conversation, report: ReportLoss): void {
  if (parallelToolCalls === false) report('parallel_tool_calls');
  if (tools.some((tool) => tool.kind === 'function' && tool.strict)) report('tools.strict');
}
