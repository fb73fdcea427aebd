import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { EVENT_CODES } from '#db/events/events.ts';
import { METER_NAMES, METERS } from '#db/limits/meters.ts';
import { createDatabase } from '../support/database.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { expectedAbandoned, expectedSettled } from '../support/meters.ts';

const units = fc.nat(2_000_000_000);
const optional = fc.option(units, { nil: undefined });
const event = fc.record({
  hold_tokens: units,
  hold_cost_nanousd: optional,
  input_tokens: units,
  output_tokens: units,
  cost_nanousd: optional,
});

test('SQL counts the same units of every meter as TypeScript', async () => {
  await using database = await createDatabase();
  const owner = await connectAs(database, 'owner');
  const columns = METER_NAMES.flatMap((meter) =>
    (['request.settled', 'request.abandoned'] as const).map(
      (type) => `daybook.charged_units(${METERS[meter].code}::smallint,
        jsonb_populate_record(null::daybook.event_fields,
          to_jsonb(event) || '{"type": ${EVENT_CODES[type]}}'))`,
    ),
  );
  await fc.assert(
    fc.asyncProperty(event, async (fields) => {
      const { rows } = await owner.query<unknown[]>({
        text: `select ${columns.join(', ')} from jsonb_populate_record(null::daybook.event_fields, $1) event`,
        values: [fields],
        rowMode: 'array',
      });
      expect(rows[0]).toEqual(
        METER_NAMES.flatMap((meter) =>
          [expectedSettled(meter, fields), expectedAbandoned(meter, fields)].map(String),
        ),
      );
    }),
    { numRuns: 50 },
  );
  await owner.end();
});
