import { z } from 'zod';
import { Control, Count, ModelName, PlanName, ProviderText, Time, UpstreamName } from '#db/events/parts.ts';
import { PRICE_MAX } from '#db/money.ts';
import { MARKUP_MAX, MARKUP_MIN, PRICED_PARTS, RATE_PARTS, type RatePart } from '#db/pricing/parts.ts';

/** The most rules of a price. */
export const RULES_MAX = 64;

/**
 * Nano-dollars: of tokens and characters for a million, of audio and video for an hour, of other units and
 * of fees for one. 2.50 dollars are 2,500,000,000.
 */
const Amount = z.int().min(0).max(PRICE_MAX);
const RateShape = z
  .strictObject(
    Object.fromEntries(RATE_PARTS.map((part) => [part, Amount.optional()])) as {
      [Part in RatePart]: z.ZodOptional<typeof Amount>;
    },
  )
  .refine((rate) => Object.keys(rate).length > 0, 'must have a price');

const TimeOfDay = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time in UTC, such as 16:30');
const Conditions = z
  .strictObject({
    service_tier: ProviderText.optional(),
    input_tokens_above: Count.optional(),
    valid_from: Time.optional(),
    valid_to: Time.optional(),
    hours: z
      .strictObject({ from: TimeOfDay, to: TimeOfDay })
      .refine(({ from, to }) => from !== to, 'must not be empty')
      .optional(),
    upstream: UpstreamName.optional(),
  })
  .refine((conditions) => Object.keys(conditions).length > 0, 'must have a condition');

/** The base rate of a price and its rules, of which the first that applies counts. */
export const PriceShape = {
  base: RateShape,
  rules: z
    .array(z.strictObject({ when: Conditions, rate: RateShape }))
    .min(1)
    .max(RULES_MAX)
    .optional(),
};
/** How the accounts on a plan are charged. */
export const ChargingShape = {
  /**
   * Added to what the provider charges where the plan has no price of its own, in hundredths of a percent.
   */
  markup: z.int().min(MARKUP_MIN).max(MARKUP_MAX).optional(),
  /** What a cost quota does with a model without a price: `reject` by default, or `free` counts it as 0. */
  unpriced_models: z.enum(['reject', 'free']).optional(),
};

/** Parts with usage that had no price. */
export const Unpriced = z.array(z.enum(PRICED_PARTS)).min(1);

export const ModelPriced = Control.extend({
  type: z.literal('model.priced'),
  /** A model's name, or the beginning of names with `*` at its end. */
  model: ModelName,
  /** The plan whose accounts are charged this; absent: it is what the provider charges. */
  plan: PlanName.optional(),
  ...PriceShape,
  /** Where the price is from: `manual`, or the list with its version. */
  source: z.string().regex(/^[\x20-\x7e]{1,100}$/),
});
