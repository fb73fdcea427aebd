import { z } from 'zod';
import { Control, ModelName } from '#db/events/parts.ts';
import { PRICE_MAX } from '#db/money.ts';

/** Nano-dollars for a million tokens, whole ones: 2.50 dollars are 2,500,000,000. */
const Price = z.int().min(0).max(PRICE_MAX);
export const PricesShape = z.strictObject({
  input: Price,
  cached_input: Price,
  output: Price,
  reasoning: Price,
});
export const ModelPriced = Control.extend({
  type: z.literal('model.priced'),
  /** A model's name, or the beginning of names with `*` at its end. */
  model: ModelName,
  prices: PricesShape,
  /** Where the price is from: `manual`, or the snapshot with its version. */
  source: z.string().regex(/^[\x20-\x7e]{1,100}$/),
});
