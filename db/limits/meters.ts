import type { Corrections } from '#db/events/usage-events.ts';

/**
 * The meters: what a limit can count, one row each. Pure.
 *
 * Admission, the projection of quotas, the audit's replay, recovery, messages and pages read a
 * meter's row and never its name, so none of them can mistake a new meter for another one. A new
 * meter needs its row here, its line in `daybook.charged_units`, its line in the tests' own table
 * (test/support/meters.ts), and its description in docs/limits.md; a test compares all of them.
 */

/** The amounts that a request reserves. `cost` is in nano-dollars. */
export type Amounts = { tokens: number; cost: number };

/** The usage that a request settles with: fields of `request.settled`. */
export type Usage = { input_tokens: number; output_tokens: number; cost_nanousd?: number | undefined };

/** The reservation in `request.accepted`, `request.extended` and `request.abandoned`. */
type ReservationFields = { hold_tokens: number; hold_cost_nanousd?: number | undefined };

type MeterRow = {
  /** Stored in allowances and projections. Never reused, and its meaning never changes. */
  code: number;
  /** In the name of a limit: "monthly tokens". */
  name: string;
  /** One unit and several, in messages: "1 request", "2 requests". */
  units: readonly [one: string, several: string];
  /** `nanousd`: amounts are nano-dollars, shown as dollars. */
  format: 'count' | 'nanousd';
} & (
  | { /** One unit for each request, known at its admission. */ charged: 'per_request' }
  | { /** One unit while the request runs, and none afterwards. */ charged: 'while_running' }
  | {
      /** Reserved from an estimate at admission, and settled with the reported usage. */
      charged: 'by_usage';
      /** The amount that bounds the usage while the request runs. */
      reserves: keyof Amounts;
      settled: (usage: Usage) => number;
    }
);

export const METERS = {
  requests: {
    code: 1,
    name: 'requests',
    units: ['request', 'requests'],
    format: 'count',
    charged: 'per_request',
  },
  tokens: {
    code: 2,
    name: 'tokens',
    units: ['token', 'tokens'],
    format: 'count',
    charged: 'by_usage',
    reserves: 'tokens',
    settled: ({ input_tokens, output_tokens }) => input_tokens + output_tokens,
  },
  cost_nanousd: {
    code: 3,
    name: 'cost',
    units: ['nano-dollar', 'nano-dollars'],
    format: 'nanousd',
    charged: 'by_usage',
    reserves: 'cost',
    settled: ({ cost_nanousd }) => cost_nanousd ?? 0,
  },
  concurrent: {
    code: 4,
    name: 'concurrent requests',
    units: ['request', 'requests'],
    format: 'count',
    charged: 'while_running',
  },
} as const satisfies Record<string, MeterRow>;

export type Meter = keyof typeof METERS;
type Gauge = { [M in Meter]: (typeof METERS)[M]['charged'] extends 'while_running' ? M : never }[Meter];
/** The meters that a quota can count: those that add up over a window. */
export type QuotaMeter = Exclude<Meter, Gauge>;

const rowOf = (meter: Meter): MeterRow => METERS[meter];

export const METER_NAMES = Object.keys(METERS) as readonly Meter[];
export const QUOTA_METERS = METER_NAMES.filter(
  (meter): meter is QuotaMeter => rowOf(meter).charged !== 'while_running',
);
/** The meter that each stored code stands for. A newer version's code has none. */
export const METER_OF: ReadonlyMap<number, Meter> = new Map(
  METER_NAMES.map((meter) => [METERS[meter].code, meter]),
);

/** Whether its units depend on the usage: they are estimated, may grow, and may exceed a soft limit. */
export function isByUsage(meter: Meter): boolean {
  return rowOf(meter).charged === 'by_usage';
}

/** The amount that bounds the meter's usage; null where usage does not matter. */
export function reservedAmount(meter: Meter): keyof Amounts | null {
  const row = rowOf(meter);
  return row.charged === 'by_usage' ? row.reserves : null;
}

/** Whether a finished request can give units back: all but those charged for the request itself. */
export function returnsUnits(meter: Meter): boolean {
  return rowOf(meter).charged !== 'per_request';
}

/** The amounts of the reservation in an event. */
export function amountsOf({ hold_tokens, hold_cost_nanousd }: ReservationFields): Amounts {
  return { tokens: hold_tokens, cost: hold_cost_nanousd ?? 0 };
}

/** The units that a request reserves while it runs. */
export function unitsReserved(meter: Meter, amounts: Amounts): number {
  const row = rowOf(meter);
  switch (row.charged) {
    case 'per_request':
    case 'while_running':
      return 1;
    case 'by_usage':
      return amounts[row.reserves];
  }
}

/** The units that a settled request is charged. */
export function unitsSettled(meter: Meter, usage: Usage): number {
  const row = rowOf(meter);
  switch (row.charged) {
    case 'per_request':
      return 1;
    case 'while_running':
      return 0;
    case 'by_usage':
      return row.settled(usage);
  }
}

/** The units that a correction adds to the charge of its request; below zero they are given back. */
export function unitsCorrected(
  meter: Meter,
  { input_tokens = 0, output_tokens = 0, hold_tokens = 0, cost_nanousd = 0 }: Corrections,
): number {
  // Of an abandoned request the tokens of its reservation are charged, in place of usage.
  const usage = { input_tokens: input_tokens + hold_tokens, output_tokens, cost_nanousd };
  return isByUsage(meter) ? unitsSettled(meter, usage) : 0;
}

/** The units that an abandoned request is charged: those that recovery left of its reservation. */
export function unitsAbandoned(meter: Meter, amounts: Amounts): number {
  return rowOf(meter).charged === 'while_running' ? 0 : unitsReserved(meter, amounts);
}
