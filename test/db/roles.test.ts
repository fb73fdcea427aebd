import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { readMajor } from '#db/postgres/check-server.ts';
import { externalStore, type Role, type Store } from '#db/postgres/connect.ts';
import { LOG_READINGS } from '#db/events/log-events.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs, readLog } from '../support/log/log-writer.ts';

const ROLES = ['relay', 'worker', 'auditor'] as const;

/** The tables of the log other than daybook.log and its partitions: its proofs and its identity. */
const BESIDE = [
  'control_event',
  'log_batch',
  'log_partition',
  'stream_head',
  'log_node',
  'checkpoint',
  'cosignature',
  'install',
  'instance',
];

/**
 * Privileges to write to them directly. Verification recomputes the tree and checks every signature, so it
 * finds a forged row.
 */
const GRANTED: Record<string, string[]> = {
  'worker log_node': ['INSERT'],
  'worker checkpoint': ['INSERT'],
  'relay cosignature': ['INSERT'],
};

/** Every way to change a table, or what guards it. */
const waysToChange = (table: string, column: string, granted: readonly string[] = []): string[] => [
  ...(granted.includes('INSERT')
    ? []
    : [`insert into ${table} (${column}) select ${column} from ${table}`, `copy ${table} from stdin`]),
  `update ${table} set ${column} = ${column}`,
  `merge into ${table} t using (select 1) s on true when matched then update set ${column} = t.${column}`,
  ...(granted.includes('DELETE') ? [] : [`delete from ${table}`]),
  ...(granted.length > 0
    ? []
    : [`select from ${table} for update`, `do $$ begin lock table ${table} in row exclusive mode; end $$`]),
  `truncate ${table}`,
  `truncate ${table} cascade`,
  `copy ${table} from '/tmp/daybook-copy'`,
  `copy ${table} from program 'true'`,
  `copy ${table} to '/tmp/daybook-copy'`,
  `alter table ${table} add column more text`,
  `alter table ${table} drop column ${column}`,
  `alter table ${table} rename to mine`,
  `alter table ${table} disable trigger all`,
  `alter table ${table} enable replica trigger append_only`,
  `alter table ${table} disable rule mine`,
  `alter table ${table} enable row level security`,
  `alter table ${table} set unlogged`,
  `alter table ${table} set schema public`,
  `alter table ${table} owner to current_user`,
  `create rule nothing as on insert to ${table} do instead nothing`,
  `create trigger mine before insert on ${table} for each row execute function daybook.refuse_change()`,
  `create policy mine on ${table}`,
  `create index on ${table} (${column})`,
  `comment on table ${table} is 'mine'`,
  `drop table ${table}`,
  `drop table ${table} cascade`,
];

/** What would get around the tables' own guards. */
const WAYS_AROUND = [
  'set session_replication_role = replica',
  "select set_config('session_replication_role', 'replica', false)",
  "alter role current_user set session_replication_role = 'replica'",
  'set session authorization daybook_owner',
  ...['log', 'log_000000', 'log_batch', 'control_event', 'log_node'].map(
    (table) => `drop trigger append_only on daybook.${table}`,
  ),
  'alter table daybook.log detach partition daybook.log_000000',
  'alter table daybook.log detach partition daybook.log_000000 concurrently',
  'drop function daybook.refuse_change() cascade',
  'alter function daybook.refuse_change() owner to current_user',
  `create or replace function daybook.head(_shard smallint) returns bigint language sql as 'select 0'`,
  `select daybook.attach_partition(0, 'log_000000')`,
  `select daybook.record_archived(0, '{}')`,
  'drop schema daybook cascade',
  'alter schema daybook rename to mine',
  'create table daybook.mine (id integer)',
  'create view daybook.mine as select 1',
  `select pg_read_file('postgresql.conf')`,
  `select pg_read_binary_file('base/1/PG_VERSION')`,
  `select lo_import('/etc/passwd')`,
  'create role daybook_intruder superuser',
  'alter system set fsync = off',
  'create extension file_fdw',
  'create event trigger mine on ddl_command_start execute function daybook.refuse_change()',
  'alter default privileges for role daybook_owner grant all on tables to public',
];

