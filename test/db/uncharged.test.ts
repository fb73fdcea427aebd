import { expect, test } from 'vitest';
import { isUncharged, type ObservedRejection } from '#db/events/admission.ts';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METER_NAMES, METERS } from '#db/limits/meters.ts';
import { correctionBody, reservationBody, settlementBody } from '#db/log/bodies.ts';
import { createDatabase } from '../support/database.ts';
import { connectAs } from '../support/log/log-writer.ts';

const WINDOWS = Object.keys(WINDOW_KINDS) as WindowKind[];
const SUBJECTS = ['account/Account1', 'end_user/Account1/0123456789abcdef'];
const ALL = SUBJECTS.flatMap((subject) =>
  METER_NAMES.flatMap((meter) =>
    WINDOWS.map((window): ObservedRejection => ({ subject, meter, window, limit: 1, needed: 2 })),
  ),
);
const origin = { reference: 'ticket 1', reason: 'it said "observed": nothing', adjusted_by: 'member/1' };

test('SQL and TypeScript exclude the same limits from the charge of a call', async () => {
  await using database = await createDatabase();
  const owner = await connectAs(database, 'owner');
  const named = ALL.filter((_, index) => index % 3 === 0);
  const bodies = [
    [named, reservationBody({ observed: named })],
    [named, settlementBody({ observed: named })],
    [named, correctionBody({ ...origin, observed: named })],
    [undefined, correctionBody(origin)],
    [undefined, settlementBody({ price_plan: 'observed' })],
    [undefined, null],
  ] as const;
  for (const [observed, body] of bodies) {
    const { rows } = await owner.query<{ is_uncharged: boolean }>(
      `select daybook.is_uncharged($1, l.subject, l.meter, l.kind) as is_uncharged
        from unnest($2::text[], $3::smallint[], $4::smallint[]) with ordinality as l(subject, meter, kind, n)
        order by n`,
      [
        body,
        ALL.map(({ subject }) => subject),
        ALL.map(({ meter }) => METERS[meter].code),
        ALL.map(({ window }) => WINDOW_KINDS[window]),
      ],
    );
    expect(rows.map((row) => row.is_uncharged)).toEqual(
      ALL.map((limit) => isUncharged({ observed }, limit.subject, limit)),
    );
  }
  await owner.end();
});
