import type { KeyTerms, PlanTerms } from '#db/events/events.ts';
import type { Quota, Route } from '#db/limits/limits.ts';
import { PER } from '#db/limits/subjects.ts';
import { showCount, showShort } from '../../lib/format/show.ts';
import { ENFORCEMENT_NOTES, noted, showLimit } from './limit-words.ts';

/** Summaries of limits in words. Pure. */

/**
 * The owner, which determines the meaning of unset fields: no limit, the account's limits, or the plan's.
 */
export type TermsKind = 'plan' | 'key' | 'override';

/** Display names of API routes. */
export const ROUTE_NAMES = {
  '/v1/chat/completions': 'Chat completions',
  '/v1/completions': 'Text completions',
  '/v1/embeddings': 'Embeddings',
  '/v1/responses': 'Responses',
  '/v1/messages': 'Messages',
  '/v1/moderations': 'Moderations',
  '/v1/rerank': 'Rerank',
  '/v1/images/generations': 'Image generation',
  '/v1/images/edits': 'Image edits',
  '/v1/images/variations': 'Image variations',
  '/v1/audio/transcriptions': 'Transcriptions',
  '/v1/audio/translations': 'Audio translations',
  '/v1/audio/speech': 'Speech',
  '/v1/files': 'Files',
  '/v1/batches': 'Batches',
  '/v1/models': 'Model list',
  '/v1/usage': 'Usage and limits',
  '/v1/requests': 'Requests',
  '/v1/live': 'Live feed',
} as const satisfies Record<Route, string>;

/** "1.2M tokens per day", "$5.00 per month for each end user (hard limit)". */
const showQuota = (quota: Quota): string =>
  [
    showLimit(quota),
    ...(quota.window === 'lifetime' ? ['in its lifetime'] : [`per ${quota.window}`]),
    ...(quota.per === undefined ? [] : [`for each ${PER[quota.per].names[0]}`]),
    ...ENFORCEMENT_NOTES[quota.enforcement],
  ].join(' ');

/** "a, b and c". */
const join = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

const NAMED_MAX = 4;
/** The names, or their number if there are many. */
const named = (names: readonly string[], what: string): string =>
  names.length > NAMED_MAX ? `${names.length} ${what}` : join(names);

const limited = (
  what: string,
  names: readonly string[] | undefined,
  none: string,
  some: (names: readonly string[]) => string,
): string[] => (names === undefined ? [] : [names.length === 0 ? `No ${what}: ${none}.` : `${some(names)}.`]);

const NOTHING: Record<TermsKind, string> = {
  plan: 'Unlimited.',
  key: 'No restrictions beyond the account’s limits.',
  override: 'Same as the plan.',
};

/** A mark-up in percent: `20%`, `-5.5%`. */
export const showMarkup = (basisPoints: number): string => `${basisPoints / 100}%`;

/** A summary in one or two lines. */
export function describeTerms(terms: KeyTerms & PlanTerms, kind: TermsKind): string {
  const {
    models,
    routes,
    origins,
    networks,
    requests_per_minute,
    tokens_per_minute,
    concurrent_requests,
    observe = [],
    quotas,
    reply_tokens_max,
    reads,
    markup,
    unpriced_models,
    attribution,
  } = terms;
  const rates = [
    ...(requests_per_minute === undefined
      ? []
      : [`${showCount(requests_per_minute)} requests per minute${noted('requests_per_minute', observe)}`]),
    ...(tokens_per_minute === undefined
      ? []
      : [`${showShort(tokens_per_minute)} tokens per minute${noted('tokens_per_minute', observe)}`]),
    ...(concurrent_requests === undefined
      ? []
      : [`${showCount(concurrent_requests)} concurrent requests${noted('concurrent_requests', observe)}`]),
  ];
  const parts = [
    ...limited(
      'models',
      models,
      'all model requests are rejected',
      (names) => `Models: ${named(names, 'models')}`,
    ),
    ...limited(
      'routes',
      routes,
      'all requests are rejected',
      (names) =>
        `Routes: ${named(
          (names as Route[]).map((route) => ROUTE_NAMES[route]),
          'routes',
        )}`,
    ),
    ...limited('origins', origins, 'all requests are rejected', describeOrigins),
    ...limited(
      'networks',
      networks,
      'all requests are rejected',
      (names) => `Networks: ${named(names, 'networks')}`,
    ),
    ...(rates.length === 0 ? [] : [`Up to ${join(rates)}.`]),
    ...(quotas === undefined
      ? []
      : quotas.length === 0
        ? kind === 'override'
          ? ['No quotas.']
          : []
        : [`Quotas: ${join(quotas.map(showQuota))}.`]),
    ...(reply_tokens_max === undefined ? [] : [`Replies up to ${showCount(reply_tokens_max)} tokens.`]),
    ...(markup === undefined ? [] : [`${showMarkup(markup)} on top of the cost.`]),
    ...(unpriced_models === 'free' ? ['Models without a price count as 0.'] : []),
    ...('prepaid' in terms && terms.prepaid === true ? ['Prepaid.'] : []),
    ...('keep_replies' in terms && terms.keep_replies === true ? ['Replies are kept for repeats.'] : []),
    ...(reads === 'account' ? ['Read access to the whole account.'] : []),
    ...describeAttribution(attribution),
  ];
  return parts.length === 0 ? NOTHING[kind] : parts.join(' ');
}

const ATTRIBUTED = { end_user: 'end user', session: 'session', tags: 'tags' } as const;

function describeAttribution(terms: KeyTerms['attribution'] = {}): string[] {
  const kindsWith = (isMeant: (term: unknown) => boolean): string[] =>
    (['end_user', 'session', 'tags'] as const)
      .filter((kind) => isMeant(terms[kind]))
      .map((kind) => ATTRIBUTED[kind]);
  const required = kindsWith((term) => term === 'required');
  const fixed = kindsWith((term) => typeof term === 'object');
  return [
    ...(required.length === 0 ? [] : [`Required attribution: ${join(required)}.`]),
    ...(fixed.length === 0 ? [] : [`Fixed attribution: ${join(fixed)}.`]),
  ];
}

function describeOrigins(origins: readonly string[]): string {
  const pages = origins.filter((each) => each !== 'none');
  if (pages.length === 0) return 'No browser origins';
  return `Origins: ${named(pages, 'origins')}${origins.includes('none') ? ' and non-browser clients' : ''}`;
}
