import { randomUUID } from 'node:crypto';
import { Client, type ClientConfig } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OUTSIDE_WAIT_MAX_MS } from '#db/bounds.ts';
import { endOutsideSessions } from '#db/instances/outside-sessions.ts';
import { createAuditorLogin, dropAuditorLogin } from '#db/postgres/auditor-login.ts';
import { type Lock, takeLock, tryHoldLock } from '#db/postgres/locks.ts';
import { startEpoch, projectPage } from '#db/projections/project.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { countLockWaiters } from '../support/lock-waiters.ts';
import { accepted, connectAs, openWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';

/**
 * What logins that are not Daybook's own can do to it: an auditor's, with and without its role, and one that
 * has no privilege at all.
 */

let database: TestDatabase;
let writer: Writer;
let superuser: Client;
const auditor = `auditor_${randomUUID().slice(0, 8)}`;
const plain = `plain_${randomUUID().slice(0, 8)}`;
const passwords = new Map<string, string>();

beforeAll(async () => {
  database = await createDatabase();
  superuser = await database.superuser();
  passwords.set(auditor, await createAuditorLogin(database, auditor));
  passwords.set(plain, 'plain');
  await superuser.query(`create role ${plain} login password 'plain'`);
  writer = await openWriter(database);
});
afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await dropAuditorLogin(database, auditor);
  await superuser.query(`drop role ${plain}`);
  await superuser.end();
  await database?.[Symbol.asyncDispose]();
});

const OUTSIDE: [who: string, login: string, role: string][] = [
  ['an auditor', auditor, 'daybook_auditor'],
  ['an auditor that has not set its role', auditor, 'none'],
  ['a login without privileges', plain, 'none'],
];

async function connectOutside(login: string, role = 'none'): Promise<Client> {
  const config: ClientConfig = { ...database.config('auditor'), user: login, password: passwords.get(login) };
  const client = new Client(config);
  client.on('error', () => undefined);
  await client.connect();
  await client.query(`set role ${role}; set idle_in_transaction_session_timeout = 0`);
  return client;
}

/** Runs a statement of the open transaction; one that fails leaves the locks that it took all the same. */
async function tryInTransaction(client: Client, statement: string): Promise<boolean> {
  await client.query('savepoint s');
  try {
    await client.query(statement);
    return true;
  } catch {
    await client.query('rollback to s');
    return false;
  }
}

const MODES = [
  'access share',
  'row share',
  'row exclusive',
  'share update exclusive',
  'share',
  'share row exclusive',
  'exclusive',
  'access exclusive',
];

/** Every lock that a login can try to take, without waiting for another session. */
async function takeEveryLock(client: Client): Promise<void> {
  const { rows } = await superuser.query<{ name: string; oid: number }>(
    `select format('%I.%I', nspname, relname) as name, c.oid::int4 as oid
      from pg_class c join pg_namespace n on n.oid = relnamespace
      where nspname in ('daybook', 'daybook_lock', 'projection') and relkind in ('r', 'p', 'S') order by 1`,
  );
  await client.query("set lock_timeout = '100ms'; begin");
  for (let first = 15; first < 40; first++)
    for (const second of [0, 1, 2])
      await tryInTransaction(client, `select pg_advisory_lock(${first}, ${second})`);
  for (const { name, oid } of rows) {
    await tryInTransaction(client, `select nextval(${oid}::oid::regclass)`);
    await tryInTransaction(client, `prepare "r${oid}" as select * from ${name} for update`);
    await tryInTransaction(client, `prepare "w${oid}" as insert into ${name} default values`);
    await tryInTransaction(client, `prepare "d${oid}" as delete from ${name}`);
    for (const mode of MODES) await tryInTransaction(client, `lock table ${name} in ${mode} mode nowait`);
  }
}

/** What every call needs, and what the log's proofs and figures need. */
async function serve(): Promise<void> {
  const call = accepted();
  await writer.append([call]);
  await writer.append([settled(call)]);
  await writer.client.query('select daybook.create_partitions(2)');
  await writer.client.query('select daybook.fence_instance(daybook.register_instance($1))', ['short']);
  const worker = await connectAs(database, 'worker');
  try {
    const epoch = await startEpoch(worker);
    expect(await projectPage(worker, { projections: PROJECTIONS, epoch })).toMatchObject({
      kind: 'projected',
    });
  } finally {
    await worker.end();
  }
}

/** Every lock is free, for the role that takes it. */
async function expectFree(): Promise<void> {
  const owner = await connectAs(database, 'owner');
  try {
    const { rows } = await owner.query<{ lock: Lock }>(
      "select relname as lock from pg_class where relnamespace = 'daybook_lock'::regnamespace",
    );
    expect(rows.length).toBeGreaterThanOrEqual(10);
    for (const { lock } of rows) {
      const held = await tryHoldLock(owner, lock);
      expect(held, lock).not.toBeNull();
      await held?.release();
    }
  } finally {
    await owner.end();
  }
}

