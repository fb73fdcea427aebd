import type { Key } from '#db/fold/key.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import type { CallPrice } from '#db/pricing/charge.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Pricing } from '#server/read-model/access.ts';
import { callPriceOf, pricingOf } from '#server/read-model/call-price.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { boundsCost } from '#server/limits/call-need.ts';

/** The error of a call whose cost an enforced limit counts, and whose model has no price; null otherwise. */
export function authorizePrice(
  price: CallPrice | null,
  pricing: Pricing,
  subjects: readonly SubjectLimits[],
): ApiError | null {
  if (price !== null || pricing.allowsUnpriced || !subjects.some(boundsCost)) return null;
  return new ApiError('model_not_priced', { param: 'model' });
}

/** The same for a key and a model, for lists and dry runs. */
export function authorizePriceOf(key: Key, model: string, readModel: ReadModel): ApiError | null {
  const pricing = pricingOf(readModel, key.account);
  return authorizePrice(callPriceOf(readModel, pricing, model), pricing, readModel.limitsOf(key));
}
