import type { EventOf } from '#db/events/events.ts';
import type { CallPrice } from '#db/pricing/charge.ts';
import type { CallSize } from '#server/limits/plausible-usage.ts';

/** The facts of a call that its ending follows from, wherever it is settled. */
export type BackgroundFacts = {
  accepted: EventOf<'request.accepted'>;
  /** The prices that were in force when it began. */
  price: CallPrice | null;
  size: CallSize;
  /** No more output is charged without the provider's report; null: no limit. */
  outputMax: number | null;
  attempts: number;
};
