import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  amountsOf,
  isByUsage,
  METER_NAMES,
  METER_OF,
  METERS,
  QUOTA_METERS,
  reservedAmount,
  unitsAbandoned,
  unitsReserved,
  unitsSettled,
} from '#db/limits/meters.ts';
import {
  expectedAbandoned,
  expectedOverdraft,
  expectedReserved,
  expectedSettled,
} from '../../support/meters.ts';

const units = fc.nat(1_000_000);
const optional = fc.option(units, { nil: undefined });
const reservation = fc.record({ hold_tokens: units, hold_cost_nanousd: optional });
const settlement = fc.record({ input_tokens: units, output_tokens: units, cost_nanousd: optional });

describe.each(METER_NAMES)('the meter %s', (meter) => {
  test('reserves, settles and charges an abandoned request as the tests expect', () => {
    fc.assert(
      fc.property(reservation, settlement, (reserved, settled) => {
        expect([
          unitsReserved(meter, amountsOf(reserved)),
          unitsSettled(meter, settled),
          unitsAbandoned(meter, amountsOf(reserved)),
        ]).toEqual([
          expectedReserved(meter, reserved),
          expectedSettled(meter, settled),
          expectedAbandoned(meter, reserved),
        ]);
      }),
    );
  });

  test('may exceed a soft limit only if its units depend on the usage', () => {
    expect(reservedAmount(meter)).toBe(expectedOverdraft(meter));
    expect(isByUsage(meter)).toBe(expectedOverdraft(meter) !== null);
  });
});

test('each meter has a code of its own', () => {
  expect(METER_OF.size).toBe(METER_NAMES.length);
  for (const meter of METER_NAMES) expect(METER_OF.get(METERS[meter].code)).toBe(meter);
});

test('a quota can count every meter except concurrent requests', () => {
  expect([...QUOTA_METERS, 'concurrent'].toSorted()).toEqual(METER_NAMES.toSorted());
});
