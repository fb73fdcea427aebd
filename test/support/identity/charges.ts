import type { EventOf, Placed } from '#db/events/events.ts';
import type { Meter } from '#db/limits/meters.ts';
import { expectedAbandoned, expectedReserved, expectedSettled } from '../meters.ts';

/**
 * Which calls count: those of an account or of one key, and of them those that a window or a reset leaves.
 */
export type Counted = {
  meter: Meter;
  account?: string;
  key?: string;
  isIn?: (event: EventOf<'request.accepted'>) => boolean;
};

/** What a limit had come to at one place of the log. */
export type Charged = { at: Date; position: number; settled: number; held: number };

/**
 * What was charged to a limit after each event of the log that changed it: settled by ended calls,
 * and held by those that run. An abandoned call stays charged with the hold of its ending. Pure, and knows
 * nothing of leases: it is the judge of them.
 */
export function chargesOf(events: readonly Placed[], counted: Counted): Charged[] {
  const { meter } = counted;
  const held = new Map<string, number>();
  const charges: Charged[] = [];
  let settled = 0;
  let sum = 0;
  const setHold = (request: string, units: number): void => {
    sum += units - (held.get(request) ?? 0);
    held.set(request, units);
  };
  for (const { event, at, position } of events) {
    if (event.type === 'request.accepted' && isCounted(event, counted)) {
      setHold(event.request, expectedReserved(meter, event));
    } else if (event.type === 'request.extended' && held.has(event.request)) {
      setHold(event.request, expectedReserved(meter, event));
    } else if (event.type === 'request.settled' && held.has(event.request)) {
      setHold(event.request, 0);
      settled += expectedSettled(meter, event);
      held.delete(event.request);
    } else if (event.type === 'request.abandoned' && held.has(event.request)) {
      setHold(event.request, 0);
      settled += expectedAbandoned(meter, event);
      held.delete(event.request);
    } else {
      continue;
    }
    charges.push({ at, position, settled, held: sum });
  }
  return charges;
}

/** The most that was ever settled and held together. */
export function peakOf(charges: readonly Charged[]): number {
  return charges.reduce((peak, { settled, held }) => Math.max(peak, settled + held), 0);
}

/**
 * The most that can have been charged at a moment, when no event is trusted to be nearer to what it
 * tells of than `aroundMs`: a hold begins before it is in the log, and is given back after its end.
 */
export function mostCharged(
  events: readonly Placed[],
  counted: Counted,
  atMs: number,
  aroundMs: number,
): number {
  const begun = new Map<string, number>();
  let sum = 0;
  for (const { event, at } of events) {
    if (event.type === 'request.accepted' && isCounted(event, counted) && at.getTime() - aroundMs <= atMs) {
      begun.set(event.request, expectedReserved(counted.meter, event));
      sum += expectedReserved(counted.meter, event);
    } else if (
      event.type === 'request.settled' &&
      begun.has(event.request) &&
      at.getTime() + aroundMs < atMs - aroundMs
    ) {
      sum += expectedSettled(counted.meter, event) - (begun.get(event.request) ?? 0);
    }
  }
  return sum;
}

function isCounted(event: EventOf<'request.accepted'>, { account, key, isIn }: Counted): boolean {
  return (
    (account === undefined || event.account === account) &&
    (key === undefined || event.key === key) &&
    (isIn?.(event) ?? true)
  );
}
