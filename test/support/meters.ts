import type { Meter } from '#db/limits/meters.ts';

/**
 * The tests' own account of the units that each meter counts, independent of db/limits/meters.ts,
 * which it judges.
 */

type Reservation = { hold_tokens: number; hold_cost_nanousd?: number | undefined };
type Settlement = { input_tokens: number; output_tokens: number; cost_nanousd?: number | undefined };

type Expected = {
  reserved: (event: Reservation) => number;
  settled: (event: Settlement) => number;
  /** By which amount a soft limit may be exceeded; null where it never is. */
  overdraws: 'tokens' | 'cost' | null;
};

const tokens = ({ hold_tokens }: Reservation): number => hold_tokens;
const cost = ({ hold_cost_nanousd }: Reservation): number => hold_cost_nanousd ?? 0;

const EXPECTED: Record<Meter, Expected> = {
  requests: { reserved: () => 1, settled: () => 1, overdraws: null },
  tokens: {
    reserved: tokens,
    settled: ({ input_tokens, output_tokens }) => input_tokens + output_tokens,
    overdraws: 'tokens',
  },
  cost_nanousd: { reserved: cost, settled: ({ cost_nanousd }) => cost_nanousd ?? 0, overdraws: 'cost' },
  concurrent: { reserved: () => 1, settled: () => 0, overdraws: null },
};

/** The units that a running request holds. */
export const expectedReserved = (meter: Meter, event: Reservation): number => EXPECTED[meter].reserved(event);

/** The units that a settled request is charged. */
export const expectedSettled = (meter: Meter, event: Settlement): number => EXPECTED[meter].settled(event);

/** The units that an abandoned request is charged. */
export const expectedAbandoned = (meter: Meter, event: Reservation): number =>
  meter === 'concurrent' ? 0 : EXPECTED[meter].reserved(event);

type Correction = { [Field in keyof Settlement | 'hold_tokens']?: number | undefined };
/** The units that a correction adds to the charge of a request. */
export function expectedCorrected(meter: Meter, event: Correction): number {
  if (meter === 'cost_nanousd') return event.cost_nanousd ?? 0;
  if (meter !== 'tokens') return 0;
  return (event.input_tokens ?? 0) + (event.output_tokens ?? 0) + (event.hold_tokens ?? 0);
}

export const expectedOverdraft = (meter: Meter): Expected['overdraws'] => EXPECTED[meter].overdraws;
