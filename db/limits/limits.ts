import { z } from 'zod';
import { namesByCode } from '#db/events/codes.ts';
import { type Meter, QUOTA_METERS } from '#db/limits/meters.ts';

/**
 * What a plan, an account or a key may be allowed: the shapes of permissions and limits. Pure.
 */

/**
 * Over what time it counts: minutes for rates, UTC calendar windows for quotas, `none` for what runs at once.
 */
export const WINDOW_KINDS = { none: 0, minute: 1, hour: 2, day: 3, week: 4, month: 5 } as const;
export type WindowKind = keyof typeof WINDOW_KINDS;
export const WINDOW_KIND_OF = namesByCode(WINDOW_KINDS);

/**
 * `soft`: an admitted reply is never cut, and may overdraw. `hard`: never a unit above the limit.
 */
export type Enforcement = 'soft' | 'hard';

export const CHAT_COMPLETIONS = '/v1/chat/completions';
/** The routes whose calls are relayed: the convention, and what else clients of the same providers speak. */
export const RELAYED_ROUTES = [
  CHAT_COMPLETIONS,
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
] as const;
export type RelayedRoute = (typeof RELAYED_ROUTES)[number];
/** The routes of the API, as permissions. */
export const ROUTES = [...RELAYED_ROUTES, '/v1/models', '/v1/usage', '/v1/requests', '/v1/live'] as const;
export type Route = (typeof ROUTES)[number];

/** Stands in a list of origins for calls without an Origin header: programs that are no web page. */
export const NO_ORIGIN = 'none';

/** How far a reply may overdraw a soft quota where the terms don't say: longer ones are rare. */
export const REPLY_TOKENS_MAX_DEFAULT = 32_768;
/** What a reply under a hard quota is asked to stop at where neither the call nor the terms say: it is
 * held whole, and models refuse to be asked for more than they can. */
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
const Quota = z.strictObject({
  meter: z.enum(QUOTA_METERS),
  window: z.enum(['hour', 'day', 'week', 'month']),
  limit: Amount,
  enforcement: z.enum(['soft', 'hard']).default('soft'),
});
export type Quota = z.infer<typeof Quota>;

export const LimitsShape = {
  requests_per_minute: Amount.optional(),
  tokens_per_minute: Amount.optional(),
  concurrent_requests: Amount.max(10_000).optional(),
  quotas: z
    .array(Quota)
    .max(QUOTAS_MAX)
    .refine(
      (quotas) => new Set(quotas.map(({ meter, window }) => `${meter} ${window}`)).size === quotas.length,
      'names a meter and window twice',
    )
    .optional(),
  /** The longest reply under a token or cost quota: what the upstream is asked to stop at. */
  reply_tokens_max: z.int().min(1).max(10_000_000).optional(),
};

/** One limit in force. */
export type Limit = {
  meter: Meter;
  window: WindowKind;
  cap: number;
  enforcement: Enforcement;
  /** The position of the control event that began its windows anew; 0 when none ever did. */
  reset: number;
};

/** The limits of one account or key in force. A new object whenever they change. */
export type SubjectLimits = {
  /** `account/<id>` or `key/<id>`. */
  subject: string;
  limits: readonly Limit[];
  /** The position of the newest control event that they come from. */
  position: number;
  /** The longest reply in tokens under a token or cost quota; null where the terms don't say. */
  replyTokensMax: number | null;
};

type LimitTerms = {
  requests_per_minute?: number | undefined;
  tokens_per_minute?: number | undefined;
  concurrent_requests?: number | undefined;
  quotas?: readonly Quota[] | undefined;
};

/**
 * The limits that terms amount to.
 * @param reset the position of the last control event that began the windows anew.
 */
export function limitsOf(terms: LimitTerms, reset: number): Limit[] {
  const rate = (meter: Meter, window: WindowKind, cap: number | undefined): Limit[] =>
    cap === undefined
      ? []
      : [{ meter, window, cap, enforcement: 'soft', reset: window === 'none' ? 0 : reset }];
  return [
    ...rate('concurrent', 'none', terms.concurrent_requests),
    ...rate('requests', 'minute', terms.requests_per_minute),
    ...rate('tokens', 'minute', terms.tokens_per_minute),
    ...(terms.quotas ?? []).map(({ meter, window, limit, enforcement }) => ({
      meter,
      window,
      cap: limit,
      enforcement,
      reset,
    })),
  ];
}
