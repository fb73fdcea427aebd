import type { Client } from 'pg';
import { closeClient, connectAs, type Store, StoreError } from '#db/postgres/connect.ts';
import { randomBase62 } from '#db/ids.ts';
import { LOCKS } from '#db/postgres/locks.ts';
import { scramVerifier } from '#db/postgres/scram.ts';

/**
 * Logins of auditors: each may become `daybook_auditor` and nothing else, inherits nothing and owns
 * nothing. With one somebody verifies the log from their own machine, and can change nothing here.
 */

const PASSWORD_CHARACTERS = 32;
/** Somebody at a terminal, and a few scripts: what is too many for them would be missing for the calls. */
const CONNECTIONS_MAX = 10;
/** Postgres keeps names of up to 63 bytes; its own begin with pg_, and ours with daybook_. */
const LOGIN = /^(?!pg_|daybook_)[a-z][a-z0-9_]{0,62}$/;

/**
 * Makes a login for an auditor.
 * @returns its password, which is nowhere else.
 * @throws {StoreError} when there is one of that name, or it can't be made.
 */
export async function createAuditorLogin(owner: Store, login: string): Promise<string> {
  const password = randomBase62(PASSWORD_CHARACTERS);
  await change(owner, login, 'made', async (client, name) => {
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [login]);
    if (rowCount !== 0) throw new StoreError(`there is a login ${login} already: choose another name`);
    await client.query(
      `create role ${name} login noinherit connection limit ${CONNECTIONS_MAX} password ${client.escapeLiteral(scramVerifier(password))}`,
    );
    await client.query(`grant daybook_auditor to ${name} with inherit false, set true`);
  });
  return password;
}

/**
 * Takes such a login away; what it has open ends at its next statement. @throws {StoreError} when there is
 * none of that name.
 */
export async function dropAuditorLogin(owner: Store, login: string): Promise<void> {
  await change(owner, login, 'dropped', async (client, name) => {
    const { rows } = await client.query<{ role: string }>(
      'select g.rolname as role from pg_auth_members m join pg_roles g on g.oid = m.roleid join pg_roles r on r.oid = m.member where r.rolname = $1',
      [login],
    );
    if (rows.length === 0 || rows.some(({ role }) => role !== 'daybook_auditor'))
      throw new StoreError(`there is no login ${login} of an auditor`);
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
      'the name of a login has up to 63 small letters, digits and "_", begins with a letter, and not with pg_ or daybook_',
    );
  const client = await connectAs(owner, 'owner');
  try {
    await client.query('begin');
    // One at a time: Postgres refuses changes of one role that meet.
    await client.query(`select pg_advisory_xact_lock(${LOCKS.serviceLogin})`);
    await work(client, client.escapeIdentifier(login));
    await client.query('commit');
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(
      `the login ${login} can't be ${what}: ${(error as Error).message}. It takes an owner who may make roles, and may pass on daybook_auditor`,
      { cause: error },
    );
  } finally {
    await closeClient(client);
  }
}

/**
 * The address by which such a login comes, for `DATABASE_URL`. @param owner's address, where the database is
 * somebody's own.
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
  return `postgres://${login}:${password}@${isSocket ? 'localhost' : `${host}:${port}`}/${database}${isSocket ? `?host=${encodeURIComponent(host)}&port=${port}` : ''}`;
}
