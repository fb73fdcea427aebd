import type { Client, ClientBase } from 'pg';
import { closeClient, connectAs, externalStore, type Store, StoreError } from '#db/postgres/connect.ts';
import { grantRole, MAY_SET } from '#db/postgres/grant-role.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { DAYBOOK_ROLES } from '#db/postgres/role-script.ts';
import { scramVerifier } from '#db/postgres/scram.ts';

/**
 * The login of servers and workers if the owner migrates separately. It may act as relay, worker and auditor,
 * and owns nothing: unlike the owner's password, its password does not allow changing or dropping the log.
 */

/**
 * Whether a session may change a schema; also true if the schema does not exist, so that this session creates
 * it.
 */
export async function ownsSchema(client: Pick<ClientBase, 'query'>, schema: string): Promise<boolean> {
  const { rows } = await client.query<{ owns: boolean }>(
    `select pg_has_role(nspowner, 'USAGE') as owns from pg_namespace where nspname = $1`,
    [schema],
  );
  return rows[0]?.owns ?? true;
}

/**
 * Creates the login that an address names, or gives the existing one the address's password and missing
 * privileges. The schema has to be migrated. Idempotent.
 * @param url the address for servers and workers, on the owner's database.
 * @returns the login's name.
 * @throws {StoreError} if the login has the owner's privileges, or can't be created.
 */
export async function ensureServiceLogin(owner: Store, url: string): Promise<string> {
  const { user, password } = externalStore(url).config('owner');
  const login = user ?? '';
  const secret = typeof password === 'function' ? await password() : password;
  // Other characters would have to be normalized first (SASLprep, RFC 4013).
  if (!/^[\x20-\x7e]*$/.test(secret ?? ''))
    throw new StoreError('SERVICE_DATABASE_URL is not usable: its password must be printable ASCII');
  const client = await connectAs(owner, 'owner');
  try {
    await client.query('begin');
    // Serialized: Postgres rejects concurrent changes of one role.
    await client.query(takeLock('logins'));
    const name = client.escapeIdentifier(login);
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [login]);
    const { rows } = await client.query<{ owns: boolean }>(
      `select coalesce(bool_or(pg_has_role(rolname, nspowner, 'MEMBER')), false) as owns
        from pg_roles, pg_namespace where rolname = $1 and nspname = 'daybook'`,
      [login],
    );
    if (rows[0]?.owns)
      throw new StoreError(
        `SERVICE_DATABASE_URL is not usable: ${login} may act as the owner of the database; ` +
          'name another login',
      );
    if (!(await isPrepared(client, login)))
      await prepareLogin(client, name, { exists: rowCount !== 0, secret: secret ?? '' });
    // With it servers check that the schema is that of their version.
    await client.query(`grant usage on schema daybook_migrations to ${name}`);
    await client.query(`grant select on all tables in schema daybook_migrations to ${name}`);
    await client.query('commit');
    return login;
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(
      `the login ${login} (SERVICE_DATABASE_URL) can't be created: ${(error as Error).message}. An owner ` +
        `without CREATEROLE needs a login that an administrator prepared with the SQL that ` +
        `"daybook db roles --service ${login}" prints`,
      { cause: error },
    );
  } finally {
    await closeClient(client);
  }
}

/**
 * Whether an administrator has prepared the login, because this owner may not create roles: then its password
 * and its memberships are the administrator's.
 */
async function isPrepared(client: ClientBase, login: string): Promise<boolean> {
  const { rows } = await client.query<{ prepared: boolean }>(
    `select not rolcreaterole and not rolsuper and exists (select from pg_roles where rolname = $1) and
        (select bool_and(pg_has_role($1::name, role, ${MAY_SET})) from unnest($2::name[]) role) as prepared
      from pg_roles where rolname = current_user`,
    [login, DAYBOOK_ROLES],
  );
  return rows[0]?.prepared === true;
}

async function prepareLogin(
  client: Client,
  name: string,
  { exists, secret }: { exists: boolean; secret: string },
): Promise<void> {
  const proof = secret ? `password ${client.escapeLiteral(scramVerifier(secret))}` : '';
  await client.query(`${exists ? 'alter' : 'create'} role ${name} login noinherit ${proof}`);
  await grantRole(client, DAYBOOK_ROLES.join(', '), name, { inherit: false, set: true });
}
