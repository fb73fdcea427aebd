import type { DifferenceClass } from '#db/reconcile/classes.ts';
import type { BilledPart } from '#db/reconcile/compare/attempts.ts';
import { type BillUnit, tierOf } from '#db/reconcile/compare/bill-units.ts';
import type { Piece } from '#db/reconcile/compare/decompose.ts';
import type { Recorded } from '#db/reconcile/compare/recorded.ts';

/** Sums that differ because usage is booked under another day, tier, model or credential. Pure. */

/** A sum of the bill and the log's, which differ. */
export type Apart = { unit: BillUnit; recorded: Recorded; isBilled: boolean; isRecorded: boolean };
export type Move = { units: readonly Apart[]; piece: Piece };

/** The surplus of the bill: of each part, and of the cost where no quantities are stated. */
type Surplus = ReadonlyMap<BilledPart | 'cost', bigint>;

/**
 * Finds runs of days of one model, credential and tier whose surpluses cancel each other, pairs of days of
 * which the later has what the earlier lacks, and pairs of sums of one interval that differ in one name only
 * and cancel each other.
 */
export function findMoves(apart: readonly Apart[]): { moves: Move[]; rest: Apart[] } {
  const moves: Move[] = [];
  let rest = [...apart];
  const take = (units: readonly Apart[], reason: DifferenceClass, detail: string | null): void => {
    const amount = units.reduce((sum, { unit, recorded }) => sum + unit.cost - recorded.cost, 0n);
    moves.push({ units, piece: { class: reason, amount, detail } });
    rest = rest.filter((each) => !units.includes(each));
  };
  const series = (): Apart[][] => [
    ...Map.groupBy(rest, ({ unit }) => nameOf(unit, ['model', 'credential', 'serviceTier'])).values(),
  ];
  for (const days of series())
    for (const run of cancellingRuns(days)) take(run, 'day_boundary', describeDays(run));
  for (const days of series())
    for (const [billed, recorded] of cancellingPairs(days))
      if (billed.unit.fromMs > recorded.unit.fromMs)
        take([recorded, billed], 'late_usage', `booked at ${new Date(billed.unit.fromMs).toISOString()}`);
  for (const [name, reason] of [
    ['serviceTier', 'service_tier'],
    ['model', 'model_name'],
    ['credential', 'credential'],
  ] as const) {
    const others = (['model', 'credential', 'serviceTier'] as const).filter((each) => each !== name);
    const groups = Map.groupBy(rest, ({ unit }) => `${unit.fromMs} ${nameOf(unit, others)}`);
    for (const group of groups.values())
      for (const [billed, recorded] of cancellingPairs(group))
        take(
          [billed, recorded],
          reason,
          `billed as ${billed.unit[name] ?? 'standard'}, recorded as ${recorded.unit[name] ?? 'standard'}`,
        );
  }
  return { moves, rest };
}

const nameOf = (unit: BillUnit, names: readonly ('model' | 'credential' | 'serviceTier')[]): string =>
  JSON.stringify(names.map((name) => (name === 'serviceTier' ? tierOf(unit[name]) : unit[name])));

const describeDays = (run: readonly Apart[]): string =>
  `${new Date((run[0] as Apart).unit.fromMs).toISOString()} to ` +
  new Date((run.at(-1) as Apart).unit.toMs).toISOString();

function surplusOf({ unit, recorded }: Apart, hasQuantities: boolean): Surplus {
  const surplus = new Map<BilledPart | 'cost', bigint>();
  const add = (part: BilledPart | 'cost', amount: bigint): void => {
    const sum = (surplus.get(part) ?? 0n) + amount;
    if (sum === 0n) surplus.delete(part);
    else surplus.set(part, sum);
  };
  if (!hasQuantities) {
    add('cost', unit.cost - recorded.cost);
    return surplus;
  }
  for (const [part, quantity] of unit.quantities) if (part !== 'requests') add(part, quantity);
  for (const [part, quantity] of recorded.quantities) add(part, -quantity);
  return surplus;
}

/** Consecutive sums whose surpluses add up to nothing, the first and shortest of each start. */
function cancellingRuns(days: readonly Apart[]): Apart[][] {
  const hasQuantities = days.some(({ unit }) => unit.quantities.size > 0);
  const ordered = days.toSorted((a, b) => a.unit.fromMs - b.unit.fromMs);
  const surpluses = ordered.map((day) => surplusOf(day, hasQuantities));
  const runs: Apart[][] = [];
  for (let start = 0; start < ordered.length;) {
    const end = endOfRun(ordered, surpluses, start);
    if (end !== null) runs.push(ordered.slice(start, end));
    start = end ?? start + 1;
  }
  return runs;
}

/** The end of the shortest run from a start, exclusive; null: none cancels. */
function endOfRun(days: readonly Apart[], surpluses: readonly Surplus[], start: number): number | null {
  const sum = new Map<BilledPart | 'cost', bigint>();
  for (let at = start; at < days.length; at++) {
    const [day, previous] = [days[at] as Apart, days[at - 1]];
    const surplus = surpluses[at] as Surplus;
    if (surplus.size === 0 || (at > start && day.unit.fromMs !== previous?.unit.toMs)) return null;
    for (const [part, amount] of surplus) {
      const total = (sum.get(part) ?? 0n) + amount;
      if (total === 0n) sum.delete(part);
      else sum.set(part, total);
    }
    if (sum.size === 0) return at + 1;
  }
  return null;
}

/** Sums of which one has what the other lacks. */
function cancellingPairs(group: readonly Apart[]): [billed: Apart, recorded: Apart][] {
  const hasQuantities = group.some(({ unit }) => unit.quantities.size > 0);
  const textOf = (surplus: Surplus, sign: bigint): string =>
    [...surplus]
      .map(([part, amount]) => `${part} ${amount * sign}`)
      .toSorted()
      .join('\n');
  const lacking = new Map<string, Apart>();
  const pairs: [Apart, Apart][] = [];
  const isSurplus = (each: Apart): boolean =>
    [...surplusOf(each, hasQuantities).values()].reduce((sum, amount) => sum + amount, 0n) > 0n;
  for (const each of group)
    if (!isSurplus(each)) lacking.set(textOf(surplusOf(each, hasQuantities), -1n), each);
  for (const each of group.filter(isSurplus)) {
    const key = textOf(surplusOf(each, hasQuantities), 1n);
    const other = lacking.get(key);
    if (other === undefined) continue;
    lacking.delete(key);
    pairs.push([each, other]);
  }
  return pairs;
}