/** Every table of the log as the catalogue has them, with one of its columns. */
async function tablesOfLog(store: Store): Promise<{ table: string; column: string }[]> {
  const client = new Client(store.config('auditor'));
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string; column: string }>(
      `select relname as name,
          (select attname from pg_attribute where attrelid = c.oid and attnum > 0 and attgenerated = ''
            and attidentity = '' and not attisdropped order by attnum limit 1) as column
        from pg_class c where relnamespace = 'daybook'::regnamespace and relkind in ('r', 'p')
          and (relname = any($1) or relname = 'log'
            or exists (select from pg_inherits
              where inhrelid = c.oid and inhparent = 'daybook.log'::regclass))
        order by relname`,
      [BESIDE],
    );
    expect(rows.filter(({ name }) => /^log_\d+$/.test(name)).length).toBeGreaterThanOrEqual(2);
    expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining(['log', ...BESIDE]));
    return rows.map(({ name, column }) => ({ table: name, column }));
  } finally {
    await client.end();
  }
}

/** All that each role is refused, table by table. */
async function expectNoWay(store: Store): Promise<void> {
  const tables = await tablesOfLog(store);
  for (const role of ROLES) {
    for (const { table, column } of tables)
      await expectRefused(store, role, waysToChange(`daybook.${table}`, column, GRANTED[`${role} ${table}`]));
    await expectRefused(store, role, WAYS_AROUND);
  }
}

/** For want of a privilege. */
const REFUSED = '42501';

/** Each statement, tried as this role, is refused for want of a privilege and for nothing else. */
async function expectRefused(store: Store, role: Role, statements: readonly string[]): Promise<void> {
  const client = new Client(store.config(role));
  await client.connect();
  try {
    const otherwise: string[] = [];
    for (const statement of statements) {
      const outcome = await client.query(statement).then(
        () => 'carried out',
        (error: { code?: string }) => error.code,
      );
      if (outcome !== REFUSED) otherwise.push(`${role}: ${statement}: ${outcome}`);
    }
    expect(otherwise).toEqual([]);
  } finally {
    await client.end();
  }
}

const APPEND = "select daybook.append(0::smallint, 1, 1, array['a line'])";
const APPEND_CONTROL = `select daybook.append_control(0::smallint, 1, 2, array[jsonb_populate_record(
  null::daybook.event_fields, '{"type": 1, "stream": "one", "version": 1}')::text], array[null::text])`;

test('relay, worker and auditor cannot change the log except through the functions that append', async () => {
  await using database = await createDatabase();
  await expectNoWay(database);
});

test('no role has privileges beyond those tested above', async () => {
  await using database = await createDatabase();
  const client = new Client(database.config('owner'));
  await client.connect();
  // Before PostgreSQL 17 there is no MAINTAIN.
  const later = (await readMajor(client)) < 17 ? [] : ['MAINTAIN'];
  const { rows } = await client.query<{ role: string; table: string; privilege: string }>(
    `select role, c.relname as table, privilege from pg_class c, unnest($1::text[]) role,
        unnest(array['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'] || $3) privilege
      where c.oid = any($2::text[]::regclass[]) and (has_table_privilege('daybook_' || role, c.oid, privilege)
        or (privilege in ('INSERT', 'UPDATE', 'REFERENCES')
          and has_any_column_privilege('daybook_' || role, c.oid, privilege)))`,
    [ROLES, (await tablesOfLog(database)).map(({ table }) => `daybook.${table}`), later],
  );
  const granted = Object.entries(GRANTED).flatMap(([at, privileges]) =>
    privileges.map((privilege) => `${at} ${privilege}`),
  );
  expect(rows.map(({ role, table, privilege }) => `${role} ${table} ${privilege}`).toSorted()).toEqual(
    granted.toSorted(),
  );
  // Security definer functions can write to the log as well: the auditor has one, which records readings.
  const definers = await client.query<{ name: string }>(
    `select proname as name from pg_proc where pronamespace = 'daybook'::regnamespace and prosecdef
      and has_function_privilege('daybook_auditor', oid, 'EXECUTE')`,
  );
  expect(definers.rows).toEqual([{ name: 'record_reading' }]);
  await client.end();
});

