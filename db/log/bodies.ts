import { z } from 'zod';
import type { EventOf } from '#db/events/events.ts';
import { ObservedRejections } from '#db/events/admission.ts';
import { Attempt, ATTEMPTS_MAX } from '#db/events/upstream-events.ts';
import { PlanName, RequestId } from '#db/events/parts.ts';
import { Unpriced } from '#db/events/price-events.ts';
import { CorrectionOrigin } from '#db/events/usage-events.ts';
import { WorkloadExchanged } from '#db/events/identity/workload-events.ts';
import { UsageDetails } from '#db/events/usage-details.ts';

/** The fields of requests and corrections that have no column, as the JSON of `body`. Pure. */

const Settled = z
  .strictObject({
    attempts: z.array(Attempt).min(1).max(ATTEMPTS_MAX).optional(),
    usage_details: UsageDetails.optional(),
    price_plan: PlanName.optional(),
    unpriced: Unpriced.optional(),
    observed: ObservedRejections.optional(),
  })
  .refine((fields) => Object.keys(fields).length > 0);

type Settlement = Pick<
  EventOf<'request.settled'>,
  'attempts' | 'usage_details' | 'price_plan' | 'unpriced' | 'observed'
>;

/** The rare fields of a settled request. @throws {Error} where the body is not of the vocabulary. */
export function parseSettlement(body: string): Settlement {
  return Settled.parse(JSON.parse(body));
}

/** @returns null where it has none of these fields. */
export function settlementBody(settlement: Settlement): string | null {
  const { attempts, usage_details, price_plan, unpriced, observed } = settlement;
  return attempts === undefined &&
    usage_details === undefined &&
    price_plan === undefined &&
    unpriced === undefined &&
    observed === undefined
    ? null
    : JSON.stringify({ attempts, usage_details, price_plan, unpriced, observed });
}

const Reservation = z
  .strictObject({
    observed: ObservedRejections.optional(),
    handed_over: z.literal(true).optional(),
    batch: RequestId.optional(),
  })
  .refine((fields) => Object.keys(fields).length > 0);
type Reservation = Pick<EventOf<'request.extended'>, 'observed' | 'handed_over'> &
  Pick<EventOf<'request.accepted'>, 'batch'>;

/** The rare fields of a reservation. @throws {Error} where the body is not of the vocabulary. */
export function parseReservation(body: string): Reservation {
  return Reservation.parse(JSON.parse(body));
}

/** @returns null where it has none of these fields. */
export const reservationBody = ({ observed, handed_over, batch }: Reservation): string | null =>
  observed === undefined && handed_over === undefined && batch === undefined
    ? null
    : JSON.stringify({ observed, handed_over, batch });

const Correction = z.strictObject({ ...CorrectionOrigin, observed: ObservedRejections.optional() });
type Correction = z.infer<typeof Correction>;

/** Where a correction comes from, and why. @throws {Error} where the body is not of the vocabulary. */
export function parseCorrection(body: string): Correction {
  return Correction.parse(JSON.parse(body));
}

export function correctionBody({ reference, reason, adjusted_by, observed }: Correction): string {
  return asciiJson({ reference, reason, adjusted_by, observed } satisfies Correction);
}

const Exchange = WorkloadExchanged.pick({
  workload: true,
  exchange: true,
  expires_at: true,
  issuer: true,
  claims: true,
}).strict();
type Exchange = z.infer<typeof Exchange>;

/** What an exchanged token stated. @throws {Error} where the body is not of the vocabulary. */
export function parseExchange(body: string): Exchange {
  return Exchange.parse(JSON.parse(body));
}

export function exchangeBody({ workload, exchange, expires_at, issuer, claims }: Exchange): string {
  return asciiJson({ workload, exchange, expires_at, issuer, claims } satisfies Exchange);
}

/** JSON in plain ASCII, as lines have it. */
export const asciiJson = (value: object): string =>
  JSON.stringify(value).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
