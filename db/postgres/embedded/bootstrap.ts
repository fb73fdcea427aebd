import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import { SUPERVISOR_LOCK_POLL_MS, SUPERVISOR_LOCK_WAIT_MS } from '#db/bounds.ts';
import { closeClient, StoreError, type Role } from '#db/postgres/connect.ts';
import { grantRole, MAY_SET } from '#db/postgres/grant-role.ts';
import type { Passwords, ClusterPaths } from '#db/postgres/embedded/cluster.ts';

/**
 * Advisory locks of the embedded server, in its database `postgres`, to which only the superuser and the
 * owner can connect: in another one any login could take them.
 */
const SUPERVISOR_LOCK = '21, 0';
const BOOTSTRAP_LOCK = '21, 1';

const ROLES: readonly Role[] = ['owner', 'relay', 'worker', 'auditor'];
export const DATABASE = 'daybook';
const IS_TERSE = `select exists (select from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
  where datname = '${DATABASE}' and setrole = 0 and 'log_error_verbosity=terse' = any(setconfig))`;

/**
 * Creates missing roles and the database. The superuser does nothing else; even the owner of the tables is
 * an ordinary role.
 */
export async function bootstrap(superuser: ClientConfig, passwords: Passwords): Promise<void> {
  const client = new Client({
    ...superuser,
    // Otherwise the log of Postgres would quote a failing statement with its password.
    options: '-c log_min_error_statement=panic -c log_statement=none -c log_min_duration_statement=-1',
  });
  client.on('error', () => undefined);
  await client.connect();
  try {
    // Two starters may both have found the server running. The lock is released with the session.
    await client.query(`select pg_advisory_lock(${BOOTSTRAP_LOCK})`);
    for (const role of ROLES) await ensureRole(client, `daybook_${role}`, passwords[role]);
    await client.query(
      `revoke connect on database postgres, template1 from public;
        grant connect on database postgres to daybook_owner`,
    );
    if (!(await isTrue(client, `select exists (select from pg_database where datname = '${DATABASE}')`))) {
      await client.query(`create database ${DATABASE} owner daybook_owner`);
    }
    // The DETAIL lines of errors quote rows; elsewhere they are the reason of a failed start.
    if (!(await isTrue(client, IS_TERSE)))
      await client.query(`alter database ${DATABASE} set log_error_verbosity = terse`);
  } finally {
    await closeClient(client);
  }
}

async function ensureRole(client: Client, name: string, password: string): Promise<void> {
  const isOwner = name === 'daybook_owner';
  if (
    !(await isTrue(client, `select exists (select from pg_roles where rolname = '${name}' and rolcanlogin)`))
  ) {
    const known = await isTrue(client, `select exists (select from pg_roles where rolname = '${name}')`);
    await client.query(
      `${known ? 'alter' : 'create'} role ${name} login ${isOwner ? 'createrole' : ''}
        password ${client.escapeLiteral(password)}`,
    );
  }
  // The owner may act as the other roles (migrations check it), but does not inherit their privileges. It
  // creates logins for auditors, so it may grant their role.
  const isGrantable = name === 'daybook_auditor';
  const admin = isGrantable ? ' WITH ADMIN OPTION' : '';
  if (
    !isOwner &&
    !(await isTrue(client, `select pg_has_role('daybook_owner', '${name}', ${MAY_SET} || '${admin}')`))
  ) {
    await grantRole(client, name, 'daybook_owner', { inherit: false, set: true, admin: isGrantable });
  }
}

async function isTrue(client: Client, query: string): Promise<boolean> {
  const { rows } = await client.query<{ result: boolean }>(`select (${query}) as result`);
  return rows[0]?.result === true;
}

/** Proves that only this process supervises the cluster. It lasts as long as its connection. */
export type SupervisorLock = {
  /** Resolves when the connection is lost, which is the first sign that Postgres died. */
  lost: Promise<void>;
  release(): Promise<void>;
};

/** Another Daybook supervises this cluster, which owns its server. */
export class DirectoryInUseError extends StoreError {}

/**
 * Acquires the supervisor's lock.
 * @throws {DirectoryInUseError} if another Daybook still holds it after SUPERVISOR_LOCK_WAIT_MS.
 */
export async function acquireSupervisorLock(
  paths: ClusterPaths,
  owner: ClientConfig,
): Promise<SupervisorLock> {
  const client = new Client({
    ...owner,
    database: 'postgres',
    application_name: `daybook-supervisor pid=${process.pid}`,
  });
  client.on('error', () => undefined);
  const { promise: lost, resolve } = Promise.withResolvers<void>();
  client.once('end', resolve);
  await client.connect();
  const release = (): Promise<void> => closeClient(client);
  try {
    const deadline = performance.now() + SUPERVISOR_LOCK_WAIT_MS;
    while (!(await isTrue(client, `select pg_try_advisory_lock(${SUPERVISOR_LOCK})`))) {
      if (performance.now() > deadline) {
        throw new DirectoryInUseError(
          `${paths.dataDir} is in use by another Daybook (${await lockHolder(client)})`,
        );
      }
      await sleep(SUPERVISOR_LOCK_POLL_MS);
    }
    return { lost, release };
  } catch (error) {
    await release();
    throw error;
  }
}

async function lockHolder(client: Client): Promise<string> {
  const { rows } = await client.query<{ name: string }>(
    `select application_name as name from pg_locks join pg_stat_activity using (pid)
     where locktype = 'advisory' and granted and (classid, objid) = (${SUPERVISOR_LOCK})
       and pg_locks.database = (select oid from pg_database where datname = current_database())`,
  );
  return /pid=\d+/.exec(rows[0]?.name ?? '')?.[0].replace('=', ' ') ?? 'process unknown';
}
