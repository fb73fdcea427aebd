import type { ObservedRejection } from '#db/events/admission.ts';
import type {
  AllowanceName,
  LeaseResponse,
  LeaseRequest,
  Grant,
  LeaseLineResponse,
} from '#db/limits/leases.ts';
import type { Meter } from '#db/limits/meters.ts';
import { windowStart } from '#db/limits/windows.ts';
import { expectedAbandoned, expectedReserved, expectedSettled } from '../support/meters.ts';
import { type Charged, expectedSubjects } from '../support/subjects.ts';

/**
 * Allowances, leases and the log's requests as the store keeps them: a twin of `daybook.exchange`,
 * `close_leases` and `recover_instance` in plain words, over rows in memory. It is the specification
 * of those functions, which test/db/leases.test.ts holds them to, and the store of the simulation.
 */
export type AllowanceRow = {
  id: number;
  name: AllowanceName;
  cap: number;
  ceiling: number;
  granted: number;
  returned: number;
  overdrawn: number;
  used: number;
  held: number;
  terms: number;
  sharers: number;
  near: boolean;
  shortUntilMs: number;
};

export type LeaseRow = {
  granted: number;
  returned: number;
  used: number;
  overdrawn: number;
  held: number;
  position: number;
  since: number;
  strict: boolean;
  closed: boolean;
};

/** What the log tells of a request. Its place in the list is its position, less one. */
export type LogRow = Charged & {
  type: 'accepted' | 'extended' | 'settled' | 'abandoned' | 'control';
  instance: number;
  request: string;
  /** Of a settled request what it spent, else its hold. */
  tokens: number;
  cost: number;
  minute: number;
  terms: number;
  /** The observed limits that it isn't charged to. */
  observed?: readonly Pick<ObservedRejection, 'subject' | 'meter' | 'window'>[] | undefined;
};

/** The constraint of the table has stopped a write. */
export class CeilingError extends Error {
  override name = 'CeilingError';
}

/** The instance is not live and may not spend or append. */
export class DeadError extends Error {
  override name = 'DeadError';
}

/** As in 0005_leases.sql. */
const SHORT_MS = 2_000;

type Line = {
  allowance: AllowanceRow;
  lease: LeaseRow;
  before: number;
  wasNear: boolean;
  isRecalled: boolean;
  free: number;
};

export class SimStore {
  readonly allowances = new Map<string, AllowanceRow>();
  readonly leases = new Map<number, Map<number, LeaseRow>>();
  readonly log: LogRow[] = [];
  /** Called for each notification, with the allowance's number. */
  onRecall: (allowance: number) => void = () => undefined;
  readonly #live = new Set<number>();
  readonly #unclosed = new Set<number>();
  #instances = 0;

  register(): number {
    this.#live.add(++this.#instances);
    this.#unclosed.add(this.#instances);
    return this.#instances;
  }

  isLive(instance: number): boolean {
    return this.#live.has(instance);
  }

