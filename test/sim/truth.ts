import type { AllowanceName } from '#db/limits/leases.ts';
import type { Limit, TermsLimit } from '#db/limits/limits.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';
import { expectedOverdraft } from '../support/meters.ts';
import { expectedSubjects } from '../support/subjects.ts';
import { chargedUnits, isObserved, type LogRow, nameOf, reservedUnits } from './store.ts';

/** The terms of the accounts and keys from one position of the log on, by the names of holders. */
export type Version = { position: number; holders: ReadonlyMap<string, Held> };
/** The limits of one of them, and the position that they are from. */
export type Held = { position: number; limits: readonly TermsLimit[] };

/** By how much an instance may be ahead of Postgres after jumps. */
const CLOCKS_APART_MS = 3_000;

type Charge = { name: AllowanceName; limit: Limit; isOf: (version: Version) => readonly Limit[] };
type Open = { charges: Charge[]; row: LogRow };

/**
 * What the log alone says of the limits, event by event: of each allowance what was settled and what
 * is held by open requests. A request is judged by the terms that it was admitted under; where a cap
 * has been raised since then, others may rightly have used more.
 */
export class Truth {
  readonly settled = new Map<string, number>();
  readonly violations: string[] = [];
  /** The observed limits that hold less for a call than it may use. */
  readonly outgrown = new Set<string>();
  /** By how much calls have grown, also where an observed limit did not let them. */
  readonly #grown = new Map<string, number>();
  readonly #versions: readonly Version[];
  readonly #overdraft: Record<'tokens' | 'cost', number>;
  readonly #held = new Map<string, number>();
  readonly #open = new Map<string, Open>();
  readonly #ended = new Set<string>();
  /** The most calls that had units of an allowance reserved at the same time. */
  readonly #sharersMost = new Map<string, number>();
  #position = 0;

  /** @param overdraft by how much one call may spend more than it holds. */
  constructor(versions: readonly Version[], overdraft: { tokens: number; cost: number }) {
    this.#versions = versions;
    this.#overdraft = overdraft;
  }

  get openCount(): number {
    return this.#open.size;
  }

  /**
   * Counts the calls that have units reserved now, which each may use more than that. The log does not name
   * those that are admitted by their enforced limits and wait for an observed one.
   */
  look(instances: readonly { counters: ReadonlyMap<string, { reservations: number }> }[]): void {
    const sharers = new Map<string, number>();
    for (const { counters } of instances)
      for (const [key, { reservations }] of counters) add(sharers, key, reservations);
    for (const [key, count] of sharers)
      if (count > (this.#sharersMost.get(key) ?? 0)) this.#sharersMost.set(key, count);
  }

  /** @param nowMs Postgres' time. */
  add(row: LogRow, nowMs: number): void {
    this.#position++;
    switch (row.type) {
      case 'control':
        return;
      case 'accepted':
      case 'extended': {
        const known = this.#open.get(row.request);
        if ((row.type === 'extended') !== (known !== undefined) || this.#ended.has(row.request)) {
          this.violations.push(`request ${row.request}: ${row.type} out of order`);
        }
        const charges = known?.charges ?? this.#chargesOf(row);
        if (known) this.#hold(known, -1);
        if (known) this.#noteGrowth(known, row);
        const open = { charges, row };
        this.#open.set(row.request, open);
        this.#hold(open, 1);
        for (const charge of charges) {
          // A window that is over by anybody's clock does not grow with the hold: its limit is out of force.
          const isOver =
            row.type === 'extended' &&
            windowEnd(charge.name.window, charge.name.start) * 60_000 <= nowMs + CLOCKS_APART_MS;
          if (!isOver) this.#judge(charge, row);
        }
        return;
      }
      case 'settled':
      case 'abandoned': {
        const open = this.#open.get(row.request);
        if (!open) {
          this.violations.push(`request ${row.request}: ${row.type} without being open`);
          return;
        }
        this.#open.delete(row.request);
        this.#ended.add(row.request);
        this.#hold(open, -1);
        for (const { name } of open.charges) add(this.settled, nameOf(name), chargedUnits(name.meter, row));
      }
    }
  }

  #chargesOf(row: LogRow): Charge[] {
    const { minute, terms } = row;
    const now = this.#versions.findLast(({ position }) => position <= terms);
    return expectedSubjects(row).flatMap(({ name: subject, holder, per }) => {
      const isOf = (version: Version): readonly Limit[] =>
        version.holders.get(holder)?.limits.filter((limit) => limit.per === per) ?? [];
      return (now ? isOf(now) : []).flatMap((limit) => {
        const { meter, window, reset } = limit;
        if (isObserved(row, { subject, meter, window })) return [];
        return [{ limit, isOf, name: { subject, meter, window, start: windowStart(window, minute), reset } }];
      });
    });
  }

  #hold({ charges, row }: Open, sign: 1 | -1): void {
    for (const { name } of charges) add(this.#held, nameOf(name), sign * reservedUnits(name.meter, row));
  }

  #noteGrowth({ charges, row: before }: Open, row: LogRow): void {
    for (const { name, limit } of charges)
      if (limit.enforcement === 'observe')
        add(this.#grown, nameOf(name), reservedUnits(name.meter, row) - reservedUnits(name.meter, before));
  }

  #judge({ name, limit, isOf }: Charge, row: LogRow): void {
    const key = nameOf(name);
    const total = (this.settled.get(key) ?? 0) + (this.#held.get(key) ?? 0);
    let cap = 0;
    for (const version of this.#versions) {
      if (version.position >= this.#position) break;
      const next = this.#versions[this.#versions.indexOf(version) + 1];
      if (next && next.position <= row.terms) continue;
      const same = isOf(version).find(
        ({ meter, window, reset }) => meter === name.meter && window === name.window && reset === name.reset,
      );
      cap = Math.max(cap, same?.cap ?? 0);
    }
    const amount = expectedOverdraft(name.meter);
    const more =
      amount !== null && limit.enforcement !== 'hard'
        ? this.#overdraft[amount] * (this.#sharersMost.get(key) ?? 0)
        : 0;
    const most = cap + more + (this.#grown.get(key) ?? 0);
    if (total > most && !this.outgrown.has(key))
      this.violations.push(
        `${key}: ${total} of ${cap}, more by ${more} at most, at position ${this.#position}`,
      );
  }
}

function add(sums: Map<string, number>, key: string, amount: number): void {
  sums.set(key, (sums.get(key) ?? 0) + amount);
}
