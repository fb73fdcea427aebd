import { CLOCK_SKEW_MS, UNMATCHED_MAX } from '#db/reconcile/bounds.ts';
import type { BilledPart, RecordedAttempt } from '#db/reconcile/compare/attempts.ts';
import { type BillUnit, tierOf } from '#db/reconcile/compare/bill-units.ts';
import {
  changedParts,
  type DecomposeContext,
  decompose,
  type Piece,
} from '#db/reconcile/compare/decompose.ts';
import type { Cell } from '#db/reconcile/compare/findings.ts';
import { addAttempt, emptyRecorded, type Recorded } from '#db/reconcile/compare/recorded.ts';

type Sink = {
  context: DecomposeContext;
  found: (unit: BillUnit | null, attempt: RecordedAttempt | null, pieces: readonly Piece[]) => void;
  /** Calls beyond the bound; `day` is a moment of the day, in ms since 1970. */
  summed: (cell: Cell, cost: bigint, count: number) => void;
};

const DAY_MS = 86_400_000;
const SLOT_MS = 60_000;
/** Longer calls are found by their first hours only. */
const SLOTS_MAX = 240;

/**
 * Requests of a bill that no call of the log has the id of, and calls that the bill has no id of. They are
 * matched by time, model and usage where that leaves no doubt, and otherwise each is missing on one side.
 */
export class Leftovers {
  readonly #parts: ReadonlySet<BilledPart>;
  readonly #attempts: RecordedAttempt[] = [];
  readonly #summed = new Map<string, { cell: Cell; cost: bigint; count: number }>();

  /** @param parts the parts that the bill states. */
  constructor(parts: ReadonlySet<BilledPart>) {
    this.#parts = parts;
  }

  add(attempt: RecordedAttempt): void {
    if (this.#attempts.length < UNMATCHED_MAX) {
      this.#attempts.push(attempt);
      return;
    }
    if (attempt.cost === 0n) return;
    const cell = {
      day: String(Math.floor(attempt.startMs / DAY_MS) * DAY_MS),
      model: attempt.names[0] ?? null,
      credential: attempt.credential,
      service_tier: tierOf(attempt.serviceTier),
    };
    const key = JSON.stringify(cell);
    const sum = this.#summed.get(key) ?? { cell, cost: 0n, count: 0 };
    this.#summed.set(key, sum);
    sum.cost += attempt.cost;
    sum.count++;
  }

  /** @param credentials those of the relay. */
  match(units: readonly BillUnit[], credentials: ReadonlySet<string>, sink: Sink): void {
    const open = new OpenAttempts(this.#attempts);
    let rest: BillUnit[] = [];
    const take = (unit: BillUnit, attempt: RecordedAttempt | undefined): boolean => {
      if (attempt === undefined) return false;
      open.delete(attempt);
      const note: Piece[] =
        unit.requestId === null ? [{ class: 'request_id', amount: 0n, detail: null }] : [];
      sink.found(unit, attempt, [
        ...note,
        ...repeatedPiece(unit),
        ...decompose(unit, this.#recordedOf(attempt), sink.context),
      ]);
      return true;
    };
    // A report of usage is matched first, since it leaves the least doubt.
    for (const unit of units) {
      const isEqual = (attempt: RecordedAttempt): boolean =>
        attempt.ending === 'reported' && this.#hasEqualUsage(attempt, unit);
      if (unit.requestId !== null || !take(unit, open.find(unit, CLOCK_SKEW_MS, isEqual))) rest.push(unit);
    }
    const isUnnamed = ({ ending, providerRequest }: RecordedAttempt): boolean =>
      ending !== 'reported' && providerRequest === null;
    // A call that ran at the very time of the line before one that ran near it.
    for (const skewMs of [0, CLOCK_SKEW_MS])
      rest = rest.filter((unit) => !take(unit, open.find(unit, skewMs, isUnnamed)));
    for (const unit of rest) {
      const isOutside = unit.credential !== null && !credentials.has(unit.credential);
      const reason = isOutside ? 'outside_relay' : 'missing_here';
      sink.found(unit, null, [
        ...repeatedPiece(unit),
        { class: unit.isForeign ? 'currency' : reason, amount: unit.cost, detail: null },
      ]);
    }
    for (const attempt of open.all) {
      if (attempt.cost === 0n) continue;
      const reason = attempt.ending === 'abandoned' ? 'unknown_ending' : 'missing_there';
      sink.found(null, attempt, [{ class: reason, amount: -attempt.cost, detail: null }]);
    }
    for (const { cell, cost, count } of this.#summed.values()) sink.summed(cell, cost, count);
  }

  #recordedOf(attempt: RecordedAttempt): Recorded {
    const recorded = emptyRecorded();
    addAttempt(recorded, attempt, this.#parts, 1);
    return recorded;
  }

  #hasEqualUsage(attempt: RecordedAttempt, unit: BillUnit): boolean {
    if (unit.quantities.size === 0) return unit.cost === attempt.cost;
    return changedParts(unit.quantities, this.#recordedOf(attempt).quantities).length === 0;
  }
}

/** Calls without a line, found by the time at which they ran. */
class OpenAttempts {
  readonly #open: Set<RecordedAttempt>;
  readonly #bySlot = new Map<number, RecordedAttempt[]>();

  constructor(attempts: readonly RecordedAttempt[]) {
    this.#open = new Set(attempts.toSorted((a, b) => a.startMs - b.startMs));
    for (const attempt of this.#open) {
      const first = slotOf(attempt.startMs);
      const last = Math.min(slotOf(attempt.endMs), first + SLOTS_MAX);
      for (let slot = first; slot <= last; slot++) {
        const others = this.#bySlot.get(slot);
        if (others) others.push(attempt);
        else this.#bySlot.set(slot, [attempt]);
      }
    }
  }

  get all(): Iterable<RecordedAttempt> {
    return this.#open;
  }

  delete(attempt: RecordedAttempt): void {
    this.#open.delete(attempt);
  }

  /** The first call that ran within so many ms of a line. */
  find(
    unit: BillUnit,
    skewMs: number,
    isMatch: (attempt: RecordedAttempt) => boolean,
  ): RecordedAttempt | undefined {
    const { fromMs, toMs } = unit;
    for (let slot = slotOf(fromMs - skewMs); slot <= slotOf(fromMs + skewMs); slot++)
      for (const attempt of this.#bySlot.get(slot) ?? []) {
        if (!this.#open.has(attempt) || !isAlike(attempt, unit)) continue;
        const isAtTime = fromMs <= attempt.endMs + skewMs && toMs >= attempt.startMs - skewMs;
        if (isAtTime && isMatch(attempt)) return attempt;
      }
    return undefined;
  }
}

const slotOf = (ms: number): number => Math.floor(ms / SLOT_MS);

/** Whether nothing that both state contradicts that they are one request. */
function isAlike(attempt: RecordedAttempt, { model, credential }: BillUnit): boolean {
  const { names } = attempt;
  return (
    (model === null || names.includes(model)) &&
    (credential === null || attempt.credential === null || attempt.credential === credential)
  );
}

const repeatedPiece = ({ repeated, repeatedCost }: BillUnit): Piece[] =>
  repeated > 0 ? [{ class: 'duplicate', amount: repeatedCost, detail: null }] : [];
