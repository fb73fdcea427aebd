import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Damage } from '#db/log/chain.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { verifyChain } from '../../support/audit/verify-chain.ts';
import { controller } from '../../support/controller.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyRequestEvent } from '../../support/log/arbitrary-event.ts';
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
    expect(columns).toHaveLength(34);
    for (const { column, changed } of columns) {
      // Positions have no gaps, so another one must be beyond the end.
      const value = column === 'position' ? 'position + 1000' : changed;
      for (const row of [TARGET, TARGET + SIZE]) {
        const damage = await damageAfter(
          `update daybook.log set ${column} = ${value} where position = ${row}`,
        );
        const expected = column === 'position' ? row : row - 1;
        expect({ column, position: damage?.position }).toEqual({ column, position: expected });
      }
    }
  });

  test('chain: null and an empty text are different', async () => {
    for (const column of ['account', 'key', 'model', 'upstream', 'stream', 'body', 'error_code']) {
      for (const row of [TARGET, TARGET + SIZE]) {
        const damage = await damageAfter(
          `update daybook.log set ${column} = case when ${column} is null then '' end
            where position = ${row}`,
        );
        expect({ column, position: damage?.position }).toEqual({ column, position: row - 1 });
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

  test.each<[string, string[], number]>([
    ['a deleted row', [`delete from daybook.log where position = ${TARGET}`], TARGET],
    ['a deleted last row', [`delete from daybook.log where position = ${BATCHES * SIZE}`], BATCHES * SIZE],
    [
      'a deleted row whose followers moved up',
      [
        `delete from daybook.log where position = ${TARGET}`,
        `update daybook.log set position = position + 1000 where position > ${TARGET}`,
        'update daybook.log set position = position - 1001 where position > 1000',
      ],
      FIRST,
    ],
    [
      'a deleted batch row',
      [`delete from daybook.log_batch where last_position = ${FIRST + SIZE - 1}`],
      FIRST,
    ],
    [
      'a deleted batch with its rows',
      [
        `delete from daybook.log_batch where last_position = ${FIRST + SIZE - 1}`,
        `delete from daybook.log where position between ${FIRST} and ${FIRST + SIZE - 1}`,
      ],
      FIRST,
    ],
    [
      'a row inserted at the end',
      [
        `insert into daybook.log (shard, position, at, type, instance)
          select 0, ${BATCHES * SIZE + 1}, now(), 100, 1`,
      ],
      BATCHES * SIZE + 1,
    ],
    [
      'a row inserted between others',
      [
        `update daybook.log set position = position + 1000 where position >= ${TARGET}`,
        'update daybook.log set position = position - 999 where position > 1000',
        `insert into daybook.log (shard, position, at, type, instance) select 0, ${TARGET}, now(), 100, 1`,
      ],
      FIRST,
    ],
    [
      'two swapped rows of a batch',
      [
        `update daybook.log set position = 1000 where position = ${TARGET}`,
        `update daybook.log set position = ${TARGET} where position = ${TARGET + 1}`,
        `update daybook.log set position = ${TARGET + 1} where position = 1000`,
      ],
      FIRST,
    ],
    [
      'two swapped rows of two batches',
      [
        `update daybook.log set position = 1000 where position = ${TARGET}`,
        `update daybook.log set position = ${TARGET} where position = ${TARGET + SIZE}`,
        `update daybook.log set position = ${TARGET + SIZE} where position = 1000`,
      ],
      FIRST,
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
