import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Damage } from '#db/log/chain.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { changeEvents, changeLines } from '../../support/audit/change-lines.ts';
import { verifyChain } from '../../support/audit/verify-chain.ts';
import { controller } from '../../support/controller.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyRequestEvent } from '../../support/log/arbitrary-event.ts';
import { FIELDS } from '#db/log/columns.ts';
import { appendFirstControls, appendFirstRequests } from '../../support/audit/first-events.ts';
import { connectAs, openWriter } from '../../support/log/log-writer.ts';

describe('verifyChain after the triggers were disabled', () => {
  const BATCHES = 8;
  const SIZE = 3;
  /** The first position of the changed batch, and the changed position. */
  const FIRST = 3 * SIZE + 1;
  const TARGET = FIRST + 1;
  let database: TestDatabase;
  let owner: Awaited<ReturnType<typeof connectAs>>;

  beforeAll(async () => {
    database = await createDatabase();
    const relay = await connectAs(database, 'relay');
    const instance = await registerInstance(relay, 'first');
    for (let batch = 0; batch < BATCHES / 2; batch++) {
      if (batch % 2 === 0) await appendFirstRequests(relay, instance, batch);
      else await appendFirstControls(relay, instance, batch, batch === 1 ? 1 : 4);
    }
    await relay.end();
    await using writer = await openWriter(database);
    const control = controller(writer);
    for (let batch = 0; batch < BATCHES / 2; batch++) {
      if (batch % 2 === 0) await writer.append(fc.sample(anyRequestEvent, SIZE));
      else await control(SIZE);
    }
    owner = await connectAs(database, 'owner');
    for (const table of ['log', 'log_batch'])
      await owner.query(`alter table daybook.${table} disable trigger append_only`);
  });
  afterAll(async () => {
    await owner?.end();
    await database?.[Symbol.asyncDispose]();
  });

  /** The damage found after these statements, which are then rolled back. */
  async function damageAfter(...statements: string[]): Promise<Damage | null> {
    await owner.query('begin');
    try {
      for (const statement of statements) await owner.query(statement);
      return await verifyChain(owner);
    } finally {
      await owner.query('rollback');
    }
  }

  /** A copy of a row of the log with another last position. */
  const copyOf = (last: number): string =>
    `insert into daybook.log select ${last}, at, event_count, instance, shard, events
      from daybook.log where last_position = ${SIZE}`;

  /** Another value of a column's type that the table's constraints allow. */
  const CHANGES: Record<string, (column: string) => string> = {
    smallint: (column) => `coalesce(${column}, 0) # 1024::smallint`,
    integer: (column) => `coalesce(${column}, 0) # 1024::integer`,
    bigint: (column) => `coalesce(${column}, 0) # 1024::bigint`,
    text: (column) => `coalesce(${column}, '') || 'x'`,
    boolean: (column) => `not coalesce(${column}, false)`,
    uuid: () => 'gen_random_uuid()',
    bytea: (column) => `${column} || 'x'`,
    'timestamp with time zone': (column) => `${column} + interval '1 microsecond'`,
  };

  async function columnsOf(table: string): Promise<{ column: string; changed: string }[]> {
    const { rows } = await owner.query<{ column: string; type: string }>(
      `select column_name as column, data_type as type from information_schema.columns
        where table_schema = 'daybook' and table_name = $1`,
      [table],
    );
    return rows.map(({ column, type }) => ({
      column,
      changed: (CHANGES[type] as (name: string) => string)(column),
    }));
  }

  test('chain: an unchanged log is valid', async () => {
    expect(await damageAfter()).toBeNull();
  });

  test('chain: a changed value of any column of a row is detected in its batch', async () => {
    const columns = await columnsOf('log');
    expect(columns).toHaveLength(6);
    for (const { column, changed } of columns) {
      for (const row of [FIRST, FIRST + SIZE]) {
        const damage = await damageAfter(
          `update daybook.log set ${column} = ${changed} where last_position = ${row + SIZE - 1}`,
        );
        expect({ column, position: damage?.position }).toEqual({ column, position: row });
      }
    }
  });

  test('chain: a changed value of any field of a line is detected in its batch', async () => {
    const { rows } = await owner.query<{ field: string; type: string }>(
      `select attname as field, format_type(atttypid, null) as type from pg_attribute
        where attrelid = 'daybook.event_fields'::regclass and attnum > 0`,
    );
    expect(rows).toHaveLength(FIELDS.length);
    for (const { field, type } of rows) {
      const changed = (CHANGES[type] as (name: string) => string)(field);
      for (const position of [TARGET, TARGET + SIZE]) {
        const damage = await damageAfter(changeEvents(`position = ${position}`, { [field]: changed }));
        expect({ field, position: damage?.position }).toEqual({ field, position: position - 1 });
      }
    }
  });

  test('chain: null and an empty text are different', async () => {
    for (const field of ['account', 'key', 'model', 'upstream', 'stream', 'body', 'error_code']) {
      const changed = `case when ${field} is null then '' end`;
      for (const position of [TARGET, TARGET + SIZE]) {
        const damage = await damageAfter(changeEvents(`position = ${position}`, { [field]: changed }));
        expect({ field, position: damage?.position }).toEqual({ field, position: position - 1 });
      }
    }
  });

  test('chain: a changed value of any column of a batch is detected in that batch', async () => {
    const columns = await columnsOf('log_batch');
    expect(columns).toHaveLength(8);
    for (const { column, changed } of columns) {
      const damage = await damageAfter(
        `update daybook.log_batch set ${column} = ${changed} where last_position = ${FIRST + SIZE - 1}`,
      );
      expect({ column, position: damage?.position }).toEqual({ column, position: FIRST });
    }
  });

  const NEIGHBOR = `(string_to_array(log.events, e'\\n'))[number
    + case position when ${TARGET} then 1 else -1 end]`;

  test.each<[string, string[], number]>([
    ['a deleted line', [changeLines(`position = ${TARGET}`, 'null')], FIRST + SIZE - 1],
    [
      'a line that is there twice',
      [changeLines(`position = ${TARGET}`, `line || e'\\n' || line`)],
      FIRST + SIZE,
    ],
    [
      'two swapped lines of a batch',
      [changeLines(`position in (${TARGET}, ${TARGET + 1})`, NEIGHBOR)],
      FIRST,
    ],
    ['a deleted row', [`delete from daybook.log where last_position = ${FIRST + SIZE - 1}`], FIRST],
    [
      'a deleted last row',
      [`delete from daybook.log where last_position = ${BATCHES * SIZE}`],
      (BATCHES - 1) * SIZE + 1,
    ],
    [
      'a deleted batch row',
      [`delete from daybook.log_batch where last_position = ${FIRST + SIZE - 1}`],
      FIRST,
    ],
    [
      'a deleted batch with its events',
      [
        `delete from daybook.log_batch where last_position = ${FIRST + SIZE - 1}`,
        `delete from daybook.log where last_position = ${FIRST + SIZE - 1}`,
      ],
      FIRST,
    ],
    ['a row inserted at the end', [copyOf(BATCHES * SIZE + 1)], BATCHES * SIZE + 1],
    ['a row inserted between others', [copyOf(FIRST)], BATCHES * SIZE + 1],
    [
      'two rows of batches that changed places',
      [
        `update daybook.log l set events = (select o.events from daybook.log o
            where o.last_position in (${FIRST - 1}, ${FIRST + SIZE - 1})
              and o.last_position <> l.last_position)
          where last_position in (${FIRST - 1}, ${FIRST + SIZE - 1})`,
      ],
      FIRST - SIZE,
    ],
    [
      'two swapped chain hashes',
      [
        `update daybook.log_batch b set chain = (select o.chain from daybook.log_batch o
            where o.last_position in (${FIRST - 1}, ${FIRST + SIZE - 1})
              and o.last_position <> b.last_position)
          where last_position in (${FIRST - 1}, ${FIRST + SIZE - 1})`,
      ],
      FIRST - SIZE,
    ],
    [
      'a batch that states another format',
      [`update daybook.log_batch set format = 2 where last_position = ${FIRST + SIZE - 1}`],
      FIRST,
    ],
    ['a chain of another log', ['update daybook.install set log_id = gen_random_uuid()'], 1],
  ])('chain: %s is detected at the first invalid position', async (_, statements, position) => {
    expect(await damageAfter(...statements)).toMatchObject({ position });
  });
});
