import { Client, type ClientConfig } from 'pg';
import { inject } from 'vitest';
import { patient, sessionConfig, type Store, withTimeout } from '#db/postgres/connect.ts';
import { databaseUrlOf } from './database-url.ts';
import { isInMemory } from './directory.ts';
import { publicId } from '#db/ids.ts';

/** A database of a test's own, with the current schema and no data. */
export type TestDatabase = Store &
  AsyncDisposable & {
    name: string;
    /** As the owner: what a spawned server takes as DATABASE_URL. */
    url: string;
    /**
     * A connected client with the superuser's rights, for what no role of Daybook may do. The caller ends it.
     */
    superuser(): Promise<Client>;
  };

/** Sessions of a process that was just killed may take this long to disappear. */
const SESSIONS_CLOSE_TIMEOUT_MS = 120_000;
/** A statement of a test's own session may take this long, also on a busy machine. */
const STATEMENT_TIMEOUT_MS = 60_000;

/**
 * Clones the migrated template in about 20 ms. Disposal drops the database, and fails if a session is still
 * open, because a test that leaks connections hides a server that does.
 */
export async function createDatabase(): Promise<TestDatabase> {
  return createFrom(inject('cluster').template);
}

/** A database without a schema. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  return createFrom('template0');
}

let administrator: Promise<Client> | null = null;

/**
 * The superuser's connection to the cluster, one for all files of this process: a connection takes 15 ms of
 * CPU time, almost half as much as a clone.
 */
function connectAdministrator(): Promise<Client> {
  const forget = (): void => void (administrator = null);
  const connect = async (): Promise<Client> => {
    const client = newSuperuser('postgres');
    client.on('error', forget).on('end', forget);
    await client.connect();
    return client;
  };
  administrator ??= connect();
  administrator.catch(forget);
  return administrator;
}

function newSuperuser(database: string): Client {
  const { host, port, passwords } = inject('cluster');
  return new Client({ host, port, user: 'postgres', database, password: passwords.superuser });
}

async function createFrom(template: string): Promise<TestDatabase> {
  const { host, port, passwords } = inject('cluster');
  const name = `test_${publicId()}`;
  const administration = await connectAdministrator();
  // In memory, copying files takes half the CPU time of writing them to the WAL; on a disk it waits longer.
  const strategy = isInMemory() ? 'file_copy' : 'wal_log';
  await administration.query(
    `create database "${name}" template ${template} owner daybook_owner strategy = ${strategy}`,
  );
  return {
    name,
    url: await databaseUrlOf({
      host,
      port,
      user: 'daybook_owner',
      database: name,
      password: passwords.owner,
    }),
    // With long connection timeouts: a slow connection on a busy machine is no failure.
    ...patient({
      config: (role) =>
        sessionConfig(role, {
          host,
          port,
          user: `daybook_${role}`,
          database: name,
          password: () => passwords[role],
        }),
    }),
    async superuser() {
      const client = newSuperuser(name);
      await client.connect();
      return client;
    },
    async [Symbol.asyncDispose]() {
      const client = await connectAdministrator();
      const open = await sessionsLeft(client, name);
      await client.query(`drop database "${name}" with (force)`);
      if (open.length > 0) throw new Error(`the test left sessions open: ${open.join(', ')}`);
    },
  };
}

/**
 * A session of the test itself, with a longer statement timeout than the sessions of servers: commands use
 * longer ones too. Its loss fails its queries and nothing else. The caller ends it.
 */
export async function openSession(config: ClientConfig): Promise<Client> {
  const client = new Client(withTimeout(config, STATEMENT_TIMEOUT_MS));
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** The first column of a query's first row, over a connection of its own; undefined when there is no row. */
export async function ask(config: ClientConfig, query: string): Promise<unknown> {
  const client = await openSession(config);
  try {
    const { rows } = await client.query<unknown[]>({ text: query, rowMode: 'array' });
    return rows[0]?.[0];
  } finally {
    await client.end();
  }
}

async function sessionsLeft(client: Client, database: string): Promise<string[]> {
  const deadline = performance.now() + SESSIONS_CLOSE_TIMEOUT_MS;
  for (;;) {
    const { rows } = await client.query<{ name: string }>(
      'select application_name as name from pg_stat_activity where datname = $1',
      [database],
    );
    if (rows.length === 0 || performance.now() > deadline) return rows.map((row) => row.name);
    await client.query('select pg_sleep(0.02)');
  }
}
