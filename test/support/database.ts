import { Client, type ClientConfig } from 'pg';
import { inject } from 'vitest';
import { patient, sessionConfig, type Store } from '#db/postgres/connect.ts';
import { databaseUrlOf } from './database-url.ts';
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
const SESSIONS_CLOSE_TIMEOUT_MS = 5_000;

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

async function createFrom(template: string): Promise<TestDatabase> {
  const { host, port, passwords } = inject('cluster');
  const name = `test_${publicId()}`;
  const connect = async (database: string): Promise<Client> => {
    const client = new Client({ host, port, user: 'postgres', database, password: passwords.superuser });
    await client.connect();
    return client;
  };
  const administer = async (...statements: string[]): Promise<void> => {
    const client = await connect('postgres');
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  };
  await administer(`create database "${name}" template ${template} owner daybook_owner`);
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
    superuser: () => connect(name),
    async [Symbol.asyncDispose]() {
      const client = await connect('postgres');
      try {
        const open = await sessionsLeft(client, name);
        await client.query(`drop database "${name}" with (force)`);
        if (open.length > 0) throw new Error(`the test left sessions open: ${open.join(', ')}`);
      } finally {
        await client.end();
      }
    },
  };
}

/** The first column of a query's first row, over a connection of its own; undefined when there is no row. */
export async function ask(config: ClientConfig, query: string): Promise<unknown> {
  const client = new Client(config);
  client.on('error', () => undefined);
  await client.connect();
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
