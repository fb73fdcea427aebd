import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { externalStore, type Store } from '#db/postgres/connect.ts';
import { readHead } from '#db/log/read.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { ask, createDatabase, type TestDatabase } from '../../support/database.ts';
import { accepted, connectAs, openWriter, readLog, settled } from '../../support/log/log-writer.ts';

/** The login of an auditor, as the command line creates it. */

let database: TestDatabase;
let login: string;
let url: string;
let auditor: Store;
const owner = commandLine(() => ({ DATABASE_URL: database.url }));

beforeAll(async () => {
  database = await createDatabase();
  login = `auditor_${randomUUID().slice(0, 8)}`;
  ({ database_url: url } = await owner.json<{ database_url: string }>('auditor-login', 'create', login));
  auditor = externalStore(url);
  await using writer = await openWriter(database);
  const call = accepted();
  await writer.append([call, settled(call)]);
});
afterAll(async () => {
  await owner.daybook('auditor-login', 'drop', login);
  await database?.[Symbol.asyncDispose]();
});

/** The tables that an auditor can read. None of them holds a secret or a person's name. */
const READABLE = [
  'daybook.allowance',
  'daybook.checkpoint',
  'daybook.control_event',
  'daybook.correction',
  'daybook.cosignature',
  'daybook.install',
  'daybook.instance',
  'daybook.lease',
  'daybook.log',
  'daybook.log_batch',
  'daybook.log_node',
  'daybook.log_partition',
  'daybook.parked_event',
  'daybook.projection',
  'daybook.secret_use',
  'daybook.stream_head',
];

describe('auditor login', () => {
  test(
    'auditor login: reads the log and its proofs, and no table with passwords, addresses, sessions or ' +
      'secrets',
    async () => {
      const client = await connectAs(auditor, 'auditor');
      try {
        const { rows } = await client.query<{ name: string; can: boolean }>(
          `select n.nspname || '.' || c.relname as name, has_schema_privilege(n.oid, 'usage')
          and (has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select')) as can
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition
            and n.nspname !~ '^(pg_|information_schema)' and n.nspname <> 'projection' order by 1`,
        );
        const readable = rows.filter(({ can }) => can).map(({ name }) => name);
        expect(readable).toEqual(READABLE);
        for (const { name } of rows.filter(({ can }) => !can))
          await expect(client.query(`select * from ${name}`), name).rejects.toMatchObject({ code: '42501' });
        expect(rows.map(({ name }) => name)).toEqual(
          expect.arrayContaining(['daybook.member', 'daybook.session', 'daybook.alert_destination']),
        );
      } finally {
        await client.end();
      }
    },
  );

  test('auditor login: has no privileges of its own, and can set no role but the auditor', async () => {
    const asItself = auditor.config('owner');
    await expect(ask(asItself, 'select 1 from daybook.log')).rejects.toThrow('permission denied');
    for (const role of ['daybook_relay', 'daybook_worker', 'daybook_owner', 'postgres'])
      await expect(ask(asItself, `set role ${role}`)).rejects.toThrow('permission denied');
    await expect(ask(asItself, 'create schema mine')).rejects.toThrow('permission denied');
  });

  test('auditor login: writes nothing but the record of its own reading', async () => {
    const client = await connectAs(auditor, 'auditor');
    try {
      for (const statement of [
        'update daybook.log set events = null',
        'delete from daybook.checkpoint',
        "insert into daybook.cosignature (epoch, size, witness, line) values (1, 1, 'x', 'y')",
        "select daybook.register_instance('x')",
      ]) {
        await expect(client.query(statement), statement).rejects.toMatchObject({ code: '42501' });
      }
      const before = await readHead(client);
      // By whatever name it gives, and however often: the worker appends one event, of the login.
      for (const actor of ['member/AAAAAAAA', 'first-start', 'command-line'])
        for (let reading = 0; reading < 70; reading++)
          await client.query('select daybook.record_reading($1, $2, $3, $4)', [actor, 'verify', 2, before]);
      expect(await readHead(client)).toBe(before);
      expect(await ask(database.config('worker'), 'select daybook.append_readings()')).toBe(1);
      expect(await ask(database.config('worker'), 'select daybook.append_readings()')).toBe(0);
      expect((await readLog(database)).at(-1)).toMatchObject({
        position: before + 1,
        stream: 'log/readings',
        event: {
          type: 'log.read',
          actor: `login/${login}`,
          what: 'verify',
          from_position: 2,
          to_position: before,
        },
      });
    } finally {
      await client.end();
    }
  });

  test('auditor login: its address is enough for the audit commands', async () => {
    const { code, stdout } = await commandLine(() => ({ DATABASE_URL: url })).daybook(
      'audit',
      'replay',
      '--json',
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ position: expect.any(Number) });
  });

  test('auditor login: is created once; Postgres gets its password only as a SCRAM verifier', async () => {
    expect(await owner.daybook('auditor-login', 'create', login)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`the login ${login} exists already`),
    });
    const client = await database.superuser();
    const { rows } = await client.query<{ verifier: string }>(
      'select rolpassword as verifier from pg_authid where rolname = $1',
      [login],
    );
    await client.end();
    expect(rows[0]?.verifier).toMatch(/^SCRAM-SHA-256\$4096:/);
  });

  test.each(['daybook_relay', 'pg_monitor', 'Robert', 'a;b', ''])(
    'auditor login: the name "%s" is rejected',
    async (name) => {
      for (const action of ['create', 'drop'])
        expect(await owner.daybook('auditor-login', action, name)).toMatchObject({
          code: 1,
          stderr: expect.stringContaining('the name of a login has'),
        });
    },
  );

  test('auditor login: drop removes it, and no other role can be dropped', async () => {
    const name = `${login}_2`;
    const made = await owner.json<{ database_url: string }>('auditor-login', 'create', name);
    expect(await ask(externalStore(made.database_url).config('auditor'), 'select current_user::text')).toBe(
      'daybook_auditor',
    );
    await owner.text('auditor-login', 'drop', name);
    await expect(ask(externalStore(made.database_url).config('auditor'), 'select 1')).rejects.toThrow(
      'password authentication failed',
    );
    for (const other of [name, 'postgres'])
      expect(await owner.daybook('auditor-login', 'drop', other)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('no auditor has a login'),
      });
  });
});
