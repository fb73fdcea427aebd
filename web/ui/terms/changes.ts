import type { PlanTerms } from '#db/events/events.ts';
import type { Quota, Route } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { formatDollars } from '#db/money.ts';
import { quotaTitle } from '../../lib/format/limits.ts';
import { showCount } from '../../lib/format/show.ts';
import { ENFORCEMENT_NOTES } from './limit-words.ts';
import { ROUTE_NAMES, showMarkup } from './summary.ts';

/** Differences between two sets of limits. Shows exact figures, since rounding could hide a change. Pure. */
export type TermsChange = {
  what: string;
  from: string;
  to: string;
  /** Null if it is neither stricter nor looser. */ effect: 'stricter' | 'looser' | null;
};

const AMOUNTS = {
  requests_per_minute: 'Requests per minute',
  tokens_per_minute: 'Tokens per minute',
  concurrent_requests: 'Concurrent requests',
  reply_tokens_max: 'Max reply tokens',
} as const;
const LISTS = { models: 'Models', routes: 'Routes', origins: 'Origins' } as const;
const NO_LIMIT = 'no limit';

/**
 * The changes in the editor's order.
 * @param absent the meaning of an unset field: "no limit" or "plan default".
 */
export function termsChanges(before: PlanTerms, after: PlanTerms, absent: string = NO_LIMIT): TermsChange[] {
  const all = absent === NO_LIMIT ? 'all' : absent;
  /** An unset field is unlimited in a plan. In an override its effect is unknown. */
  const open = absent === NO_LIMIT;
  const lists = (Object.keys(LISTS) as (keyof typeof LISTS)[]).map((field): TermsChange => ({
    what: LISTS[field],
    from: showList(field, before[field], all),
    to: showList(field, after[field], all),
    effect: listEffect(before[field], after[field], open),
  }));
  const amounts = (Object.keys(AMOUNTS) as (keyof typeof AMOUNTS)[]).map((field): TermsChange => ({
    what: AMOUNTS[field],
    from: showAmountOf(before, field) ?? absent,
    to: showAmountOf(after, field) ?? absent,
    effect: amountEffect(before[field], after[field], open),
  }));
  const unset = open ? 'default' : absent;
  const charging: TermsChange[] = [
    {
      what: 'Mark-up',
      from: before.markup === undefined ? unset : showMarkup(before.markup),
      to: after.markup === undefined ? unset : showMarkup(after.markup),
      effect: null,
    },
    {
      what: 'Models without a price',
      from: before.unpriced_models ?? unset,
      to: after.unpriced_models ?? unset,
      effect: null,
    },
    {
      what: 'Replies for repeated requests',
      from: showKept(before.keep_replies) ?? unset,
      to: showKept(after.keep_replies) ?? unset,
      effect: null,
    },
  ];
  return [...lists, ...amounts, ...quotaChanges(before.quotas, after.quotas, absent), ...charging].filter(
    ({ from, to }) => from !== to,
  );
}

const showKept = (keeps: boolean | undefined): string | undefined =>
  keeps === undefined ? undefined : keeps ? 'kept' : 'not kept';

const showAmountOf = (terms: PlanTerms, field: keyof typeof AMOUNTS): string | undefined => {
  const amount = terms[field];
  const isObserved = (terms.observe as readonly string[] | undefined)?.includes(field) === true;
  return amount === undefined
    ? undefined
    : [showCount(amount), ...(isObserved ? ENFORCEMENT_NOTES.observe : [])].join(' ');
};
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
    return !open ? null : before === undefined ? 'stricter' : 'looser';
  const keepsAll = before.every((each) => after.includes(each));
  const addsNone = after.every((each) => before.includes(each));
  return keepsAll === addsNone ? null : keepsAll ? 'looser' : 'stricter';
}

function amountEffect(
  before: number | undefined,
  after: number | undefined,
  open: boolean,
): TermsChange['effect'] {
  if (before === after || (!open && (before === undefined || after === undefined))) return null;
  return (after ?? Infinity) > (before ?? Infinity) ? 'looser' : 'stricter';
}

function quotaChanges(
  before: readonly Quota[] | undefined,
  after: readonly Quota[] | undefined,
  absent: string,
): TermsChange[] {
  const open = absent === NO_LIMIT;
  // Quotas of an override replace all of the plan's, so setting or unsetting them is one change.
  if (!open && (before === undefined) !== (after === undefined)) {
    const show = (quotas: readonly Quota[] | undefined): string =>
      quotas === undefined
        ? absent
        : quotas.length === 0
          ? 'none'
          : quotas.map((quota) => `${quotaTitle(quota)}: ${showLimit(quota)}`).join(', ');
    return [{ what: 'Quotas', from: show(before), to: show(after), effect: null }];
  }
  const names = [...new Set([...(before ?? []), ...(after ?? [])].map(quotaTitle))];
  return names.map((name) => {
    const one = before?.find((quota) => quotaTitle(quota) === name);
    const other = after?.find((quota) => quotaTitle(quota) === name);
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
  [
    METERS[meter].format === 'nanousd' ? `$${formatDollars(limit)}` : showCount(limit),
    ...ENFORCEMENT_NOTES[enforcement],
  ].join(' ');
const enforcementEffect = (one: Quota, other: Quota): TermsChange['effect'] =>
  STRICTNESS[one.enforcement] === STRICTNESS[other.enforcement]
    ? null
    : STRICTNESS[one.enforcement] < STRICTNESS[other.enforcement]
      ? 'stricter'
      : 'looser';
const STRICTNESS: Record<Quota['enforcement'], number> = { observe: 0, soft: 1, hard: 2 };
