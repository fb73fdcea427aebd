import { z } from 'zod';
import { PriceShape } from '#db/events/price-events.ts';
import { parseDollars } from '#db/money.ts';
import { type PriceTerms, RATE_PARTS, type Rate, type RatePart, type Rule } from '#db/pricing/parts.ts';

/** A price as a file has it: in US dollars, with the parts of a rule beside its conditions. */

const Dollars = z.union([z.number(), z.string()]);
const RateInFile = Object.fromEntries(RATE_PARTS.map((part) => [part, Dollars.optional()])) as {
  [Part in RatePart]: z.ZodOptional<typeof Dollars>;
};
export const PriceInFile = z.strictObject({
  ...RateInFile,
  rules: z.array(z.strictObject({ when: z.looseObject({}), ...RateInFile })).optional(),
});

/** A value that is not a price in dollars, or a rule that can't be. `path` leads to it. */
export class PriceFault extends Error {
  override name = 'PriceFault';
  readonly path: readonly PropertyKey[];

  constructor(path: readonly PropertyKey[], message: string) {
    super(message);
    this.path = path;
  }
}

/** @throws {PriceFault} */
export function priceFromFile({ rules, ...base }: z.infer<typeof PriceInFile>): PriceTerms {
  const terms: PriceTerms = {
    base: rateFromFile(base, []),
    ...(rules && rules.length > 0
      ? {
          rules: rules.map(({ when, ...rate }, index) => ({
            when,
            rate: rateFromFile(rate, ['rules', index]),
          })),
        }
      : {}),
  };
  return checkPrice(terms);
}

/** @throws {PriceFault} where a condition is of the wrong form, or a rate is empty. */
export function checkPrice(terms: PriceTerms): PriceTerms {
  const parsed = z.strictObject(PriceShape).safeParse(terms);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = (issue?.path ?? []).filter((part) => part !== 'base' && part !== 'rate');
  const unknown = issue?.code === 'unrecognized_keys' ? ` "${issue.keys[0]}"` : '';
  throw new PriceFault(path, `${path.map(String).join('.') || 'price'}${unknown}: ${issue?.message ?? ''}`);
}

function rateFromFile(
  dollars: { [Part in RatePart]?: number | string | undefined },
  path: readonly PropertyKey[],
): Rate {
  const rate: Rate = {};
  for (const part of RATE_PARTS) {
    const value = dollars[part];
    if (value !== undefined) rate[part] = dollarsOf(value, part, [...path, part]);
  }
  return rate;
}

function dollarsOf(value: number | string, name: string, path: readonly PropertyKey[]): number {
  const price = parseDollars(String(value));
  if (price === null)
    throw new PriceFault(
      path,
      `${name} is not a price in dollars such as 2.50: 0 to 1000, at most 9 digits after the point.`,
    );
  return price;
}

/**
 * A rule in one line, such as `service_tier=batch input=1.25 output=5`: conditions and parts.
 * @throws {PriceFault}
 */
export function parseRule(text: string): Rule {
  const when: Record<string, unknown> = {};
  const rate: Record<string, string> = {};
  for (const word of text.trim().split(/\s+/)) {
    const at = word.indexOf('=');
    const [name, value] = [word.slice(0, at), word.slice(at + 1)];
    if (at < 1 || value === '') throw new PriceFault([], `"${word}" is not NAME=VALUE.`);
    if ((RATE_PARTS as readonly string[]).includes(name)) rate[name] = value;
    else if (name === 'hours') {
      const [from, to] = value.split('-');
      when[name] = { from, to };
    } else when[name] = name === 'input_tokens_above' ? Number(value) : value;
  }
  return { when, rate: rateFromFile(rate, []) };
}
