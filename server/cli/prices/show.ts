import { formatDollars } from '#db/money.ts';
import { type Conditions, type PriceTerms, RATE_PARTS, type Rate, type RatePart } from '#db/pricing/parts.ts';

/** Prices in dollars, for people. */

/** A rate in one line: `input 2.50, output 10.00`. */
export function showRate(rate: Rate, parts: readonly RatePart[] = RATE_PARTS): string {
  return parts
    .filter((part) => rate[part] !== undefined)
    .map((part) => `${part} ${formatDollars(rate[part] ?? 0)}`)
    .join(', ');
}

/** Conditions in one line: `service tier batch, above 200000 input tokens`. */
export function showConditions(when: Conditions): string {
  const { service_tier, input_tokens_above, valid_from, valid_to, hours, upstream } = when;
  return [
    service_tier === undefined ? [] : `service tier ${service_tier}`,
    input_tokens_above === undefined ? [] : `above ${input_tokens_above} input tokens`,
    valid_from === undefined ? [] : `from ${valid_from}`,
    valid_to === undefined ? [] : `until ${valid_to}`,
    hours === undefined ? [] : `${hours.from} to ${hours.to} UTC`,
    upstream === undefined ? [] : `upstream ${upstream}`,
  ]
    .flat()
    .join(', ');
}

/** A price in one line. */
export function showTerms({ base, rules = [] }: PriceTerms): string {
  return [
    showRate(base),
    ...rules.map(({ when, rate }) => `${showConditions(when)}: ${showRate(rate)}`),
  ].join('; ');
}

/** What differs between two prices, a line for each part and rule. */
export function showChanges(before: PriceTerms, after: PriceTerms): string[] {
  const lines: string[] = [];
  for (const part of RATE_PARTS) {
    const [old, now] = [before.base[part], after.base[part]];
    if (old !== now) lines.push(`${part}: ${dollars(old)} -> ${dollars(now)}`);
  }
  const [old, now] = [rulesOf(before), rulesOf(after)];
  for (const rule of old) if (!now.includes(rule)) lines.push(`- ${rule}`);
  for (const rule of now) if (!old.includes(rule)) lines.push(`+ ${rule}`);
  if (lines.length === 0) lines.push('the order of the rules');
  return lines;
}

const dollars = (price: number | undefined): string => (price === undefined ? 'none' : formatDollars(price));
const rulesOf = ({ rules = [] }: PriceTerms): string[] =>
  rules.map(({ when, rate }) => `${showConditions(when)}: ${showRate(rate)}`);
