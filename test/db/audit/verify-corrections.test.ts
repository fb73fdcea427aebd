import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type AuditedLog, createAuditedLog } from '../../support/audit/audited-log.ts';

/** `daybook.correction`, which has the corrections of requests once more. */

let log: AuditedLog;
/** The position of its newest row. */
let newest: number;
beforeAll(async () => {
  log = await createAuditedLog();
  const { rows } = await log.superuser.query<{ newest: number }>(
    'select max(position)::float8 as newest from daybook.correction',
  );
  newest = rows[0]?.newest as number;
});
afterAll(() => log?.[Symbol.asyncDispose]());

const OF_NEWEST = 'position = (select max(position) from daybook.correction)';
/** Another value of a column's type. */
const CHANGED: Record<string, (column: string) => string> = {
  smallint: (column) => `coalesce(${column}, 0) # 1::smallint`,
  integer: (column) => `coalesce(${column}, 0) # 1`,
  bigint: (column) => `coalesce(${column}, 0) # 1`,
  text: (column) => `coalesce(${column}, '') || 'x'`,
  uuid: () => 'gen_random_uuid()',
  'timestamp with time zone': (column) => `${column} + interval '1 microsecond'`,
};

describe('verify of a changed row of correction', () => {
  test('verify: another value in any of its columns is located, by the log alone', async () => {
    const { rows } = await log.superuser.query<{ column: string; type: string }>(
      `select column_name as column, data_type as type from information_schema.columns
        where table_schema = 'daybook' and table_name = 'correction' and column_name <> 'position'`,
    );
    expect(rows.length).toBeGreaterThan(20);
    for (const { column, type } of rows) {
      const change = CHANGED[type]?.(column);
      const { findings } = await log.after(
        [`update daybook.correction set ${column} = ${change} where ${OF_NEWEST}`],
        {},
      );
      expect(findings, column).toEqual([
        {
          position: newest,
          table: 'correction',
          problem: `the row of position ${newest} has another ${column} than the event of the log`,
        },
      ]);
    }
  });

  test.each<[what: string, change: string, expected: () => [position: number, problem: string][]]>([
    [
      'without an end to its time',
      `update daybook.correction set at = 'infinity' where ${OF_NEWEST}`,
      () => [[newest, 'has another at than']],
    ],
    ['that was removed', `delete from daybook.correction where ${OF_NEWEST}`, () => [[newest, 'is missing']]],
    [
      'that was moved',
      `update daybook.correction set position = 1 where ${OF_NEWEST}`,
      () => [
        [1, 'is not a correction'],
        [newest, 'is missing'],
      ],
    ],
    ...(['-5', '2', 'daybook.head(0::smallint) + 7'] as const).map(
      (position): [string, string, () => [number, string][]] => [
        `that was inserted at ${position}`,
        `create temp table added on commit drop as select * from daybook.correction where ${OF_NEWEST};
        update added set position = ${position}, request = gen_random_uuid();
        insert into daybook.correction select * from added`,
        () => [[position.startsWith('daybook') ? log.head + 7 : Number(position), 'is not a correction']],
      ],
    ),
  ])('verify: a row %s is located', async (_what, change, expected) => {
    for (const by of [log.evidence, {}]) {
      const { findings } = await log.after([change], by);
      expect(findings.map(({ table, position, problem }) => [table, position, problem])).toEqual(
        expected().map(([position, problem]) => [
          'correction',
          position,
          expect.stringContaining(problem) as unknown,
        ]),
      );
    }
  });
});
