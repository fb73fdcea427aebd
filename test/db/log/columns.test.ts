import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { END_REASONS, type Event, REQUEST_TYPES, USAGE_SOURCES } from '#db/events/events.ts';
import {
  BODY_FIELDS,
  COLUMN_NAMES,
  COLUMNS,
  COLUMNS_ARE_FIELDS,
  columnsOf,
  CONTROL_COLUMNS,
  REQUEST_COLUMNS,
  typeOf,
} from '#db/log/columns.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { connectAs, openWriter, readLog } from '../../support/log/log-writer.ts';

/** Each place that spells the columns of the log by itself is compared with the list here, by name. */

let database: TestDatabase;
let client: Client;
let append: { args: string; source: string };

beforeAll(async () => {
  database = await createDatabase();
  client = await connectAs(database, 'relay');
  const { rows } = await client.query<typeof append>(
    `select pg_get_function_arguments(oid) as args, prosrc as source from pg_proc
       where proname = 'append' and pronamespace = 'daybook'::regnamespace`,
  );
  append = rows[0] as typeof append;
});
afterAll(async () => {
  await client.end();
  await database[Symbol.asyncDispose]();
});

const sorted = (names: readonly string[]): string[] => names.toSorted();
const namesIn = (list: string): string[] => list.split(',').map((name) => name.trim());

/** The list between two texts of the append function, without white space that means nothing. */
function listIn(begin: RegExp, end: RegExp): string[] {
  const from = begin.exec(append.source);
  const rest = append.source.slice((from?.index ?? Number.NaN) + (from?.[0].length ?? 0));
  return namesIn(rest.slice(0, end.exec(rest)?.index));
}

test('every field of a request event has a column, and every column of one is a field', () => {
  expect(COLUMNS_ARE_FIELDS).toBe(true);
});

describe('the tables', () => {
  test.each(['daybook.log', 'daybook.log_kept'])('%s has these columns, with these types', async (table) => {
    const { rows } = await client.query<{ name: string; type: string }>(
      `select attname as name, typname as type from pg_attribute a join pg_type t on t.oid = a.atttypid
         where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
      [table],
    );
    expect(Object.fromEntries(rows.map(({ name, type }) => [name, type]))).toEqual(
      Object.fromEntries(COLUMNS.map(({ name, type }) => [name, type])),
    );
  });

  test('projection.request has each column of a call, under the same name', async () => {
    const { rows } = await client.query<{ name: string }>(
      `select attname as name from pg_attribute
        where attrelid = 'projection.request'::regclass and attnum > 0`,
    );
    const names = new Set(rows.map(({ name }) => name));
    expect(REQUEST_COLUMNS.filter((name) => name !== 'body' && !names.has(name))).toEqual([]);
  });
});

describe('daybook.append', () => {
  test('takes an array for each column that an event sets', () => {
    const expected = new Set<string>([
      'type',
      ...REQUEST_COLUMNS,
      ...CONTROL_COLUMNS.map(({ name }) => name),
    ]);
    const taken = [...append.args.matchAll(/_(\w+) (\w+(?: \w+)*)\[\]/g)].map(([, name = '']) => name);
    expect(sorted(taken)).toEqual(sorted([...expected, 'claim']));
  });

  test('has each array of the type of its column', () => {
    const names = { smallint: 'int2', integer: 'int4', bigint: 'int8', boolean: 'bool' } as const;
    for (const [, name = '', type = ''] of append.args.matchAll(/_(\w+) (\w+)\[\]/g)) {
      if (name === 'claim') continue;
      expect([name, names[type as keyof typeof names] ?? type]).toEqual([name, typeOf(name)]);
    }
  });

  test('writes every column, and each to its own place', () => {
    const written = listIn(/insert into daybook\.log \(/, /\)/);
    expect(sorted(written)).toEqual(sorted(COLUMN_NAMES));
    const values = listIn(/\)\s*select (?=_shard)/, /\s+from unnest\(/).map((value) =>
      value.replace(/^u\.|^_/, '').replace('head + u.ordinal', 'position'),
    );
    expect(values).toEqual(written);
    const arrays = listIn(/from unnest\((?=_type)/, /\)/).map((name) => name.slice(1));
    expect(listIn(/as u\((?=type)/, /\)/)).toEqual([...arrays, 'ordinal']);
  });

  test('hashes the columns of a leaf in this order', () => {
    const hashed = listIn(/convert_to\(row\(/, /\)::text/).map((name) => (name === '_at_us' ? 'at' : name));
    expect(hashed).toEqual([...COLUMN_NAMES]);
  });
});

describe('a request event', () => {
  const VALUES = { int2: 3, int4: 70_000, int8: 2 ** 40, bool: true, text: 'abc', uuid: '', timestamptz: '' };
  const OWN: Readonly<Record<string, unknown>> = {
    request: '01900000-0000-7000-8000-000000000001',
    account: 'Account1',
    key: 'Key00001',
    end_reason: Object.keys(END_REASONS)[0],
    usage_source: Object.keys(USAGE_SOURCES)[0],
    route: '/v1/responses',
    attempts: [{ upstream: 'one', outcome: 'delivered', duration_ms: 5 }],
  };
  const fieldOf = (type: string, { name }: { name: string }): [string, unknown] => {
    const field = name === 'body' ? BODY_FIELDS[type as keyof typeof BODY_FIELDS] : name;
    return [field, OWN[field] ?? VALUES[typeOf(name)]];
  };

  test.each(REQUEST_TYPES)(
    '%s is read as it was appended, with all of its columns and with few',
    async (type) => {
      const { needed, optional } = columnsOf(type);
      const few = { type, ...Object.fromEntries(needed.map((column) => fieldOf(type, column))) };
      const all = { ...few, ...Object.fromEntries(optional.map((column) => fieldOf(type, column))) };
      await using writer = await openWriter(database);
      await writer.append([all, few, all] as never);
      const log = await readLog(database);
      expect(log.slice(-3).map(({ event }): Event => event)).toEqual([all, few, all]);
    },
  );
});
