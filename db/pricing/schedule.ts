import {
  type Conditions,
  type PricedPart,
  PRICED_PARTS,
  priceOfPart,
  type PriceTerms,
  type Rate,
  type Unit,
  UNITS,
} from '#db/pricing/parts.ts';

/** Prices compiled for the hot path. Pure. */

/** A rate after fallbacks. Null: no price. */
export type FullRate = { readonly [Part in PricedPart]: number | null } & {
  readonly per_request: number;
  readonly minimum: number;
  /** The most expensive class of the prompt and of the reply. */
  readonly inputMax: number;
  readonly outputMax: number;
};
type CompiledRule = {
  serviceTier: string | undefined;
  inputTokensAbove: number;
  /** Minutes since 1970: from the first, until before the second. */
  from: number;
  to: number;
  /** Minutes of the day; null: all day. */
  hours: { from: number; to: number } | null;
  upstream: string | undefined;
  rate: FullRate;
};
export type Schedule = {
  readonly base: FullRate;
  readonly rules: readonly CompiledRule[];
  /** The units that have a price at some time. */
  readonly units: readonly Unit[];
};

/** What decides which rule applies to a request. */
export type Circumstances = {
  /** Of its admission, in minutes since 1970. */
  minute: number;
  /** Of the whole prompt. */
  inputTokens: number;
  serviceTier: string | undefined;
  upstream: string | undefined;
};

const MINUTE_MS = 60_000;
const DAY_MINUTES = 24 * 60;

/** Compiles a price. */
export function scheduleOf({ base, rules = [] }: PriceTerms): Schedule {
  return {
    base: fullRate(base),
    units: UNITS.filter((unit) => base[unit] || rules.some(({ rate }) => rate[unit])),
    rules: rules.map(({ when, rate }) => ({
      serviceTier: when.service_tier,
      inputTokensAbove: when.input_tokens_above ?? -1,
      from: minuteAt(when.valid_from, Number.NEGATIVE_INFINITY),
      to: minuteAt(when.valid_to, Number.POSITIVE_INFINITY),
      hours: hoursOf(when.hours),
      upstream: when.upstream,
      rate: fullRate({ ...base, ...rate }),
    })),
  };
}

/** The schedule of requests that all have one service tier. */
export function ofTier({ rules, ...schedule }: Schedule, tier: string): Schedule {
  const own = rules.filter(({ serviceTier }) => serviceTier === undefined || serviceTier === tier);
  return { ...schedule, rules: own.map((rule) => ({ ...rule, serviceTier: undefined })) };
}

/** The rate of a request. */
export function rateAt({ base, rules }: Schedule, call: Circumstances): FullRate {
  for (const rule of rules) if (applies(rule, call)) return rule.rate;
  return base;
}

/**
 * The rates that a request can have whose prompt has at most so many tokens, and whose reply is not known.
 * @param minutes the first and the last minute of its admission.
 */
export function possibleRates(
  { base, rules }: Schedule,
  inputTokens: number,
  minutes: readonly [number, number],
): FullRate[] {
  const rates: FullRate[] = [];
  for (const rule of rules) {
    if (rule.inputTokensAbove >= inputTokens || rule.from > minutes[1] || rule.to <= minutes[0]) continue;
    rates.push(rule.rate);
    // Every such request has this rate at the latest.
    if (
      rule.serviceTier === undefined &&
      rule.upstream === undefined &&
      rule.hours === null &&
      rule.inputTokensAbove < 0 &&
      rule.from <= minutes[0] &&
      rule.to > minutes[1]
    )
      return rates;
  }
  rates.push(base);
  return rates;
}

function applies(rule: CompiledRule, call: Circumstances): boolean {
  return (
    call.inputTokens > rule.inputTokensAbove &&
    (rule.serviceTier === undefined || rule.serviceTier === call.serviceTier) &&
    (rule.upstream === undefined || rule.upstream === call.upstream) &&
    rule.from <= call.minute &&
    call.minute < rule.to &&
    (rule.hours === null || isWithin(rule.hours, call.minute % DAY_MINUTES))
  );
}

function isWithin({ from, to }: { from: number; to: number }, minute: number): boolean {
  return from < to ? from <= minute && minute < to : minute >= from || minute < to;
}

function fullRate(rate: Rate): FullRate {
  const full = Object.fromEntries(PRICED_PARTS.map((part) => [part, priceOfPart(rate, part)])) as {
    [Part in PricedPart]: number | null;
  };
  const highest = (...parts: readonly PricedPart[]): number =>
    Math.max(...parts.map((part) => full[part] ?? 0));
  return {
    ...full,
    per_request: rate.per_request ?? 0,
    minimum: rate.minimum ?? 0,
    inputMax: highest(
      'input',
      'cache_read',
      'cache_write_5m',
      'cache_write_1h',
      'audio_input',
      'image_input',
    ),
    outputMax: highest('output', 'reasoning', 'audio_output', 'image_output'),
  };
}

/** The first whole minute at or after a time. */
function minuteAt(time: string | undefined, otherwise: number): number {
  return time === undefined ? otherwise : Math.ceil(Date.parse(time) / MINUTE_MS);
}

function hoursOf(hours: Conditions['hours']): CompiledRule['hours'] {
  return hours === undefined ? null : { from: minuteOfDay(hours.from), to: minuteOfDay(hours.to) };
}

function minuteOfDay(time: string): number {
  const [hour = 0, minute = 0] = time.split(':').map(Number);
  return hour * 60 + minute;
}
