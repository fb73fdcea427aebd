import type { ClientBase } from 'pg';
import { closeClient, connectAs, externalStore, type Store, StoreError } from '#db/postgres/connect.ts';
import { LOCKS } from '#db/postgres/locks.ts';
import { scramVerifier } from '#db/postgres/scram.ts';

/**
 * The login of servers and workers where somebody else migrates. It may act as relay, worker and
 * auditor, and owns nothing: with its password nobody can change or drop what is in the log, as
 * somebody could with the owner's.
 */

/**
 * Whether a session may change a schema; also true where there is none yet, since somebody has to make it.
 */
export async function ownsSchema(client: Pick<ClientBase, 'query'>, schema: string): Promise<boolean> {
  const { rows } = await client.query<{ owns: boolean }>(
    `select pg_has_role(nspowner, 'USAGE') as owns from pg_namespace where nspname = $1`,
    [schema],
  );
  return rows[0]?.owns ?? true;
}

/**
 * Makes the login that this address names, or gives the one that is there the address's password
 * and what it lacks of its rights. The schema has to be migrated. May be done again and again.
 * @param url that of servers and workers, on the owner's database.
 * @returns the login's name.
 * @throws {StoreError} when the login is no lesser one than the owner, or can't be made.
 */
export async function ensureServiceLogin(owner: Store, url: string): Promise<string> {
  const { user, password } = externalStore(url).config('owner');
  const login = user ?? '';
  const secret = typeof password === 'function' ? await password() : password;
  // Others would have to be normalised first, as RFC 4013 says.
  if (!/^[\x20-\x7e]*$/.test(secret ?? ''))
    throw new StoreError('SERVICE_DATABASE_URL is not usable: its password must be printable ASCII');
  const client = await connectAs(owner, 'owner');
  try {
    await client.query('begin');
    // One at a time: Postgres refuses changes of one role that meet.
    await client.query(`select pg_advisory_xact_lock(${LOCKS.serviceLogin})`);
    const name = client.escapeIdentifier(login);
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [login]);
    const { rows } = await client.query<{ owns: boolean }>(
      `select coalesce(bool_or(pg_has_role(rolname, nspowner, 'MEMBER')), false) as owns
        from pg_roles, pg_namespace where rolname = $1 and nspname = 'daybook'`,
      [login],
    );
    if (rows[0]?.owns)
      throw new StoreError(
        `SERVICE_DATABASE_URL is not usable: ${login} may act as the owner of the database; name another login`,
      );
    const proof = secret ? `password ${client.escapeLiteral(scramVerifier(secret))}` : '';
    await client.query(`${rowCount === 0 ? 'create' : 'alter'} role ${name} login noinherit ${proof}`);
    await client.query(
      `grant daybook_relay, daybook_worker, daybook_auditor to ${name} with inherit false, set true`,
    );
    // With it servers check that the schema is that of their version.
    await client.query(`grant usage on schema daybook_migrations to ${name}`);
    await client.query(`grant select on all tables in schema daybook_migrations to ${name}`);
    await client.query('commit');
    return login;
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(
      `the login ${login} (SERVICE_DATABASE_URL) can't be made: ${(error as Error).message}`,
      { cause: error },
    );
  } finally {
    await closeClient(client);
  }
}
