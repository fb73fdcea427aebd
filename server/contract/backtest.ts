import { z } from 'zod';
import { PriceShape } from '#db/events/price-events.ts';
import { PlanTerms } from '#db/events/events.ts';
import { ModelName, PlanName } from '#db/events/parts.ts';
import { ENFORCEMENT_NAMES } from '#db/limits/limits.ts';
import { MeterName, WindowName } from '#server/contract/parts.ts';

/** Contract for back-tests: calls under other terms, prices or models. Amounts are nano-dollars. Pure. */

/** The prices of one back-test. */
const PRICES_MAX = 100;

/**
 * `POST /api/v1/backtests`, for administrators: replays the calls of the last BACKTEST_DAYS days → lines
 * of JSON while it runs, each a {@link BacktestStep}. Closing the connection cancels it. 409 `not_allowed`
 * while another one runs on any server.
 */
export const StartBacktest = z
  .strictObject({
    /** Terms in place of those of a plan; without `of` for all accounts. */
    plan: z.strictObject({ terms: PlanTerms, of: PlanName.optional() }).optional(),
    /** Prices in place of those of the same models; `plan`: what this plan's accounts are charged. */
    prices: z
      .array(z.strictObject({ model: ModelName, plan: PlanName.optional(), ...PriceShape }))
      .max(PRICES_MAX)
      .default([]),
    /** Whether to replay the calls again where a result of the same changes is kept. */
    refresh: z.boolean().default(false),
  })
  .refine(({ plan, prices }) => plan !== undefined || prices.length > 0, {
    path: ['plan'],
    message: 'give "plan" or "prices": nothing is changed',
  });
export type StartBacktest = z.infer<typeof StartBacktest>;

/** A moment of the log. */
export const LogMoment = z.object({ position: z.number(), at: z.string() });
export type LogMoment = z.infer<typeof LogMoment>;
const Span = z.object({ first: LogMoment, last: LogMoment });
type Span = z.infer<typeof Span>;

/** Rejected calls that were admitted, of an account, a key or an end user. */
export const RejectedOf = z.object({
  id: z.string(),
  name: z.string().nullable(),
  account: z.string(),
  rejected: z.number(),
  ...Span.shape,
});
export type RejectedOf = z.infer<typeof RejectedOf>;

/** A limit; `subject` is an account or key, or one of its end users, sessions or tags. */
export const LimitName = z.object({
  subject: z.string(),
  meter: MeterName,
  window: WindowName,
  cap: z.number(),
  enforcement: z.enum(ENFORCEMENT_NAMES),
});
export type LimitName = z.infer<typeof LimitName>;
/**
 * A limit that rejected calls, or is observed and would have rejected them: of a holder, or of all of its end
 * users, sessions or tags.
 */
export const LimitHit = z.object({
  ...LimitName.shape,
  subjects: z.number(),
  rejected: z.number(),
  ...Span.shape,
});
export type LimitHit = z.infer<typeof LimitHit>;

export const BacktestLine = z.object({
  account: z.string(),
  name: z.string(),
  model: z.string(),
  /** Settled requests of the period, and those of them that would have been rejected. */
  requests: z.number(),
  rejected: z.number(),
  before_nanousd: z.string(),
  after_nanousd: z.string(),
  upstream_before_nanousd: z.string(),
  upstream_after_nanousd: z.string(),
});
export type BacktestLine = z.infer<typeof BacktestLine>;

export const BacktestReport = z.object({
  object: z.literal('backtest'),
  from: z.string(),
  to: z.string(),
  /** The positions that were read: those before the period fill the windows that it begins in. */
  first_position: z.number(),
  period_position: z.number(),
  last_position: z.number(),
  calls: z.object({
    /** Recorded as admitted, and as rejected. */
    admitted: z.number(),
    rejected: z.number(),
    /** Admitted calls that would have been rejected, or whose replies would have been shorter. */
    newly_rejected: z.number(),
    shortened: z.number(),
    /** Admitted calls that observed limits would have rejected, and that the log doesn't name so. */
    newly_observed: z.number(),
    /** Rejected calls that would have been admitted; their usage is an estimate. */
    newly_admitted: z.number(),
    /** Rejected calls that can't be evaluated: they were rejected before their body was read, or for another
     * reason than a limit or a permission of terms. */
    not_evaluated: z.number(),
  }),
  error_codes: z.record(z.string(), z.number()),
  cost: z.object({
    ...BacktestLine.omit({ account: true, name: true, model: true })
      .shape /** Of newly admitted calls; not in `after_nanousd`. */,
    newly_admitted_nanousd: z.string(),
  }),
  lines: z.array(BacktestLine),
  /** Lines beyond the bound are added up in one. */
  accounts: z.array(RejectedOf),
  keys: z.array(RejectedOf),
  end_users: z.array(RejectedOf),
  limits: z.array(LimitHit),
  /** Abandoned requests, which keep the charge of their reservations. */
  abandoned: z.number(),
  /** Settled requests without a price: as recorded, and by the changes. */
  unpriced_before: z.number(),
  unpriced_after: z.number(),
});
export type BacktestReport = z.infer<typeof BacktestReport>;

/** A line: the progress in events of the log, or the end. */
export const BacktestStep = z.union([
  z.object({ done: z.number(), of: z.number() }),
  z.object({ report: BacktestReport, ended_at: z.string() }),
  z.object({ failure: z.string() }),
]);
export type BacktestStep = z.infer<typeof BacktestStep>;

/** The units of a limit that a call needed, and those that were free. */
export const ShortLimit = z.object({ ...LimitName.shape, needed: z.number(), free: z.number() });
export type ShortLimit = z.infer<typeof ShortLimit>;

/** A call whose outcome differs from the recorded one. */
export const DifferingCall = z.object({
  /** Of `request.accepted` or `request.rejected`. */
  position: z.number(),
  at: z.string(),
  request: z.string(),
  account: z.string(),
  key: z.string(),
  end_user: z.string().nullable(),
  /** As recorded. */
  model: z.string().nullable(),
  /** `observed`: admitted, and an observed limit would have rejected it that the log doesn't name for it. */
  outcome: z.enum(['rejected', 'observed', 'shortened', 'admitted']),
  /** The error of a rejected call; of an observed one that of the limit, were it enforced. */
  error_code: z.string().nullable(),
  /** The limits that were short. */
  limits: z.array(ShortLimit),
  /** Calls like it that the event stands for. */
  count: z.number(),
});
export type DifferingCall = z.infer<typeof DifferingCall>;
