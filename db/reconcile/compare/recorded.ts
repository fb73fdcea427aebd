import type { BilledPart, Ending, RecordedAttempt } from '#db/reconcile/compare/attempts.ts';
import { countedAs } from '#db/reconcile/compare/bill-units.ts';
import type { FullRate } from '#db/pricing/schedule.ts';

/** What the log has for a unit of a bill: the sums of some attempts. */
export type Recorded = {
  /** As the bill counts parts, and as the log does. */
  quantities: Map<BilledPart, bigint>;
  recordedQuantities: Map<BilledPart, bigint>;
  /** Of the attempts with usage. */
  requests: bigint;
  cost: bigint;
  charged: bigint;
  /** The part of the cost that is of reservations of abandoned calls. */
  reserved: bigint;
  /** Attempts by how their usage is known. */
  endings: Record<Ending, number>;
  /** The rate of the newest attempt; null: no price is set. */
  rate: FullRate | null;
  /** As the client of the newest attempt named it, and the names that a bill may have for it. */
  model: string;
  names: readonly string[];
  serviceTier: string | null;
  startMs: number;
  /** Requests, the first ones up to a bound. */
  examples: { request: string; providerRequest: string | null }[];
};

export const emptyRecorded = (): Recorded => ({
  quantities: new Map(),
  recordedQuantities: new Map(),
  requests: 0n,
  cost: 0n,
  charged: 0n,
  reserved: 0n,
  endings: { reported: 0, estimated: 0, failed: 0, abandoned: 0 },
  rate: null,
  model: '',
  names: [],
  serviceTier: null,
  startMs: 0,
  examples: [],
});

/**
 * Adds an attempt.
 * @param stated the parts that the bill states: others are counted as the part that they are billed with.
 */
export function addAttempt(
  recorded: Recorded,
  attempt: RecordedAttempt,
  stated: ReadonlySet<BilledPart>,
  examplesMax: number,
): void {
  for (const [part, quantity] of attempt.quantities) {
    addQuantity(recorded.quantities, countedAs(part, stated), quantity);
    addQuantity(recorded.recordedQuantities, part, quantity);
  }
  if (attempt.ending !== 'failed') recorded.requests++;
  recorded.cost += attempt.cost;
  recorded.charged += attempt.charged;
  if (attempt.ending === 'abandoned') recorded.reserved += attempt.cost;
  recorded.endings[attempt.ending]++;
  if (attempt.rate !== null || recorded.names.length === 0) recorded.rate = attempt.rate;
  recorded.model = attempt.model;
  recorded.names = attempt.names;
  recorded.serviceTier = attempt.serviceTier;
  recorded.startMs = attempt.startMs;
  if (recorded.examples.length < examplesMax)
    recorded.examples.push({ request: attempt.request, providerRequest: attempt.providerRequest });
}

function addQuantity(quantities: Map<BilledPart, bigint>, part: BilledPart, quantity: bigint): void {
  quantities.set(part, (quantities.get(part) ?? 0n) + quantity);
}
