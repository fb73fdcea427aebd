import type { PricedPart } from '#db/pricing/parts.ts';

/**
 * What a provider bills, in one shape for all providers. Each line has what its source states, exactly;
 * nothing in it is computed from a price or estimated.
 */

/** Where a bill comes from: one of the providers with an API of its own, or a file of any provider. */
export const BILL_SOURCES = ['openai', 'anthropic', 'openrouter', 'focus', 'csv'] as const;
export type BillSource = (typeof BILL_SOURCES)[number];

export const BILL_KINDS = ['usage', 'discount', 'refund', 'credit', 'fee', 'tax'] as const;
export type BillKind = (typeof BILL_KINDS)[number];

/**
 * One position of a bill. A source may state usage and cost in lines of their own: OpenAI and Anthropic have
 * an API for each. `quantity` and `cost` are never both null unless `requests` is stated.
 */
export type BillLine = {
  /** Where in the source: `line 17`, `usage/completions page 2 bucket 3 result 1`. */
  place: string;
  kind: BillKind;
  /**
   * The interval that it covers, from the first until before the second; of a single request both are its
   * moment. A day is the provider's own, with its time zone applied.
   */
  from: Date;
  to: Date;
  /** As the provider names it, and so are the credential (its id or name) and the tier. Null: not stated. */
  model: string | null;
  credential: string | null;
  serviceTier: string | null;
  /** The provider's own id of the request or generation. */
  requestId: string | null;
  /** Null: all of the usage or cost. */
  part: PricedPart | 'requests' | null;
  /** Tokens or units of the part, media in milliseconds. Null where only requests or a cost are stated. */
  quantity: bigint | null;
  /** Null where it is not stated. Of the lines of one result or request, one alone has it. */
  requests: bigint | null;
  /** Billionths of the currency, nano-dollars for USD. Null where only usage is stated. */
  cost: bigint | null;
  /** ISO 4217, upper case. */
  currency: string;
};

/** A position that {@link BillLine} can't represent. It is stated beside the lines, never approximated. */
export type UnsupportedLine = { place: string; reason: string };

/** Costs that are finer than a billionth, and how much the lines differ from them. */
export type RoundedCosts = {
  currency: string;
  /** How many lines were rounded, to the nearest billionth. */
  lines: number;
  /** What the source states beyond the sum of these lines, exactly: a decimal number of the currency. */
  remainder: string;
};

/** All that one source states for an interval. */
export type Bill = {
  source: BillSource;
  /** Who issued it: `openai`, or the provider that a file names. */
  provider: string;
  /** The interval that was asked for, or that the lines cover. */
  from: Date;
  to: Date;
  /** IANA name of the zone in which its days begin. */
  timeZone: string;
  lines: BillLine[];
  unsupported: UnsupportedLine[];
  /** Of each currency, and each file that was joined. */
  rounded: RoundedCosts[];
};

/**
 * Sources whose `output` includes reasoning tokens, and those whose `input` includes tokens read from a
 * cache: they state no more.
 */
export const OUTPUT_WITH_REASONING: ReadonlySet<BillSource> = new Set(['openai', 'anthropic']);
export const INPUT_WITH_CACHE_READ: ReadonlySet<BillSource> = new Set(['openrouter']);
