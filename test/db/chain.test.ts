import * as fc from 'fast-check';
import type { ClientBase } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type BatchRow, compositeText, type Damage, genesis, LEAF_COLUMNS, type LeafRow, verifyBatches } from '#db/chain.ts';
import { streamOf } from '#db/events.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { anyControlEvent, anyRequestEvent } from '../support/event-made.ts';
import { connectAs, openWriter, type Writer } from '../support/log-writer.ts';

/** Every value as the text that Postgres sends: what is hashed is text. */
const AS_TEXT = { getTypeParser: () => (value: unknown) => value };

async function readRows(client: ClientBase): Promise<LeafRow[]> {
  const { rows } = await client.query<(string | null)[]>({
    text: `select ${LEAF_COLUMNS} from daybook.log order by position`,
    rowMode: 'array',
    types: AS_TEXT,
  });
  return rows;
}

async function readBatches(client: ClientBase): Promise<BatchRow[]> {
  const { rows } = await client.query<Omit<BatchRow, 'chain'> & { chain: string }>({
    text: `select shard, last_position as "lastPosition", event_count as "eventCount", instance, batch_no as "batchNo",
      (extract(epoch from at) * 1000000)::bigint as at, format, encode(chain, 'hex') as chain
      from daybook.log_batch order by last_position`,
    types: AS_TEXT,
  });
  return rows.map((row) => ({ ...row, chain: Buffer.from(row.chain, 'hex') }));
}

/** What an auditor finds who recomputes the chain from its first batch. */
async function audit(client: ClientBase): Promise<Damage | null> {
  const { rows } = await client.query<{ log_id: string }>('select log_id from daybook.install');
  const start = { position: 0, chain: genesis(rows[0]?.log_id ?? '') };
  return verifyBatches(start, await readBatches(client), await readRows(client));
}

/** Appends control events, each as the next of its own stream. */
function controller(writer: Writer) {
  const versions = new Map<string, number>();
  return (count: number): Promise<number> =>
    writer.control(
      fc.sample(anyControlEvent, count).map((event) => {
        const version = (versions.get(streamOf(event)) ?? 0) + 1;
        versions.set(streamOf(event), version);
        return { event, version };
      }),
    );
}

describe('a chain that nobody touched', () => {
  test('is the same when it is recomputed outside the database, over hundreds of batches of three writers', async () => {
    await using database = await createDatabase();
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    const control = controller(three);
    const random = (max: number): number => 1 + Math.floor(Math.random() * max);
    await Promise.all([
      ...[one, two].map(async (writer) => {
        for (let batch = 0; batch < 120; batch++) await writer.append(fc.sample(anyRequestEvent, random(12)));
      }),
      (async () => {
        for (let batch = 0; batch < 60; batch++) await control(random(5));
      })(),
    ]);
    const auditor = await connectAs(database, 'auditor');
    try {
      expect(await audit(auditor)).toBeNull();
      expect(await readBatches(auditor)).toHaveLength(300);
    } finally {
      await auditor.end();
    }
  });

  test('can be checked from any of its batches on, by who has kept that one', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    for (let batch = 0; batch < 10; batch++) await writer.append(fc.sample(anyRequestEvent, 4));
    const [batches, rows] = [await readBatches(writer.client), await readRows(writer.client)];
    for (const [index, { lastPosition, chain }] of batches.entries()) {
      const position = Number(lastPosition);
      expect(verifyBatches({ position, chain }, batches.slice(index + 1), rows.slice(position))).toBeNull();
      const other = { position, chain: Buffer.alloc(32) };
      expect(index === 9 || verifyBatches(other, batches.slice(index + 1), rows.slice(position)) !== null).toBe(true);
    }
  });

  test('hashes rows in the very text that Postgres makes of them', async () => {
    await using database = await createDatabase();
    const client = await connectAs(database, 'auditor');
    const field = fc.option(fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((unit) => String.fromCharCode(unit)), maxLength: 8 }));
    try {
      await fc.assert(
        fc.asyncProperty(fc.tuple(field, field, field), async (fields) => {
          const { rows } = await client.query<{ text: string }>('select row($1::text, $2::text, $3::text)::text as text', fields);
          expect(compositeText(fields)).toBe(rows[0]?.text);
        }),
      );
    } finally {
      await client.end();
    }
  });
});