test('one DATABASE_URL serves the same roles with the same privileges', async () => {
  await using database = await createDatabase();
  const external = externalStore(database.url);
  for (const role of ROLES)
    expect(await ask(external.config(role), 'select current_user')).toBe(`daybook_${role}`);
  for (const role of ROLES) {
    for (const table of ['log', 'log_batch'])
      await expectRefused(external, role, waysToChange(`daybook.${table}`, 'shard'));
    // The login itself is the owner's here, and who has it can be the owner again: SERVICE_DATABASE_URL is
    // for those who want more.
    await expectRefused(
      external,
      role,
      WAYS_AROUND.filter((statement) => !statement.startsWith('set session authorization')),
    );
  }
  expect(await ask(external.config('owner'), 'select current_user')).toBe('daybook_owner');
});

test('the auditor reads the log and may not call writing functions', async () => {
  await using database = await createDatabase();
  expect(await ask(database.config('auditor'), 'select count(*)::int from daybook.log')).toBe(0);
  await expectRefused(database, 'auditor', [
    `select daybook.register_instance('intruder')`,
    'select daybook.retire_instance(1)',
    'select daybook.heartbeat(1, 1)',
    'select daybook.recover_instance(1, 1)',
    'select daybook.create_partitions(1)',
    `select daybook.claim_pepper('x')`,
    APPEND,
    APPEND_CONTROL,
  ]);
});

test('even the owner cannot change a batch of the log without first disabling triggers', async () => {
  await using database = await createDatabase();
  await ask(database.config('relay'), `select daybook.register_instance('writer')`);
  await ask(database.config('relay'), APPEND);
  await ask(database.config('relay'), APPEND_CONTROL);
  expect(await ask(database.config('owner'), 'select count(*)::int from daybook.log')).toBe(2);
  await expectRefused(database, 'owner', [
    'update daybook.log set instance = 1',
    'delete from daybook.log',
    'truncate daybook.log',
    'truncate daybook.log_000000',
    'update daybook.log_000000 set instance = 1',
    'delete from daybook.log_batch',
    'truncate daybook.log_batch',
    'update daybook.control_event set version = 1',
    'delete from daybook.control_event',
    'truncate daybook.control_event',
    'truncate daybook.log_node',
  ]);
});

describe('daybook.record_reading, which readers of the log may call', () => {
  const record = (database: TestDatabase, ...values: unknown[]) =>
    connectAs(database, 'auditor').then(async (client) => {
      try {
        return await client.query('select daybook.record_reading($1, $2, $3, $4)', values);
      } finally {
        await client.end();
      }
    });

  test('appends a decodable event, for every kind of reading', async () => {
    await using database = await createDatabase();
    const events = LOG_READINGS.map((what) => ({
      type: 'log.read',
      actor: 'login/An_Auditor.1-2',
      what,
      from_position: 0,
      to_position: Number.MAX_SAFE_INTEGER,
    }));
    for (const { actor, what, from_position, to_position } of events)
      await record(database, actor, what, from_position, to_position);
    expect(await readLog(database)).toMatchObject(
      events.map((event, index) => ({ stream: 'log/readings', version: index + 1, event })),
    );
  });

  const INJECTED = 'x","what":"diff","type":"key.revoked';
  test('rejects all other arguments', async () => {
    await using database = await createDatabase();
    const wrong: [actor: unknown, what: unknown, from: unknown, to: unknown][] = [
      [INJECTED, 'verify', 1, 2],
      ['x', INJECTED, 1, 2],
      ['x', 'verify"', 1, 2],
      ["x'; drop table daybook.log; --", 'verify', 1, 2],
      ['x\n', 'verify', 1, 2],
      ['x', 'verify\n', 1, 2],
      ['x\\', 'verify', 1, 2],
      ['', 'verify', 1, 2],
      ['%s', 'verify', 1, 2],
      ['\u212aelvin', 'verify', 1, 2],
      ['x'.repeat(101), 'verify', 1, 2],
      ['x', 'nonsense', 1, 2],
      ['x', 'verify', -1, 2],
      ['x', 'verify', 1, '9007199254740992'],
      [null, 'verify', 1, 2],
      ['x', null, 1, 2],
      ['x', 'verify', null, 2],
      ['x', 'verify', 1, null],
    ];
    for (const values of wrong)
      await expect(record(database, ...values), JSON.stringify(values)).rejects.toMatchObject({
        code: '22023',
      });
    expect(await readLog(database)).toEqual([]);
  });
});
