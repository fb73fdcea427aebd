import { z } from 'zod';
import { PlanTerms } from '#db/events/events.ts';
import { ModelName, PlanName } from '#db/events/parts.ts';
import { PriceShape } from '#db/events/price-events.ts';
import type { Meter } from '#db/limits/meters.ts';
import type { WindowKind, Enforcement } from '#db/limits/limits.ts';

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

/** A line: the progress in events of the log, or the end. */
export type BacktestStep =
  | { done: number; of: number }
  | { report: BacktestReport; ended_at: string }
  /** Why it has no result, for people. */
  | { failure: string };

/** A call whose outcome differs from the recorded one. */
export type DifferingCall = {
  /** Of `request.accepted` or `request.rejected`. */
  position: number;
  at: string;
  request: string;
  account: string;
  key: string;
  end_user: string | null;
  /** As recorded. */
  model: string | null;
  /** `observed`: admitted, and an observed limit would have rejected it that the log doesn't name for it. */
  outcome: 'rejected' | 'observed' | 'shortened' | 'admitted';
  /** The error of a rejected call; of an observed one that of the limit, were it enforced. */
  error_code: string | null;
  /** The limits that were short. */
  limits: ShortLimit[];
  /** Calls like it that the event stands for. */
  count: number;
};

/** A limit; `subject` is an account or key, or one of its end users, sessions or tags. */
export type LimitName = {
  subject: string;
  meter: Meter;
  window: WindowKind;
  cap: number;
  enforcement: Enforcement;
};

/** The units of a limit that a call needed, and those that were free. */
export type ShortLimit = LimitName & { needed: number; free: number };

/** A moment of the log. */
export type LogMoment = { position: number; at: string };

/** Rejected calls that were admitted, of an account, a key or an end user. */
export type RejectedOf = { id: string; name: string | null; account: string; rejected: number } & Span;
type Span = { first: LogMoment; last: LogMoment };
/**
 * A limit that rejected calls, or is observed and would have rejected them: of a holder, or of all of its end
 * users, sessions or tags.
 */
export type LimitHit = LimitName & { subjects: number; rejected: number } & Span;

export type BacktestLine = {
  account: string;
  name: string;
  model: string;
  /** Settled requests of the period, and those of them that would have been rejected. */
  requests: number;
  rejected: number;
  before_nanousd: string;
  after_nanousd: string;
  upstream_before_nanousd: string;
  upstream_after_nanousd: string;
};

export type BacktestReport = {
  object: 'backtest';
  from: string;
  to: string;
  /** The positions that were read: those before the period fill the windows that it begins in. */
  first_position: number;
  period_position: number;
  last_position: number;
  calls: {
    /** Recorded as admitted, and as rejected. */
    admitted: number;
    rejected: number;
    /** Admitted calls that would have been rejected, or whose replies would have been shorter. */
    newly_rejected: number;
    shortened: number;
    /** Admitted calls that observed limits would have rejected, and that the log doesn't name so. */
    newly_observed: number;
    /** Rejected calls that would have been admitted; their usage is an estimate. */
    newly_admitted: number;
    /** Rejected calls that can't be evaluated: they were rejected before their body was read, or for another
     * reason than a limit or a permission of terms. */
    not_evaluated: number;
  };
  error_codes: Record<string, number>;
  cost: Omit<BacktestLine, 'account' | 'name' | 'model'> & {
    /** Of newly admitted calls; not in `after_nanousd`. */
    newly_admitted_nanousd: string;
  };
  lines: BacktestLine[];
  /** Lines beyond the bound are added up in one. */
  accounts: RejectedOf[];
  keys: RejectedOf[];
  end_users: RejectedOf[];
  limits: LimitHit[];
  /** Abandoned requests, which keep the charge of their reservations. */
  abandoned: number;
  /** Settled requests without a price: as recorded, and by the changes. */
  unpriced_before: number;
  unpriced_after: number;
};