  /** @returns the position of the last one. */
  append(rows: readonly LogRow[]): number {
    for (const { instance } of rows) if (!this.#live.has(instance)) throw new DeadError();
    return this.log.push(...rows);
  }

  exchange(
    instance: number,
    { position, lines: told, requests }: LeaseRequest,
    nowMs: number,
  ): LeaseResponse {
    if (!this.#live.has(instance)) throw new DeadError();
    const lines = told.map((line): Line => {
      const allowance = this.#allowance(line);
      const lease = this.#lease(allowance, instance, position, line.since);
      const wasNear = allowance.near;
      if (line.terms > allowance.terms) Object.assign(allowance, { cap: line.cap, terms: line.terms });
      for (const total of ['returned', 'used', 'overdrawn'] as const) {
        allowance[total] += Math.max(0, line[total] - lease[total]);
        lease[total] = Math.max(line[total], lease[total]);
      }
      allowance.held += line.held - lease.held;
      lease.held = line.held;
      lease.since = Math.min(lease.since, line.since);
      lease.position = Math.max(lease.position, position);
      allowance.ceiling = Math.max(allowance.cap, allowance.granted - allowance.returned);
      const free = allowance.cap - (allowance.granted - allowance.returned) - allowance.overdrawn;
      return { allowance, lease, before: lease.granted, wasNear, isRecalled: false, free };
    });
    const grant = (line: Line, amount: number): void => {
      line.free -= amount;
      line.lease.granted += amount;
      line.allowance.granted += amount;
    };

    const given = requests.map((needs): Grant => {
      const short = needs.find(({ line, minimum }) => minimum > (lines[line] as Line).free);
      if (short) {
        const line = lines[short.line] as Line;
        if (short.minimum <= line.allowance.cap - line.allowance.used - line.allowance.overdrawn)
          line.isRecalled = true;
        return { shortOf: short.line };
      }
      const amounts = needs.map(({ line, wanted }) => Math.min(wanted, (lines[line] as Line).free));
      for (const [index, need] of needs.entries()) grant(lines[need.line] as Line, amounts[index] as number);
      return { amounts };
    });

    const answers = lines.map((line, index): LeaseLineResponse => {
      const { allowance, lease, wasNear, isRecalled } = line;
      const { stock, strict, closes } = told[index] as LeaseRequest['lines'][number];
      const threshold = Math.ceil(allowance.cap / 20);
      if (isRecalled) allowance.shortUntilMs = nowMs + SHORT_MS;
      const isShort = allowance.shortUntilMs >= nowMs;
      if (stock > 0 && !isShort && !(wasNear && line.free < 2 * threshold)) {
        const amount = Math.min(
          stock,
          Math.trunc(line.free / (2 * allowance.sharers)),
          line.free - threshold,
        );
        if (amount > 0) grant(line, amount);
      }
      allowance.near = line.free < threshold || isShort || (wasNear && line.free < 2 * threshold);
      lease.strict = strict && allowance.near;
      if (closes && lease.held === 0 && lease.granted - lease.returned === lease.used) {
        lease.closed = true;
        allowance.sharers--;
      }
      this.#check(allowance);
      const others = [...(this.leases.get(allowance.id) ?? [])]
        .filter(([id]) => id !== instance)
        .map(([, each]) => each);
      const recallable =
        allowance.near &&
        others.some((each) => !each.strict && !each.closed && each.granted - each.returned > each.used);
      if (recallable && (!wasNear || isRecalled)) this.onRecall(allowance.id);
      const { returned, used, overdrawn } = lease;
      return {
        allowance: allowance.id,
        cap: allowance.cap,
        granted: lease.granted,
        free: line.free,
        near: allowance.near,
        used: allowance.used + allowance.overdrawn,
        held: allowance.held,
        recallable,
        own: { returned, used, overdrawn },
      };
    });
    return { lines: answers, requests: given, now: new Date(nowMs) };
  }

  fence(instance: number): void {
    this.#live.delete(instance);
  }

  /** Ends an instance that has nothing open. */
  retire(instance: number, nowMs: number): void {
    if (!this.#live.delete(instance)) return;
    this.#unclosed.delete(instance);
    this.#close(instance, [], nowMs);
  }

  /** @returns how many requests were abandoned. */
  recover(dead: number, by: number, nowMs: number): number {
    if (this.#live.has(dead) || !this.#unclosed.delete(dead)) return 0;
    const open = new Map<string, LogRow>();
    for (const row of this.log) {
      if (row.type === 'settled' || row.type === 'abandoned') open.delete(row.request);
      else if (row.instance === dead && row.type !== 'control') open.set(row.request, row);
    }
    const left = [...open.values()].toSorted((a, b) => (a.request < b.request ? -1 : 1));
    this.#close(dead, left, nowMs);
    this.append(left.map((row) => ({ ...row, type: 'abandoned', instance: by })));
    return left.length;
  }

  leaseOf(name: AllowanceName, instance: number): LeaseRow | undefined {
    return this.leases.get(this.allowances.get(nameOf(name))?.id ?? 0)?.get(instance);
  }

  /** From the log: what was settled after the last report, and the whole of each open hold, stay spent. */
  #close(instance: number, open: readonly LogRow[], nowMs: number): void {
    const own = [...this.allowances.values()].flatMap((allowance) => {
      const lease = this.leases.get(allowance.id)?.get(instance);
      return lease && !lease.closed ? [{ allowance, lease }] : [];
    });
    for (const { allowance, lease } of own) {
      const { subject, meter, window, start, reset } = allowance.name;
      const charges = (row: LogRow): boolean => {
        const same = [...this.allowances.values()].filter(
          ({ name }) =>
            name.subject === subject &&
            name.meter === meter &&
            name.window === window &&
            name.start === start,
        );
        const resets = same.map(({ name }) => name.reset).filter((each) => each <= row.terms);
        return (
          expectedSubjects(row).some(({ name }) => name === subject) &&
          !isObserved(row, allowance.name) &&
          windowStart(window, row.minute) === start &&
          row.terms >= lease.since &&
          reset === Math.max(...resets)
        );
      };
      const left = lease.granted - lease.returned;
      // Else nothing was left to spend, or the window limits nothing any more: it is as it was reported.
      const isLive = left > lease.used && start >= windowStart(window, Math.floor(nowMs / 60_000) - 1);
      const settled = this.log
        .slice(lease.position)
        .filter((row) => row.type === 'settled' && row.instance === instance);
      const charged = isLive ? [...settled, ...open].filter(charges) : [];
      const spent = lease.used + sum(charged.map((row) => chargedUnits(meter, row)));
      const used = Math.min(spent, left);
      allowance.used += used - lease.used;
      allowance.overdrawn += Math.max(0, spent - left);
      allowance.returned += left - used;
      allowance.held -= lease.held;
      allowance.sharers--;
      allowance.ceiling = Math.max(allowance.cap, allowance.granted - allowance.returned);
      Object.assign(lease, {
        returned: lease.granted - used,
        used,
        overdrawn: lease.overdrawn + Math.max(0, spent - left),
        held: 0,
        closed: true,
      });
      this.#check(allowance);
    }
  }

  #allowance(line: LeaseRequest['lines'][number]): AllowanceRow {
    const { subject, meter, window, start, reset, cap, terms } = line;
    const key = nameOf(line);
    let row = this.allowances.get(key);
    if (!row) {
      const counts = { granted: 0, returned: 0, overdrawn: 0, used: 0, held: 0, sharers: 0 };
      const name = { subject, meter, window, start, reset };
      row = {
        id: this.allowances.size + 1,
        name,
        cap,
        ceiling: cap,
        terms,
        near: false,
        shortUntilMs: -Infinity,
        ...counts,
      };
      this.allowances.set(key, row);
      this.leases.set(row.id, new Map());
    }
    return row;
  }

  #lease(allowance: AllowanceRow, instance: number, position: number, since: number): LeaseRow {
    const leases = this.leases.get(allowance.id) as Map<number, LeaseRow>;
    let row = leases.get(instance);
    if (!row) {
      row = {
        granted: 0,
        returned: 0,
        used: 0,
        overdrawn: 0,
        held: 0,
        position,
        since,
        strict: false,
        closed: false,
      };
      leases.set(instance, row);
      allowance.sharers++;
    } else if (row.closed) {
      Object.assign(row, { closed: false, since });
      allowance.sharers++;
    }
    return row;
  }

  #check(row: AllowanceRow): void {
    if (row.granted - row.returned > row.ceiling)
      throw new CeilingError(`${nameOf(row.name)}: ${JSON.stringify(row)}`);
  }
}

/** Whether an observed limit would have rejected a request. */
export const isObserved = (
  { observed = [] }: Pick<LogRow, 'observed'>,
  { subject, meter, window }: Pick<AllowanceName, 'subject' | 'meter' | 'window'>,
): boolean =>
  observed.some((each) => each.subject === subject && each.meter === meter && each.window === window);

export function nameOf({ subject, meter, window, start, reset }: AllowanceName): string {
  return `${subject} ${meter} ${window} ${start} ${reset}`;
}

/** What a settled or open request charges to a limit. */

type Amounts = Pick<LogRow, 'tokens' | 'cost'>;

/** The units that an open request holds. */
export const reservedUnits = (meter: Meter, { tokens, cost }: Amounts): number =>
  expectedReserved(meter, { hold_tokens: tokens, hold_cost_nanousd: cost });

/**
 * The units that an ended request is charged. The simulation doesn't separate the tokens of prompts and
 * completions.
 */
export const chargedUnits = (meter: Meter, { type, tokens, cost }: LogRow): number =>
  type === 'settled'
    ? expectedSettled(meter, { input_tokens: tokens, output_tokens: 0, cost_nanousd: cost })
    : expectedAbandoned(meter, { hold_tokens: tokens, hold_cost_nanousd: cost });

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
