import type { Bill } from '#db/reconcile/bill/line.ts';
import { EXAMPLES_MAX, UNMATCHED_MAX } from '#db/reconcile/bounds.ts';
import type { RecordedAttempt } from '#db/reconcile/compare/attempts.ts';
import { type BillUnit, type BillUnits, tierOf } from '#db/reconcile/compare/bill-units.ts';
import { CellNames } from '#db/reconcile/compare/cell-names.ts';
import { type Interval, splitDays } from '#db/reconcile/compare/days.ts';
import { type DecomposeContext, decompose, type Piece } from '#db/reconcile/compare/decompose.ts';
import { addAttempt, emptyRecorded, type Recorded } from '#db/reconcile/compare/recorded.ts';
import { type Apart, findMoves } from '#db/reconcile/compare/moves.ts';

type Found = (unit: BillUnit, recorded: Recorded, pieces: readonly Piece[]) => void;

/** Names of models that are remembered as those that answered for another. */
const ALIASES_MAX = 10_000;

/**
 * The lines of a bill that are sums over an interval, and the calls that ran in it. They are kept by
 * interval, model, credential and tier, whatever the number of calls.
 */
export class Sums {
  readonly #units: BillUnits;
  readonly #buckets: readonly Interval[];
  readonly #names = new CellNames();
  readonly #bill = new Map<string, BillUnit>();
  readonly #log = new Map<string, { unit: BillUnit; recorded: Recorded }>();
  readonly #abandoned: RecordedAttempt[] = [];
  /** By the name that a client used: the name that is billed. */
  readonly #billedNames = new Map<string, string>();

  constructor(units: BillUnits, bill: Pick<Bill, 'from' | 'to' | 'timeZone'>) {
    this.#units = units;
    // Costs are stated by the coarser interval where an API states them apart from usage.
    const priced = units.sums.filter(({ costLines }) => costLines > 0);
    const shaping = priced.length > 0 ? priced : units.sums;
    const buckets = new Map(
      shaping.map(({ fromMs, toMs }) => [`${fromMs} ${toMs}`, { fromMs, toMs }] as const),
    );
    const stated = [...buckets.values()].toSorted((a, b) => a.fromMs - b.fromMs);
    // Without request ids a day without lines is one on which nothing was billed.
    this.#buckets = units.sums.length > 0 && units.byRequest.size === 0 ? withGaps(stated, bill) : stated;
    for (const unit of units.sums) this.#addUnit(unit);
  }

