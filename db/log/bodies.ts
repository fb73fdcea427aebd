import { z } from 'zod';
import type { EventOf } from '#db/events/events.ts';
import { Attempt, ATTEMPTS_MAX } from '#db/events/upstream-events.ts';
import { PlanName } from '#db/events/parts.ts';
import { Unpriced } from '#db/events/price-events.ts';
import { UsageDetails } from '#db/events/usage-details.ts';

/** The fields of settled requests that have no column, as the JSON of `body`. Pure. */

const Settled = z
  .strictObject({
    attempts: z.array(Attempt).min(1).max(ATTEMPTS_MAX).optional(),
    usage_details: UsageDetails.optional(),
    price_plan: PlanName.optional(),
    unpriced: Unpriced.optional(),
  })
  .refine((fields) => Object.keys(fields).length > 0);

type Settlement = Pick<EventOf<'request.settled'>, 'attempts' | 'usage_details' | 'price_plan' | 'unpriced'>;

/** The rare fields of a settled request. @throws {Error} where the body is not of the vocabulary. */
export function parseSettlement(body: string): Settlement {
  return Settled.parse(JSON.parse(body));
}

/** @returns null where it has none of these fields. */
export function settlementBody({ attempts, usage_details, price_plan, unpriced }: Settlement): string | null {
  return attempts === undefined &&
    usage_details === undefined &&
    price_plan === undefined &&
    unpriced === undefined
    ? null
    : JSON.stringify({ attempts, usage_details, price_plan, unpriced });
}
