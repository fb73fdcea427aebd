import type { KeyTerms } from '#db/events/events.ts';
import type { Quota, Route } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { showAmount, WINDOW_WORDS } from '../../lib/limit-words.ts';
import { showCount, showCounted, showShort } from '../../lib/show.ts';

/** What terms amount to, in words. Pure. */

/**
 * Whose terms they are, and so what a field that is absent means: no limit, all that the account may use, or
 * what the plan says.
 */
export type TermsKind = 'plan' | 'key' | 'override';

/** What the routes of the API are for. */
export const ROUTE_NAMES = {
  '/v1/chat/completions': 'Chat completions',
  '/v1/completions': 'Text completions',
  '/v1/embeddings': 'Embeddings',
  '/v1/responses': 'Responses',
  '/v1/messages': 'Messages',
  '/v1/models': 'List of models',
  '/v1/usage': 'Usage and limits',
  '/v1/requests': 'Requests',
  '/v1/live': 'Live feed',
} as const satisfies Record<Route, string>;

/** An amount with its unit: "1.2M tokens", "$5.00". */
const showLimit = ({ meter, limit }: Quota): string =>
  showAmount(meter, limit, (amount) => `${showShort(amount)} ${METERS[meter].units[amount === 1 ? 0 : 1]}`);

/** "1.2M tokens a day", "$5.00 a month, never above". */
const showQuota = (quota: Quota): string =>
  `${showLimit(quota)} ${WINDOW_WORDS[quota.window]}${quota.enforcement === 'hard' ? ', never above' : ''}`;

/** "a, b and c". */
const join = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

const NAMED_MAX = 4;
/** The names themselves while they are few. */
const named = (names: readonly string[], what: string): string =>
  names.length > NAMED_MAX ? `${names.length} ${what}` : join(names);

const limited = (
  what: string,
  names: readonly string[] | undefined,
  none: string,
  some: (names: readonly string[]) => string,
): string[] => (names === undefined ? [] : [names.length === 0 ? `No ${what}: ${none}.` : `${some(names)}.`]);

const NOTHING: Record<TermsKind, string> = {
  plan: 'Everything, without a limit.',
  key: 'All that its account may use, within the account’s limits.',
  override: 'As in the plan.',
};

/** Terms in a line or two of plain English. */
export function describeTerms(terms: KeyTerms, kind: TermsKind): string {
  const {
    models,
    routes,
    origins,
    networks,
    requests_per_minute,
    tokens_per_minute,
    concurrent_requests,
    quotas,
    reply_tokens_max,
    reads,
  } = terms;
  const rates = [
    ...(requests_per_minute === undefined ? [] : [`${showCount(requests_per_minute)} requests a minute`]),
    ...(tokens_per_minute === undefined ? [] : [`${showShort(tokens_per_minute)} tokens a minute`]),
    ...(concurrent_requests === undefined ? [] : [`${showCount(concurrent_requests)} at once`]),
  ];
  const parts = [
    ...limited(
      'models',
      models,
      'every call of a model is refused',
      (names) => `Models: ${named(names, 'names and patterns')}`,
    ),
    ...limited(
      'routes',
      routes,
      'every call is refused',
      (names) =>
        `Routes: ${named(
          (names as Route[]).map((route) => ROUTE_NAMES[route]),
          'routes',
        )}`,
    ),
    ...limited('origins', origins, 'every call is refused', describeOrigins),
    ...limited('networks', networks, 'every call is refused', (names) => `From ${named(names, 'networks')}`),
    ...(rates.length === 0 ? [] : [`At most ${join(rates)}.`]),
    ...(quotas === undefined
      ? []
      : quotas.length === 0
        ? kind === 'override'
          ? ['No quotas.']
          : []
        : [`Up to ${join(quotas.map(showQuota))}.`]),
    ...(reply_tokens_max === undefined
      ? []
      : [`Replies of at most ${showCount(reply_tokens_max)} tokens under a quota.`]),
    ...(reads === 'account' ? ['Reads the usage and requests of its whole account.'] : []),
  ];
  return parts.length === 0 ? NOTHING[kind] : parts.join(' ');
}

function describeOrigins(origins: readonly string[]): string {
  const pages = origins.filter((each) => each !== 'none');
  if (pages.length === 0) return 'Programs only, no web pages';
  return `Web pages of ${named(pages, 'origins')}${origins.includes('none') ? ', and programs' : ''}`;
}

/** The same at a glance, for a row of a list. */
export function glanceAtTerms({
  models,
  routes,
  origins,
  networks,
  requests_per_minute,
  tokens_per_minute,
  concurrent_requests,
  quotas,
}: KeyTerms): string[] {
  const count = (list: readonly unknown[] | undefined, one: string): string[] =>
    list === undefined ? [] : [showCounted(list.length, one)];
  return [
    ...(models?.length === 1 ? [models[0] ?? ''] : count(models, 'model')),
    ...count(routes, 'route'),
    ...count(origins, 'origin'),
    ...count(networks, 'network'),
    ...(requests_per_minute === undefined ? [] : [`${showShort(requests_per_minute)} requests/min`]),
    ...(tokens_per_minute === undefined ? [] : [`${showShort(tokens_per_minute)} tokens/min`]),
    ...(concurrent_requests === undefined ? [] : [`${showShort(concurrent_requests)} at once`]),
    ...(quotas ?? []).map((quota) => `${showLimit(quota)}/${quota.window}`),
  ];
}