  /** Adds usage that is stated in finer intervals to the interval of its cost. */
  #addUnit(unit: BillUnit): void {
    const bucket = this.#bucketOf(unit.fromMs) ?? unit;
    const key = this.#keyOf(bucket, unit.model, unit.credential, unit.serviceTier);
    const known = this.#bill.get(key);
    if (known === undefined) {
      this.#bill.set(key, {
        ...unit,
        fromMs: bucket.fromMs,
        toMs: bucket.toMs,
        quantities: new Map(unit.quantities),
        tiers: new Set(unit.tiers),
      });
      return;
    }
    for (const [part, quantity] of unit.quantities)
      known.quantities.set(part, (known.quantities.get(part) ?? 0n) + quantity);
    if (unit.requests !== null) known.requests = (known.requests ?? 0n) + unit.requests;
    known.cost += unit.cost;
    known.costLines += unit.costLines;
    if (unit.roundedTo < known.roundedTo) known.roundedTo = unit.roundedTo;
    known.isForeign ||= unit.isForeign;
    for (const tier of unit.tiers) known.tiers.add(tier);
  }

  #keyOf({ fromMs }: Interval, model: string | null, credential: string | null, tier: string | null): string {
    const { dimensions } = this.#units;
    return this.#names.of(
      fromMs,
      dimensions.model ? model : null,
      dimensions.credential ? credential : null,
      dimensions.serviceTier ? tierOf(tier) : null,
    );
  }

  #bucketOf(ms: number): Interval | null {
    let [low, high] = [0, this.#buckets.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#buckets[middle] as Interval).fromMs <= ms) low = middle + 1;
      else high = middle;
    }
    const bucket = this.#buckets[low - 1];
    return bucket !== undefined && ms < bucket.toMs ? bucket : null;
  }

  /** Adds an attempt of a call. @returns false if the bill has no sums of its time. */
  add(attempt: RecordedAttempt): boolean {
    const bucket = this.#bucketOf(attempt.startMs);
    if (bucket === null) return false;
    const { dimensions } = this.#units;
    const model = attempt.names[0] ?? null;
    if (model !== null && this.#billedNames.size < ALIASES_MAX) this.#billedNames.set(attempt.model, model);
    const key = this.#keyOf(bucket, model, attempt.credential, attempt.serviceTier);
    let known = this.#log.get(key);
    if (known === undefined) {
      known = {
        unit: emptyUnit(bucket, {
          model: dimensions.model ? model : null,
          credential: dimensions.credential ? attempt.credential : null,
          serviceTier: dimensions.serviceTier ? attempt.serviceTier : null,
        }),
        recorded: emptyRecorded(),
      };
      this.#log.set(key, known);
    }
    addAttempt(known.recorded, attempt, this.#units.parts, EXAMPLES_MAX);
    return true;
  }

  /** Adds a call without a recorded credential and tier. @returns as {@link add}. */
  addAbandoned(attempt: RecordedAttempt): boolean {
    if (this.#bucketOf(attempt.startMs) === null || this.#abandoned.length >= UNMATCHED_MAX) return false;
    this.#abandoned.push(attempt);
    return true;
  }

  /**
   * Compares the sums.
   * @param credentials those of the relay.
   */
  compare(credentials: ReadonlySet<string>, context: DecomposeContext, found: Found): void {
    for (const attempt of this.#abandoned) this.#placeAbandoned(attempt);
    const apart: Apart[] = [];
    for (const key of new Set([...this.#bill.keys(), ...this.#log.keys()])) {
      const known = this.#log.get(key);
      const unit = this.#bill.get(key) ?? (known as { unit: BillUnit }).unit;
      const recorded = known?.recorded ?? emptyRecorded();
      const pieces = decompose(unit, recorded, context);
      if (pieces.length === 0) found(unit, recorded, []);
      else apart.push({ unit, recorded, isBilled: this.#bill.has(key), isRecorded: known !== undefined });
    }
    const { moves, rest } = findMoves(apart);
    for (const { units, piece } of moves)
      units.forEach(({ unit, recorded }, index) => found(unit, recorded, index === 0 ? [piece] : []));
    for (const each of rest) found(each.unit, each.recorded, piecesOf(each, credentials, context));
  }

  /** Counts an abandoned call where the bill has more requests of its model than the log. */
  #placeAbandoned(attempt: RecordedAttempt): void {
    const model = this.#billedNames.get(attempt.model) ?? attempt.model;
    const bucket = this.#bucketOf(attempt.startMs) as Interval;
    const ofModel = [...this.#bill].filter(
      ([, unit]) => unit.fromMs === bucket.fromMs && (unit.model === null || unit.model === model),
    );
    const [, lacking] =
      ofModel.find(
        ([key, { requests }]) =>
          requests !== null && requests > (this.#log.get(key)?.recorded.requests ?? 0n),
      ) ??
      ofModel[0] ??
      [];
    this.add({
      ...attempt,
      names: [model],
      credential: lacking?.credential ?? null,
      serviceTier: lacking?.serviceTier ?? null,
    });
  }
}

/** Intervals with the days between them on which a bill has no line. */
function withGaps(
  stated: readonly Interval[],
  { from, to, timeZone }: Pick<Bill, 'from' | 'to' | 'timeZone'>,
): Interval[] {
  const all: Interval[] = [];
  let reachedMs = from.getTime();
  for (const each of stated) {
    all.push(...splitDays({ fromMs: reachedMs, toMs: each.fromMs }, timeZone), each);
    reachedMs = Math.max(reachedMs, each.toMs);
  }
  return [...all, ...splitDays({ fromMs: reachedMs, toMs: to.getTime() }, timeZone)];
}

/** The pieces of a sum: one that only one side has is missing as a whole. */
function piecesOf(
  { unit, recorded, isBilled, isRecorded }: Apart,
  credentials: ReadonlySet<string>,
  context: DecomposeContext,
): Piece[] {
  if (isBilled && isRecorded) return decompose(unit, recorded, context);
  if (!isBilled) {
    if (recorded.cost === 0n) return [];
    const isUnknown = recorded.requests === BigInt(recorded.endings.abandoned);
    return [{ class: isUnknown ? 'unknown_ending' : 'missing_there', amount: -recorded.cost, detail: null }];
  }
  if (unit.cost === 0n && unit.quantities.size === 0) return [];
  const isOutside = unit.credential !== null && !credentials.has(unit.credential);
  const reason = isOutside ? 'outside_relay' : 'missing_here';
  return [{ class: unit.isForeign ? 'currency' : reason, amount: unit.cost, detail: null }];
}

function emptyUnit(
  { fromMs, toMs }: Interval,
  names: Pick<BillUnit, 'model' | 'credential' | 'serviceTier'>,
): BillUnit {
  return {
    fromMs,
    toMs,
    ...names,
    tiers: new Set(),
    requestId: null,
    quantities: new Map(),
    requests: null,
    cost: 0n,
    costLines: 0,
    roundedTo: 1n,
    isForeign: false,
    repeated: 0,
    repeatedCost: 0n,
    places: [],
  };
}
