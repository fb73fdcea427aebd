import type { PlanTerms } from '#db/events/events.ts';
import type { Quota, Route } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { formatDollars } from '#db/money.ts';
import { limitName, limitTitle } from '../../lib/limit-words.ts';
import { showCount } from '../../lib/show.ts';
import { ROUTE_NAMES } from './summary.ts';

/**
 * What is different between two terms, to be looked at before it is done. Exact figures, since a rounded one
 * hides a change. Pure.
 */
export type TermsChange = {
  what: string;
  from: string;
  to: string;
  /** Null: neither more nor less, but other. */ effect: 'tighter' | 'looser' | null;
};

const AMOUNTS = {
  requests_per_minute: 'Requests a minute',
  tokens_per_minute: 'Tokens a minute',
  concurrent_requests: 'Requests at once',
  reply_tokens_max: 'Longest reply in tokens',
} as const;
const LISTS = { models: 'Models', routes: 'Routes', origins: 'Origins' } as const;
const NO_LIMIT = 'no limit';

/**
 * What changes from one to the other, in the order of the editor.
 * @param absent what a field that is not there means: "no limit", or "as in the plan".
 */
export function termsChanges(before: PlanTerms, after: PlanTerms, absent: string = NO_LIMIT): TermsChange[] {
  const all = absent === NO_LIMIT ? 'all' : absent;
  /** What is absent is wide open in a plan; in place of a plan's it may be either. */
  const open = absent === NO_LIMIT;
  const lists = (Object.keys(LISTS) as (keyof typeof LISTS)[]).map((field): TermsChange => ({
    what: LISTS[field],
    from: showList(field, before[field], all),
    to: showList(field, after[field], all),
    effect: listEffect(before[field], after[field], open),
  }));
  const amounts = (Object.keys(AMOUNTS) as (keyof typeof AMOUNTS)[]).map((field): TermsChange => ({
    what: AMOUNTS[field],
    from: before[field] === undefined ? absent : showCount(before[field]),
    to: after[field] === undefined ? absent : showCount(after[field]),
    effect: amountEffect(before[field], after[field], open),
  }));
  return [...lists, ...amounts, ...quotaChanges(before.quotas, after.quotas, absent)].filter(
    ({ from, to }) => from !== to,
  );
}

const showList = (field: keyof typeof LISTS, list: readonly string[] | undefined, all: string): string =>
  list === undefined
    ? all
    : list.length === 0
      ? 'none'
      : list.map((each) => (field === 'routes' ? ROUTE_NAMES[each as Route] : each)).join(', ');

function listEffect(
  before: readonly string[] | undefined,
  after: readonly string[] | undefined,
  open: boolean,
): TermsChange['effect'] {
  if (before === undefined || after === undefined)
    return !open ? null : before === undefined ? 'tighter' : 'looser';
  const keepsAll = before.every((each) => after.includes(each));
  const addsNone = after.every((each) => before.includes(each));
  return keepsAll === addsNone ? null : keepsAll ? 'looser' : 'tighter';
}

function amountEffect(
  before: number | undefined,
  after: number | undefined,
  open: boolean,
): TermsChange['effect'] {
  if (before === after || (!open && (before === undefined || after === undefined))) return null;
  return (after ?? Infinity) > (before ?? Infinity) ? 'looser' : 'tighter';
}

function quotaChanges(
  before: readonly Quota[] | undefined,
  after: readonly Quota[] | undefined,
  absent: string,
): TermsChange[] {
  const open = absent === NO_LIMIT;
  // Own quotas stand in place of all of a plan's: beginning or ending to have them is a change by itself.
  if (!open && (before === undefined) !== (after === undefined)) {
    const show = (quotas: readonly Quota[] | undefined): string =>
      quotas === undefined
        ? absent
        : quotas.length === 0
          ? 'none'
          : quotas.map((quota) => `${showLimit(quota)} ${limitName(quota)}`).join(', ');
    return [{ what: 'Quotas', from: show(before), to: show(after), effect: null }];
  }
  const names = [...new Set([...(before ?? []), ...(after ?? [])].map(limitTitle))];
  return names.map((name) => {
    const one = before?.find((quota) => limitTitle(quota) === name);
    const other = after?.find((quota) => limitTitle(quota) === name);
    return {
      what: name,
      from: one ? showLimit(one) : NO_LIMIT,
      to: other ? showLimit(other) : NO_LIMIT,
      effect:
        amountEffect(one?.limit, other?.limit, true) ?? (one && other ? enforcementEffect(one, other) : null),
    };
  });
}

const showLimit = ({ meter, limit, enforcement }: Quota): string =>
  `${METERS[meter].format === 'microusd' ? `$${formatDollars(limit)}` : showCount(limit)}${enforcement === 'hard' ? ', never above' : ''}`;
const enforcementEffect = (one: Quota, other: Quota): TermsChange['effect'] =>
  one.enforcement === other.enforcement ? null : other.enforcement === 'hard' ? 'tighter' : 'looser';