describe('outside logins', () => {
  test.each(OUTSIDE)('%s holds every lock that it can take, and calls continue', async (_, login, role) => {
    const client = await connectOutside(login, role);
    try {
      await takeEveryLock(client);
      // Postgres does grant them: without a privilege, on every table.
      const { rows } = await superuser.query<{ modes: string[] }>(
        `select array_agg(distinct mode) as modes from pg_locks
          where relation = 'daybook.log'::regclass and pid in (
            select pid from pg_stat_activity where datname = current_database() and usename = $1)`,
        [login],
      );
      expect(rows[0]?.modes).toContain('RowExclusiveLock');
      await serve();
      await expectFree();
    } finally {
      await client.end();
    }
  });

  test('an auditor holds the record of a reading open, and calls continue', async () => {
    const client = await connectOutside(auditor, 'daybook_auditor');
    try {
      await client.query("begin; select daybook.record_reading('x', 'verify', 1, 1)");
      await serve();
      await expectFree();
    } finally {
      await client.end();
    }
  });

  // Each of them requests a strong lock before it checks the privilege.
  const QUEUED = [
    'create rule mine as on insert to daybook.log do instead nothing',
    'create trigger mine before insert on daybook.log_batch for each row execute function daybook.head()',
    'create temporary table mine (shard smallint references daybook.log_batch)',
    'create rule mine as on update to daybook.instance do instead nothing',
  ];
  test.each(QUEUED)('%s: waits in front of calls until its session is ended', async (statement) => {
    const reader = await connectOutside(auditor, 'daybook_auditor');
    const intruder = await connectOutside(auditor, 'daybook_auditor');
    const watcher = await connectAs(database, 'relay');
    try {
      await takeEveryLock(reader);
      const ended = intruder.query(statement).then(
        () => 'done',
        (error: Error) => error.message,
      );
      const waiting = (): Promise<number> => countLockWaiters(superuser);
      await until(waiting, (count) => count === 1, 'the intruder to wait');
      const serving = serve();
      await until(waiting, (count) => count >= 2, 'a call to wait');
      const found = await until(
        () => endOutsideSessions(watcher),
        (sessions) => sessions.length > 0,
        'the watch to find it',
      );
      expect(found).toEqual([{ login: auditor, reason: 'blocking', isEnded: true }]);
      await serving;
      expect(await ended).toMatch(/terminat/);
      // The reader blocks nothing, and goes on.
      await reader.query('select 1');
    } finally {
      await Promise.all([reader.end(), intruder.end(), watcher.end()]);
    }
  });

  test('a session of a login that the owner did not create is reported, not ended', async () => {
    const client = await connectOutside(plain);
    const blocked = await connectAs(database, 'owner');
    const watcher = await connectAs(database, 'relay');
    try {
      await superuser.query(`grant usage on schema daybook to ${plain}`);
      await superuser.query(`grant update on daybook.attempt to ${plain}`);
      await client.query('begin; lock table daybook.attempt in access exclusive mode');
      const waiting = blocked.query('select count(*) from daybook.attempt').catch(() => undefined);
      const found = await until(
        () => endOutsideSessions(watcher),
        (sessions) => sessions.length > 0,
        'the watch to find it',
      );
      expect(found).toEqual([{ login: plain, reason: 'blocking', isEnded: false }]);
      await client.query('rollback');
      await waiting;
    } finally {
      await superuser.query(
        `revoke all on daybook.attempt from ${plain}; revoke all on schema daybook from ${plain}`,
      );
      await Promise.all([client.end(), blocked.end(), watcher.end()]);
    }
  });

  test('sessions of other databases of the cluster are left alone', async () => {
    await using other = await createDatabase();
    const client = new Client({ ...other.config('auditor'), user: plain, password: passwords.get(plain) });
    await client.connect();
    const blocked = await connectAs(other, 'owner');
    const watchers = [await connectAs(other, 'relay'), await connectAs(database, 'relay')] as const;
    try {
      await client.query('begin; select pg_advisory_xact_lock(1)');
      const waiting = blocked.query('select pg_advisory_xact_lock(1)');
      const found = await until(
        () => endOutsideSessions(watchers[0]),
        (sessions) => sessions.length > 0,
        'the watch of the other database to find it',
      );
      expect(found).toEqual([{ login: plain, reason: 'blocking', isEnded: false }]);
      expect(await endOutsideSessions(watchers[1])).toEqual([]);
      await client.query('commit');
      await waiting;
    } finally {
      await Promise.all([client.end(), blocked.end(), ...watchers.map((watcher) => watcher.end())]);
    }
  });

  test("Daybook's own sessions are never ended, whatever they block", async () => {
    const holder = await connectAs(database, 'worker');
    const audit = await connectAs(database, 'auditor');
    const watcher = await connectAs(database, 'relay');
    try {
      await holder.query(`begin; ${takeLock('checkpoint')}`);
      await audit.query('begin; select from daybook.log limit 1');
      const blocked = await connectAs(database, 'worker');
      const waiting = blocked.query(`begin; ${takeLock('checkpoint')}`);
      await new Promise((resolve) => setTimeout(resolve, OUTSIDE_WAIT_MAX_MS + 100));
      expect(await endOutsideSessions(watcher)).toEqual([]);
      await holder.query('rollback');
      await waiting;
      await blocked.end();
    } finally {
      await Promise.all([holder.end(), audit.end(), watcher.end()]);
    }
  });
});
