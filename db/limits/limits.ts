import { z } from 'zod';
import { namesByCode } from '#db/events/codes.ts';
import { type Meter, QUOTA_METERS } from '#db/limits/meters.ts';
import { type Per, PER_NAMES } from '#db/limits/subjects.ts';

/** Permissions and limits: the shapes of terms, and the limits in force. Pure. */

/**
 * The window of a limit: a minute for rates, a UTC calendar window or a lifetime for quotas, `none` for
 * concurrent requests. The numbers are stored and never change meaning.
 */
export const WINDOW_KINDS = { none: 0, minute: 1, hour: 2, day: 3, week: 4, month: 5, lifetime: 6 } as const;
export type WindowKind = keyof typeof WINDOW_KINDS;
export const WINDOW_KIND_OF = namesByCode(WINDOW_KINDS);

/** The windows of quotas. */
export const QUOTA_WINDOWS = [
  'hour',
  'day',
  'week',
  'month',
  'lifetime',
] as const satisfies readonly WindowKind[];
export type QuotaWindowKind = (typeof QUOTA_WINDOWS)[number];
const QUOTA_WINDOW_SET: ReadonlySet<WindowKind> = new Set(QUOTA_WINDOWS);
/** Whether a limit of this window is a quota: it adds up, unlike a rate or the concurrent requests. */
export const isQuotaWindow = (window: WindowKind): window is QuotaWindowKind => QUOTA_WINDOW_SET.has(window);

/**
 * `soft`: an admitted reply is never cut, and may overdraw the limit. `hard`: the limit is never exceeded.
 * `observe`: evaluated as a soft limit, but its rejections are only recorded. The numbers are stored and
 * never change meaning.
 */
export const ENFORCEMENTS = { soft: 0, hard: 1, observe: 2 } as const;
export type Enforcement = keyof typeof ENFORCEMENTS;
export const ENFORCEMENT_NAMES = Object.keys(ENFORCEMENTS) as [Enforcement, ...Enforcement[]];
export const ENFORCEMENT_OF = namesByCode(ENFORCEMENTS);

export const CHAT_COMPLETIONS = '/v1/chat/completions';
/** The routes whose calls are relayed: chat completions, and the other APIs of the same providers. */
export const RELAYED_ROUTES = [
  CHAT_COMPLETIONS,
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
  '/v1/moderations',
  '/v1/rerank',
  '/v1/images/generations',
  '/v1/images/edits',
  '/v1/images/variations',
  '/v1/audio/transcriptions',
  '/v1/audio/translations',
  '/v1/audio/speech',
] as const;
export type RelayedRoute = (typeof RELAYED_ROUTES)[number];
/** The routes of the API, as permissions. */
export const ROUTES = [
  ...RELAYED_ROUTES,
  '/v1/files',
  '/v1/batches',
  '/v1/models',
  '/v1/usage',
  '/v1/requests',
  '/v1/live',
] as const;
export type Route = (typeof ROUTES)[number];
/** The number that stands for each route in the log. Append only: a number is never reused. */
export const ROUTE_CODES = {
  '/v1/chat/completions': 1,
  '/v1/completions': 2,
  '/v1/embeddings': 3,
  '/v1/responses': 4,
  '/v1/messages': 5,
  '/v1/moderations': 6,
  '/v1/rerank': 7,
  '/v1/images/generations': 8,
  '/v1/images/edits': 9,
  '/v1/images/variations': 10,
  '/v1/audio/transcriptions': 11,
  '/v1/audio/translations': 12,
  '/v1/audio/speech': 13,
} as const satisfies Record<RelayedRoute, number>;
export const ROUTE_OF = namesByCode(ROUTE_CODES);

/** In a list of origins, calls without an Origin header: programs other than web pages. */
export const NO_ORIGIN = 'none';

/** The longest reply assumed under a soft quota without `reply_tokens_max`: longer ones are rare. */
export const REPLY_TOKENS_MAX_DEFAULT = 32_768;
/** The token limit of a reply under a hard quota where neither the call nor the terms set one. All of
 * it is reserved, and models reject a limit above their own. */
export const EXACT_REPLY_TOKENS_DEFAULT = 4_096;

const LIST_MAX = 200;
const QUOTAS_MAX = 12;
/** A model's name, with `*` for any run of characters. */
const ModelPattern = z.string().regex(/^[\x20-\x7e]{1,256}$/, 'must be a model name or a pattern with *');
const Origin = z
  .string()
  .regex(
    /^(none|https?:\/\/(\*\.)?[a-z0-9.-]+(:\d{1,5})?|https?:\/\/\[[0-9a-f:]+\](:\d{1,5})?)$/,
    'must be "none" or an origin such as https://app.example.com or https://*.example.com',
  );
const list = <T extends z.ZodType>(item: T) => z.array(item).max(LIST_MAX);

export const PermissionsShape = {
  /** Names and patterns of models; absent: all. */
  models: list(ModelPattern).optional(),
  routes: list(z.enum(ROUTES)).optional(),
  origins: list(Origin).optional(),
};

/** Addresses and networks, such as 10.0.0.0/8 or 2001:db8::/32. */
export const Networks = list(z.union([z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()]));

