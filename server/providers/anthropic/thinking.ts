import { membersOf } from '#server/wire/raw-json.ts';

/**
 * How hard the model is to think, which Anthropic accepts in one of two forms. Its models up to 4.5, and
 * compatible models of others, take a budget in tokens; all of its newer ones take a level of
 * effort and decide for themselves, and refuse budgets as well as a temperature of the client's. The
 * models that came before that are a closed list; an unknown Claude is a newer one. Pure.
 */

const CLAUDE = /claude/i;
const WITH_BUDGET =
  /claude-(?:instant|(?:(?:opus|sonnet|haiku)-)?(?:[123](?!\d)|4(?!\d)(?![.-][6-9](?!\d))))/i;
const WITH_SAMPLING =
  /claude-(?:instant|(?:(?:opus|sonnet|haiku)-)?(?:[123](?!\d)|4(?!\d)(?![.-][7-9](?!\d))))/i;

/** The convention's levels in those of Anthropic. */
const EFFORTS: Record<string, string> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
};
/** The same as a budget in tokens, for models that take one. */
const BUDGETS_TOKENS: Record<string, number> = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 24_576,
  max: 24_576,
};
/** Anthropic takes no smaller budget. */
const BUDGET_LEAST_TOKENS = 1_024;
/** Of the limit on a reply at most this share is for thought, so that something is left to say. */
const BUDGET_SHARE = 0.8;

/** Whether a model lets a client set temperature, `top_p` and `top_k`. */
export function takesSampling(model: string): boolean {
  return !CLAUDE.test(model) || WITH_SAMPLING.test(model);
}

export type Thinking = {
  /** The member `thinking` as JSON; null leaves it to the model. */
  thinking: string | null;
  /** A level of effort, as JSON. */
  effort: string | null;
  /** Whether a budget is set, with which neither sampling nor a forced tool can be asked for. */
  withBudget: boolean;
  unsupported: string[];
};

/**
 * @param members the client's request. `thinking` goes out as it is, with a smaller budget where the limit
 *   on the reply requires it; else `reasoning_effort`, or `reasoning.effort`, sets the effort.
 * @param mayNotBudget whether this call can't have a budget, since a tool is forced or thoughts were not sent
 * back.
 */
export function thinkingOf(
  members: ReadonlyMap<string, string>,
  model: string,
  maxTokens: number,
  mayNotBudget: boolean,
): Thinking {
  const own = members.get('thinking');
  const { name, level } = levelOf(members);
  const budgets = !CLAUDE.test(model) || WITH_BUDGET.test(model);
  const result: Thinking = { thinking: null, effort: null, withBudget: false, unsupported: [] };
  if (own?.[0] === '{') Object.assign(result, ownThinking(own, maxTokens));
  if (level === null) return result;
  const effort = EFFORTS[level];
  if (effort === undefined && level !== 'none')
    return { ...result, unsupported: [...result.unsupported, name] };
  if (effort !== undefined && !budgets) result.effort = `"${effort}"`;
  if (own?.[0] === '{') return budgets ? { ...result, unsupported: [...result.unsupported, name] } : result;
  if (!budgets)
    return { ...result, thinking: effort === undefined ? '{"type":"disabled"}' : '{"type":"adaptive"}' };
  if (effort === undefined) return result;
  const budget = Math.min(BUDGETS_TOKENS[level] as number, Math.floor(maxTokens * BUDGET_SHARE));
  if (mayNotBudget || budget < BUDGET_LEAST_TOKENS) return { ...result, unsupported: [name] };
  return { ...result, thinking: `{"type":"enabled","budget_tokens":${budget}}`, withBudget: true };
}

function levelOf(members: ReadonlyMap<string, string>): { name: string; level: string | null } {
  const plain = members.get('reasoning_effort');
  const text = plain?.[0] === '"' ? plain : membersOf(members.get('reasoning') ?? '{}').get('effort');
  const name = plain?.[0] === '"' ? 'reasoning_effort' : 'reasoning';
  return { name, level: text?.[0] === '"' ? (JSON.parse(text) as string) : null };
}

/** What the client itself asks for in Anthropic's words. A budget has to be below the limit on the reply. */
function ownThinking(own: string, maxTokens: number): Partial<Thinking> {
  const budget = Number(membersOf(own).get('budget_tokens') ?? Number.NaN);
  if (!(budget >= maxTokens)) return { thinking: own, withBudget: budget > 0 };
  const fitting = Math.floor(maxTokens * BUDGET_SHARE);
  if (fitting < BUDGET_LEAST_TOKENS) return { unsupported: ['thinking'] };
  return { thinking: `{"type":"enabled","budget_tokens":${fitting}}`, withBudget: true };
}
