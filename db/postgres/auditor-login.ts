import type { Client } from 'pg';
import { OUTSIDE_IDLE_MAX_MS, OUTSIDE_TRANSACTION_MAX_MS, OWNER_LOCK_TIMEOUT_MS } from '#db/bounds.ts';
import { closeClient, connectAs, type Store, StoreError } from '#db/postgres/connect.ts';
import { randomBase62 } from '#db/ids.ts';
import { grantRole } from '#db/postgres/grant-role.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { scramVerifier } from '#db/postgres/scram.ts';

/**
 * Logins of auditors: each may set the role `daybook_auditor` and no other, inherits nothing and owns
 * nothing. With such a login an auditor verifies the log from their own machine, and can't change anything
 * here.
 */

const PASSWORD_CHARACTERS = 32;
/** Enough for a terminal and a few scripts; more would be missing for requests. */
const CONNECTIONS_MAX = 10;
const DEFAULT_TIMEOUTS_MS = {
  idle_in_transaction_session_timeout: OUTSIDE_IDLE_MAX_MS,
  idle_session_timeout: OUTSIDE_TRANSACTION_MAX_MS,
  transaction_timeout: OUTSIDE_TRANSACTION_MAX_MS,
  statement_timeout: OUTSIDE_TRANSACTION_MAX_MS,
  lock_timeout: OWNER_LOCK_TIMEOUT_MS,
} as const;
/** Postgres truncates names at 63 bytes; its own begin with pg_, and ours with daybook_. */
const LOGIN = /^(?!pg_|daybook_)[a-z][a-z0-9_]{0,62}$/;

/**
 * Creates a login for an auditor.
 * @returns its password, which is stored nowhere.
 * @throws {StoreError} if a role of that name exists, or the login can't be created.
 */
export async function createAuditorLogin(owner: Store, login: string): Promise<string> {
  const password = randomBase62(PASSWORD_CHARACTERS);
  await change(owner, login, 'created', async (client, name) => {
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [login]);
    if (rowCount !== 0) throw new StoreError(`the login ${login} exists already: choose another name`);
    await client.query(
      `create role ${name} login noinherit connection limit ${CONNECTIONS_MAX}
        password ${client.escapeLiteral(scramVerifier(password))}`,
    );
    await grantRole(client, 'daybook_auditor', name, { inherit: false, set: true });
    // With it the owner may end its sessions: see daybook.end_outside_sessions.
    await grantRole(client, name, 'current_user', { inherit: true, set: false });
    // Defaults, which a session may change; daybook.end_outside_sessions enforces its own.
    const { rows } = await client.query<{ setting: string }>(
      'select name as setting from pg_settings where name = any($1)',
      [Object.keys(DEFAULT_TIMEOUTS_MS)],
    );
    // Before PostgreSQL 17 there is no transaction_timeout.
    const known = new Set(rows.map(({ setting }) => setting));
    for (const [setting, ms] of Object.entries(DEFAULT_TIMEOUTS_MS))
      if (known.has(setting)) await client.query(`alter role ${name} set ${setting} = ${ms}`);
  });
  return password;
}

/**
 * Drops the login of an auditor; its open sessions fail at their next statement.
 * @throws {StoreError} if no auditor has a login of that name.
 */
export async function dropAuditorLogin(owner: Store, login: string): Promise<void> {
  await change(owner, login, 'dropped', async (client, name) => {
    const { rows } = await client.query<{ role: string }>(
      `select g.rolname as role from pg_auth_members m
        join pg_roles g on g.oid = m.roleid join pg_roles r on r.oid = m.member
        where r.rolname = $1`,
      [login],
    );
    if (rows.length === 0 || rows.some(({ role }) => role !== 'daybook_auditor'))
      throw new StoreError(`no auditor has a login ${login}`);
    // Such as large objects, which any login may create.
    await client.query(`drop owned by ${name}`);
    await client.query(`drop role ${name}`);
  });
}

async function change(
  owner: Store,
  login: string,
  what: string,
  work: (client: Client, name: string) => Promise<void>,
): Promise<void> {
  if (!LOGIN.test(login))
    throw new StoreError(
      'the name of a login has up to 63 lower-case letters, digits and "_", begins with a letter, ' +
        'and not with pg_ or daybook_',
    );
  const client = await connectAs(owner, 'owner');
  try {
    await client.query('begin');
    // Serialized: Postgres rejects concurrent changes of one role.
    await client.query(takeLock('logins'));
    await work(client, client.escapeIdentifier(login));
    await client.query('commit');
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(
      `the login ${login} can't be ${what}: ${(error as Error).message}. ` +
        'The owner of the database needs CREATEROLE, and the admin option on daybook_auditor',
      { cause: error },
    );
  } finally {
    await closeClient(client);
  }
}

/**
 * The DATABASE_URL of such a login.
 * @param databaseUrl the owner's address, if the operator runs the database.
 */
export function addressFor(
  owner: Store,
  login: string,
  password: string,
  databaseUrl: string | undefined,
): string {
  if (databaseUrl !== undefined) {
    const url = new URL(databaseUrl.replace('@/', '@localhost/'));
    Object.assign(url, { username: login, password });
    return url.href;
  }
  const { host = 'localhost', port, database } = owner.config('owner');
  const isSocket = host.startsWith('/');
  const place = isSocket ? 'localhost' : `${host}:${port}`;
  const parameters = isSocket ? `?host=${encodeURIComponent(host)}&port=${port}` : '';
  return `postgres://${login}:${password}@${place}/${database}${parameters}`;
}