const Amount = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const Quota = z
  .strictObject({
    meter: z.enum(QUOTA_METERS),
    window: z.enum(QUOTA_WINDOWS),
    /** Counts each end user, session or tag apart; absent: all calls of the account or key together. */
    per: z.enum(PER_NAMES).optional(),
    limit: Amount,
    enforcement: z.enum(ENFORCEMENT_NAMES).default('soft'),
  })
  // An account is used for years: usage that never ends would only ever be reset by hand.
  .refine(({ window, per }) => window !== 'lifetime' || per !== undefined, {
    path: ['window'],
    message: `can be lifetime only with per: ${PER_NAMES.join(', ')}`,
  });
export type Quota = z.infer<typeof Quota>;

/** What identifies a quota among those of its terms. */
const nameOfQuota = ({ meter, window, per }: Pick<Quota, 'meter' | 'window' | 'per'>): string =>
  `${meter} ${window} ${per ?? ''}`;

/** The limits of terms that are one field each. */
export const RATE_FIELDS = ['requests_per_minute', 'tokens_per_minute', 'concurrent_requests'] as const;
export type RateField = (typeof RATE_FIELDS)[number];

export const LimitsShape = {
  requests_per_minute: Amount.optional(),
  tokens_per_minute: Amount.optional(),
  concurrent_requests: Amount.max(10_000).optional(),
  /** Those of the three above that are observed; see {@link Enforcement}. */
  observe: z.array(z.enum(RATE_FIELDS)).max(RATE_FIELDS.length).optional(),
  quotas: z
    .array(Quota)
    .max(QUOTAS_MAX)
    .refine(
      (quotas) => new Set(quotas.map(nameOfQuota)).size === quotas.length,
      'names a meter and window twice',
    )
    .optional(),
  /** The longest reply under a token or cost quota: the limit sent to the upstream. */
  reply_tokens_max: z.int().min(1).max(10_000_000).optional(),
};

/** Terms of an account whose calls are paid in advance. */
export const PrepaidShape = {
  /** Cost is limited to the sum of the top-ups, over the account's lifetime and as a hard limit. */
  prepaid: z.boolean().optional(),
};

/** Terms of an account whose requests are sent with idempotency keys. */
export const IdempotencyShape = {
  /** Replies are kept for a day, sealed, and repeated to requests with the same key. */
  keep_replies: z.boolean().optional(),
};

/** One limit in force. */
export type Limit = {
  meter: Meter;
  window: WindowKind;
  cap: number;
  enforcement: Enforcement;
  /** The position of the control event that last reset its windows; 0 if none did. */
  reset: number;
};

/** Whether a limit can reject calls. */
export const isEnforced = ({ enforcement }: Pick<Limit, 'enforcement'>): boolean => enforcement !== 'observe';

/** A limit of terms: of their holder, or of each of its end users, sessions or tags. */
export type TermsLimit = Limit & { per: Per | null };

/** The limits of one subject in force. `limits` is a new array whenever they change. */
export type SubjectLimits = {
  /** Its name; see db/limits/subjects.ts. */
  subject: string;
  limits: readonly Limit[];
  /** The position of the newest control event that they come from. */
  position: number;
  /** The longest reply in tokens under a token or cost quota; null where the terms set none. */
  replyTokensMax: number | null;
};

type LimitTerms = { [Field in RateField]?: number | undefined } & {
  observe?: readonly RateField[] | undefined;
  quotas?: readonly Quota[] | undefined;
  /** The sum of the top-ups of a prepaid account. */
  topped_up_nanousd?: number | undefined;
};

/**
 * The limits of terms that count all calls of their holder together.
 * @param reset the position of the control event that last reset the windows.
 */
export function limitsOf(terms: LimitTerms, reset: number): Limit[] {
  return termsLimits(terms, reset).flatMap(({ per, ...limit }) => (per === null ? [limit] : []));
}

/** The limits of terms that count each subject of a kind apart. */
export function limitsPer(terms: LimitTerms, reset: number, kind: Per): Limit[] {
  return termsLimits(terms, reset).flatMap(({ per, ...limit }) => (per === kind ? [limit] : []));
}

/** All limits of terms. */
export function termsLimits(terms: LimitTerms, reset: number): TermsLimit[] {
  const rate = (meter: Meter, window: WindowKind, field: RateField): TermsLimit[] => {
    const cap = terms[field];
    if (cap === undefined) return [];
    const enforcement = terms.observe?.includes(field) ? 'observe' : 'soft';
    return [{ meter, window, cap, enforcement, reset: window === 'none' ? 0 : reset, per: null }];
  };
  const prepaid = terms.topped_up_nanousd;
  return [
    // Its windows are never reset: money that was spent stays spent.
    ...(prepaid === undefined
      ? []
      : [
          {
            meter: 'cost_nanousd' as const,
            window: 'lifetime' as const,
            cap: prepaid,
            enforcement: 'hard' as const,
            reset: 0,
            per: null,
          },
        ]),
    ...rate('concurrent', 'none', 'concurrent_requests'),
    ...rate('requests', 'minute', 'requests_per_minute'),
    ...rate('tokens', 'minute', 'tokens_per_minute'),
    ...(terms.quotas ?? []).map(({ meter, window, per = null, limit, enforcement }) => ({
      meter,
      window,
      cap: limit,
      enforcement,
      reset,
      per,
    })),
  ];
}