describe('after the owner has taken the triggers away', () => {
  const BATCHES = 8;
  const SIZE = 3;
  /** The batch and the position that are tampered with: neither the first nor the last. */
  const FIRST = 3 * SIZE + 1;
  const TARGET = FIRST + 1;
  let database: TestDatabase;
  let owner: Awaited<ReturnType<typeof connectAs>>;

  beforeAll(async () => {
    database = await createDatabase();
    await using writer = await openWriter(database);
    const control = controller(writer);
    for (let batch = 0; batch < BATCHES; batch++) {
      if (batch % 2 === 0) await writer.append(fc.sample(anyRequestEvent, SIZE));
      else await control(SIZE);
    }
    owner = await connectAs(database, 'owner');
    for (const table of ['log', 'log_batch']) await owner.query(`alter table daybook.${table} disable trigger append_only`);
  });
  afterAll(async () => {
    await owner?.end();
    await database?.[Symbol.asyncDispose]();
  });

  /** What an audit finds after these statements, which are then undone. */
  async function damageAfter(...statements: string[]): Promise<Damage | null> {
    await owner.query('begin');
    try {
      for (const statement of statements) await owner.query(statement);
      return await audit(owner);
    } finally {
      await owner.query('rollback');
    }
  }

  /** Another value of a column's type, from whatever is there, that the table's constraints allow. */
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
    return rows.map(({ column, type }) => ({ column, changed: (CHANGES[type] as (name: string) => string)(column) }));
  }

  test('an audit finds nothing as long as nothing was changed', async () => {
    expect(await damageAfter()).toBeNull();
  });

  test('one changed value of any column of any row is found in its batch', async () => {
    const columns = await columnsOf('log');
    expect(columns).toHaveLength(27);
    for (const { column, changed } of columns) {
      // Positions are dense: another one has to lie beyond the end.
      const value = column === 'position' ? 'position + 1000' : changed;
      for (const row of [TARGET, TARGET + SIZE]) {
        const damage = await damageAfter(`update daybook.log set ${column} = ${value} where position = ${row}`);
        const expected = column === 'position' ? row : row - 1;
        expect({ column, position: damage?.position }).toEqual({ column, position: expected });
      }
    }
  });

  test('null is told from an empty text', async () => {
    for (const column of ['account', 'key', 'model', 'upstream', 'stream', 'body']) {
      const damage = await damageAfter(
        `update daybook.log set ${column} = case when ${column} is null then '' end where position = ${TARGET}`,
      );
      expect({ column, position: damage?.position }).toEqual({ column, position: FIRST });
    }
  });

  test('one changed value of any column of a batch is found in that batch', async () => {
    const columns = await columnsOf('log_batch');
    expect(columns).toHaveLength(8);
    for (const { column, changed } of columns) {
      const damage = await damageAfter(`update daybook.log_batch set ${column} = ${changed} where last_position = ${FIRST + SIZE - 1}`);
      expect({ column, position: damage?.position }).toEqual({ column, position: FIRST });
    }
  });

  test.each<[string, string[], number]>([
    ['a deleted row', [`delete from daybook.log where position = ${TARGET}`], TARGET],
    ['a deleted last row of all', [`delete from daybook.log where position = ${BATCHES * SIZE}`], BATCHES * SIZE],
    [
      'a deleted row whose followers moved up',
      [
        `delete from daybook.log where position = ${TARGET}`,
        `update daybook.log set position = position + 1000 where position > ${TARGET}`,
        'update daybook.log set position = position - 1001 where position > 1000',
      ],
      FIRST,
    ],
    ['a deleted batch row', [`delete from daybook.log_batch where last_position = ${FIRST + SIZE - 1}`], FIRST],
    [
      'a deleted batch with its rows',
      [
        `delete from daybook.log_batch where last_position = ${FIRST + SIZE - 1}`,
        `delete from daybook.log where position between ${FIRST} and ${FIRST + SIZE - 1}`,
      ],
      FIRST,
    ],
    [
      'a row put in at the end',
      [`insert into daybook.log (shard, position, at, type, instance) select 0, ${BATCHES * SIZE + 1}, now(), 100, 1`],
      BATCHES * SIZE + 1,
    ],
    [
      'a row put in between others',
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
      'two swapped chain values',
      [
        `update daybook.log_batch b set chain = (select o.chain from daybook.log_batch o
            where o.last_position in (${FIRST - 1}, ${FIRST + SIZE - 1}) and o.last_position <> b.last_position)
          where last_position in (${FIRST - 1}, ${FIRST + SIZE - 1})`,
      ],
      FIRST - SIZE,
    ],
    ['a chain that is that of another log', ['update daybook.install set log_id = gen_random_uuid()'], 1],
  ])('%s is found at the first bad position', async (_, statements, position) => {
    expect(await damageAfter(...statements)).toMatchObject({ position });
  });
});
