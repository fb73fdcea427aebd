import { z } from 'zod';
import { BillingTerms, CORRECTIONS_PER_NOTE_MAX, STATEMENT_GROUPS } from '#db/events/billing-events.ts';
import { Id, Pseudonym, Time } from '#db/events/parts.ts';
import type { WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';

/**
 * A statement: what an account, one of its keys or one of its end users used and was charged in a period.
 * Every figure follows from events of the log. Field names are those of the log. Pure.
 */

/** A sum of money in nano-dollars, as a decimal text: a JSON number is exact to 2^53 only. */
export type Sum = string;

export const StatementGroup = z.enum(STATEMENT_GROUPS);
export type StatementGroup = z.infer<typeof StatementGroup>;

/** Which events a statement is of. The figures follow from these and the events. */
export const StatementParameters = z.strictObject({
  /** The origin of the log. */
  log: z.string().min(1).max(300),
  account: Id,
  /** The only key, or end user; null: all. */
  key: Id.nullable(),
  end_user: Pseudonym.nullable(),
  /** The period: `from` is inclusive, `to` exclusive. */
  from: Time,
  to: Time,
  /**
   * Of a credit note: the positions of its corrections, which are all that it states. They are of calls that
   * ended in the period, whenever they were recorded. Null: all usage of the period.
   */
  corrections: z.array(z.int().positive()).max(CORRECTIONS_PER_NOTE_MAX).nullable(),
  /** What lines are grouped by, besides kind and model. */
  group_by: z.array(StatementGroup).max(STATEMENT_GROUPS.length),
  /** The position up to which names, terms and the issuer are read. */
  as_of: z.int().nonnegative(),
  /** False where the period isn't over: later events can still change the figures. */
  is_final: z.boolean(),
  /**
   * The prepaid balance at the beginning, in nano-dollars, which earlier events decide. Null: the account was
   * not prepaid by the end of the period, or the statement is of a key or an end user.
   */
  opening_balance_nanousd: z
    .string()
    .regex(/^(?:0|-?[1-9]\d{0,29})$/)
    .nullable(),
});
export type StatementParameters = z.infer<typeof StatementParameters>;

/** The kinds of lines, in the order of a statement. */
export const LINE_KINDS = ['priced', 'abandoned', 'unpriced', 'correction'] as const;
export type LineKind = (typeof LINE_KINDS)[number];

/** Counts of a line and of the totals. Tokens of abandoned requests are those reserved. */
export type StatementCounts = {
  requests: number;
  /** Requests whose usage the provider did not report. */
  estimated: number;
  corrections: number;
  input_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  abandoned_tokens: number;
};

/** Requests, or corrections of one reference, that are alike by kind, model and groups. */
export type StatementLine = {
  kind: LineKind;
  model: string;
  /** The UTC day on which they ended, such as `2026-10-31`. */
  day?: string;
  key?: string;
  key_name?: string;
  /** A pseudonym; empty: none was named. */
  end_user?: string;
  /** Of corrections. */
  reference?: string;
  reason?: string;
} & StatementCounts & {
    estimated_nanousd: Sum;
    cost_nanousd: Sum;
    /** Positions in the log of the first and the last event. */
    first_position: number;
    last_position: number;
  };

export type StatementTopUp = { position: number; at: string; amount_nanousd: Sum; reference: string };

/** Units that an administrator added to the usage of a quota, or gave back. They change no line. */
export type StatementAdjustment = {
  position: number;
  at: string;
  meter: Meter;
  window: WindowKind;
  amount: number;
  key?: string;
  reason: string;
  /** The part that changed the prepaid balance: units given back are above zero. */
  balance_nanousd?: Sum;
};

/** The prepaid balance: opening + top-ups − charges + adjustments = closing. */
export type StatementBalance = {
  opening_nanousd: Sum;
  top_ups_nanousd: Sum;
  /** Of calls that were admitted while the account was prepaid, with corrections of such calls. */
  charges_nanousd: Sum;
  adjustments_nanousd: Sum;
  closing_nanousd: Sum;
};

export type Statement = {
  statement: 'daybook statement 1';
} & StatementParameters & {
    account_name: string;
    /** Null: none is set. */
    issuer: BillingTerms | null;
    lines: StatementLine[];
    totals: StatementCounts & {
      /** Requests that were rejected, at no cost. */
      rejected: number;
      estimated_nanousd: Sum;
      correction_nanousd: Sum;
      cost_nanousd: Sum;
      /** The part of the corrections that credit notes of earlier periods bill. */
      credited_nanousd: Sum;
      /** The cost without that part: what an invoice of the statement bills. */
      due_nanousd: Sum;
      /** The same in the issuer's currency. */
      amount: string;
      currency: string;
    };
    top_ups: StatementTopUp[];
    adjustments: StatementAdjustment[];
    balance: StatementBalance | null;
  };
