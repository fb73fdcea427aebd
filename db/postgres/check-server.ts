import { randomInt } from 'node:crypto';
import type { Client, ClientBase } from 'pg';
import { closeClient, connectLike, StoreError } from '#db/postgres/connect.ts';

/** Whether a PostgreSQL can keep what Daybook promises. Checked at each start, before the first change. */

type Queryable = Pick<ClientBase, 'query'>;

/** The oldest supported PostgreSQL; docs/postgresql.md lists the tested ones. */
const OLDEST_MAJOR = 15;
const ENCODING = 'UTF8';

/** Settings that must not be off: without them Postgres acknowledges commits that a crash can lose. */
const DURABILITY_SETTINGS = ['fsync', 'full_page_writes', 'synchronous_commit'] as const;

const READ = ['data_checksums', 'server_encoding', 'server_version', 'server_version_num'] as const;

/** The major version of the server: 15 for 15.18. */
export async function readMajor(client: Queryable): Promise<number> {
  const { rows } = await client.query<{ major: number }>(
    `select current_setting('server_version_num')::integer / 10000 as major`,
  );
  return rows[0]?.major ?? 0;
}

/**
 * Rejects a server that is too old, and one whose commits are not durable when acknowledged, because every
 * guarantee of Daybook depends on that. Checksums are required of the embedded server only: the operator's
 * own may use storage that has them.
 * @throws {StoreError} naming the setting.
 */
export async function checkDurability(
  client: Queryable,
  { checksums }: { checksums: boolean },
): Promise<void> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any($1)',
    [[...DURABILITY_SETTINGS, ...READ]],
  );
  const settings = new Map(rows.map((row) => [row.name, row.setting]));
  if (Number(settings.get('server_version_num')) < OLDEST_MAJOR * 10_000) {
    throw new StoreError(
      `Daybook needs PostgreSQL ${OLDEST_MAJOR} or newer, and this server is ` +
        `${settings.get('server_version')}: upgrade it, or create the database on a newer server`,
    );
  }
  for (const name of DURABILITY_SETTINGS) {
    if (settings.get(name) === 'off') {
      throw new StoreError(
        `PostgreSQL runs with ${name}=off, so a crash would lose records it has acknowledged: set it to on`,
      );
    }
  }
  if (checksums && settings.get('data_checksums') !== 'on') {
    throw new StoreError('PostgreSQL runs with data_checksums=off, so a damaged page would go undetected');
  }
  if (settings.get('server_encoding') !== ENCODING) {
    throw new StoreError(
      `the database has the encoding ${settings.get('server_encoding')}, and Daybook needs ${ENCODING}: ` +
        `create one with "create database daybook encoding '${ENCODING}' template template0"`,
    );
  }
}

/**
 * Rejects a database of the operator that has PostgreSQL's protocol but not its locks, a standby, and a
 * server that {@link checkDurability} rejects.
 * @throws {StoreError} with the remedy.
 */
export async function checkServer(client: Client): Promise<void> {
  const { rows } = await client.query<{ version: string }>('select version()');
  const version = rows[0]?.version ?? '';
  if (!version.startsWith('PostgreSQL ')) throw notPostgres(`calls itself "${version.slice(0, 60)}"`);
  await checkDurability(client, { checksums: false });
  const { rows: standby } = await client.query<{ is: boolean }>('select pg_is_in_recovery() as is');
  if (standby[0]?.is === true) {
    throw new StoreError(
      'this PostgreSQL is a standby, which is read-only: name the primary, or promote this one',
    );
  }
  await checkAdvisoryLocks(client);
}

/**
 * Takes one advisory lock in two sessions. On a database that accepts the function and doesn't lock, two
 * processes would each run what must run once. The lock ends with its transaction, so that no pooler between
 * keeps it.
 */
async function checkAdvisoryLocks(client: Client): Promise<void> {
  const other = await connectLike(client);
  const key = randomInt(2 ** 47);
  const take = async (session: Client): Promise<boolean> => {
    const { rows } = await session.query<{ taken: boolean }>(
      'select pg_try_advisory_xact_lock($1) as taken',
      [key],
    );
    return rows[0]?.taken === true;
  };
  try {
    await client.query('begin');
    await other.query('begin');
    const [first, second] = [await take(client), await take(other)];
    await client.query('rollback');
    const afterwards = await take(other);
    if (!first || second || !afterwards)
      throw notPostgres(second ? 'grants one advisory lock to two sessions' : 'refuses a free advisory lock');
  } finally {
    await closeClient(other);
  }
}

/** Lists those that are known for it, because the version that they report is often PostgreSQL's. */
function notPostgres(reason: string): StoreError {
  return new StoreError(
    `this database lacks a part of PostgreSQL: it ${reason}. Daybook depends on PostgreSQL's locks and ` +
      'transactions, which CockroachDB, YugabyteDB and others have only partly: use PostgreSQL ' +
      `${OLDEST_MAJOR} or newer, or a service that runs it`,
  );
}
