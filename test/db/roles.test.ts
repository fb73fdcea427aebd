import { Client } from 'pg';
import { expect, test } from 'vitest';
import { externalStore, type Role, type Store } from '#db/connect.ts';
import { ask, createDatabase } from '../support/database.ts';

const CHANGES = [
  'insert into daybook.log (position, at, instance, shard, type) values (1, now(), 1, 0, 1)',
  'update daybook.log set status = 1',
  'delete from daybook.log',
  'truncate daybook.log',
  'truncate daybook.log_000000',
  'delete from daybook.log_batch',
  'truncate daybook.log_batch',
  'update daybook.stream_head set version = 0',
  'update daybook.instance set dead_at = null',
  'update daybook.install set pepper_check = null',
  'alter table daybook.log add column more text',
  'alter table daybook.log disable trigger all',
  'alter table daybook.log_000000 disable trigger append_only_truncate',
  'drop trigger append_only on daybook.log',
  'drop table daybook.log_000000',
  'drop function daybook.refuse_change() cascade',
  `create table daybook.mine (id integer)`,
  `create or replace function daybook.head(_shard smallint) returns bigint language sql as 'select 0'`,
  `copy daybook.log to '/tmp/daybook-copy'`,
  `copy daybook.log from program 'true'`,
  `select pg_read_file('postgresql.conf')`,
  'create role daybook_intruder superuser',
  'alter system set fsync = off',
];

/** Each statement, tried as this role, is refused for want of a privilege and for nothing else. */
async function expectRefused(store: Store, role: Role, statements: readonly string[]): Promise<void> {
  const client = new Client(store.config(role));
  await client.connect();
  try {
    for (const statement of statements) {
      await expect(client.query(statement), `${role}: ${statement}`).rejects.toMatchObject({ code: '42501' });
    }
  } finally {
    await client.end();
  }
}

const APPEND = `select daybook.append(0::smallint, 1, 1, array[100]::smallint[], null, null, null, null, null, null, null,
  null, null, null, null, null, null, null, null, null, null, null, null)`;

test('neither relay, worker nor auditor can change the log except through the append function', async () => {
  await using database = await createDatabase();
  for (const role of ['relay', 'worker', 'auditor'] as const) {
    await expectRefused(database, role, CHANGES);
  }
});

test('the same holds for the roles that one DATABASE_URL serves', async () => {
  await using database = await createDatabase();
  const external = externalStore(database.url);
  for (const role of ['relay', 'worker', 'auditor'] as const) {
    expect(await ask(external.config(role), 'select current_user')).toBe(`daybook_${role}`);
    await expectRefused(external, role, CHANGES);
  }
  expect(await ask(external.config('owner'), 'select current_user')).toBe('daybook_owner');
});

test('the auditor reads the log and may call nothing that writes', async () => {
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
  ]);
});

test('even the owner changes no row of the log without first taking its triggers away', async () => {
  await using database = await createDatabase();
  await ask(database.config('relay'), `select daybook.register_instance('writer')`);
  await ask(database.config('relay'), APPEND);
  expect(await ask(database.config('owner'), 'select count(*)::int from daybook.log')).toBe(1);
  await expectRefused(database, 'owner', [
    'update daybook.log set status = 1',
    'delete from daybook.log',
    'truncate daybook.log',
    'truncate daybook.log_000000',
    'update daybook.log_000000 set status = 1',
    'delete from daybook.log_batch',
    'truncate daybook.log_batch',
  ]);
});
