import type { Client, ClientConfig } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { StoreClient } from '#db/postgres/client.ts';
import { checkDurability } from '#db/postgres/check-server.ts';
import { closeClient, connectAs, externalStore, type Store, StoreError } from '#db/postgres/connect.ts';
import { type EmbeddedStore, startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { clusterPaths } from '#db/postgres/embedded/cluster.ts';
import { readPidFile } from '#db/postgres/embedded/postmaster.ts';
import { ask, createDatabase } from '../support/database.ts';
import { makeClusterDirectory } from '../support/cluster-copy.ts';
import { removeTestDirectory } from '../support/directory.ts';
import { keptBytes } from '../support/memory/kept-bytes.ts';

const SECRET = 'hunter2';

describe('DATABASE_URL', () => {
  test.each([
    `user:${SECRET}@host/db`,
    `mysql://user:${SECRET}@host/db`,
    `postgres://user:${SECRET}@host:notaport/db`,
    `postgres://user:${SECRET}%zz@[::1/db`,
    `postgres://user:${SECRET}@host/db?sslrootcert=/no/such/file`,
    `postgres://user:${SECRET}@host/%E0%A4`,
    '',
  ])('that cannot be used is refused by its name and without its password: %s', (url) => {
    const refusal = (() => {
      try {
        return externalStore(url).config('owner');
      } catch (error) {
        return error;
      }
    })();
    expect(refusal).toBeInstanceOf(StoreError);
    expect((refusal as Error).message).toMatch(/^DATABASE_URL [^\n]+$/);
    expect((refusal as Error).message).not.toContain(SECRET);
  });

  test('names the certificate that cannot be read', () => {
    const url = `postgres://user:${SECRET}@host/db?sslrootcert=/no/such/file`;
    expect(() => externalStore(url)).toThrow('DATABASE_URL cannot be used: /no/such/file cannot be read');
  });

  test('is parsed like libpq: network address, Unix socket in either form', () => {
    expect(externalStore('postgresql://u:p%40ss@db.example:6000/d').config('owner')).toMatchObject({
      host: 'db.example',
      port: 6000,
      user: 'u',
      database: 'd',
    });
    for (const url of [
      'postgres://u:p@localhost/d?host=/run/pg',
      'postgres://u:p@/d?host=/run/pg',
      'postgres:///d?host=/run/pg&user=u',
    ]) {
      expect(externalStore(url).config('relay'), url).toMatchObject({
        host: '/run/pg',
        port: 5432,
        user: 'u',
        database: 'd',
      });
    }
  });

  test('cannot override a role or a timeout by parameters, and keeps its other options', () => {
    const parameters =
      'options=-c%20role%3Dpostgres%20-c%20work_mem%3D8MB' +
      '&statement_timeout=0&query_timeout=0&application_name=x';
    const config = externalStore(`postgres://u:${SECRET}@h/d?${parameters}`).config('relay');
    expect(config.options).toBe('-c role=postgres -c work_mem=8MB -c role=daybook_relay');
    expect(config.application_name).toBe('daybook-relay');
    expect(config.query_timeout).toBeGreaterThan(Number(config.statement_timeout));
    expect(config.statement_timeout).toBeGreaterThan(0);
    expect(JSON.stringify(config)).not.toContain(SECRET);
  });
});

test('a server without durable settings is rejected by the name of the setting', async () => {
  await using database = await createDatabase();
  const client = new StoreClient({ ...database.config('relay'), options: '-c synchronous_commit=off' });
  await client.connect();
  try {
    await expect(checkDurability(client, { checksums: false })).rejects.toThrow('synchronous_commit=off');
    for (const honest of ['on', 'local', 'remote_write', 'remote_apply']) {
      await client.query(`set synchronous_commit = ${honest}`);
      await expect(checkDurability(client, { checksums: true })).resolves.toBeUndefined();
    }
  } finally {
    await client.end();
  }
});

test('a slow statement is canceled by the server, and the connection stays usable', async () => {
  await using database = await createDatabase();
  const client = new StoreClient(database.config('relay'));
  await client.connect();
  try {
    await expect(client.query('select pg_sleep(30)')).rejects.toMatchObject({ code: '57014' });
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  } finally {
    await client.end();
  }
});

test('every session has an idle-in-transaction timeout, and the owner a lock timeout', async () => {
  await using database = await createDatabase();
  expect(await ask(database.config('relay'), 'show idle_in_transaction_session_timeout')).toBe('10s');
  expect(await ask(database.config('owner'), 'show lock_timeout')).toBe('2s');
});

describe('a frozen server', () => {
  let dataDir: string;
  let store: EmbeddedStore;
  let postmaster: number;
  beforeAll(async () => {
    dataDir = await makeClusterDirectory();
    store = await startEmbedded({ dataDir, log: () => undefined });
    postmaster = (await readPidFile(await clusterPaths(dataDir)))?.pid ?? 0;
  });
  afterAll(async () => {
    await store.stop();
    await removeTestDirectory(dataDir);
  });

  /** Stops the postmaster and these backends, as a dead disk or a paused machine would. */
  async function whileFrozen(backends: number[], use: () => Promise<void>): Promise<void> {
    const processes = [postmaster, ...backends];
    for (const pid of processes) process.kill(pid, 'SIGSTOP');
    try {
      await use();
    } finally {
      for (const pid of processes) process.kill(pid, 'SIGCONT');
    }
  }

  async function connect(config: ClientConfig): Promise<{ client: Client; backend: number }> {
    const client = new StoreClient(config);
    client.on('error', () => undefined);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    return { client, backend: rows[0]?.pid ?? 0 };
  }

  test.each<[string, (store: Store) => Store]>([
    ['the embedded store', (embedded) => embedded],
    ['a DATABASE_URL', (embedded) => externalStore(urlOf(embedded))],
  ])('holds up no query, no new connection and no goodbye: %s', async (_name, through) => {
    const config = through(store).config('relay');
    const busy = await connect(config);
    const idle = await connect(config);
    await whileFrozen([busy.backend, idle.backend], async () => {
      await Promise.all([
        expect(busy.client.query('select 1')).rejects.toThrow('Query read timeout'),
        expect(connect(config)).rejects.toThrow('timeout expired'),
        closeClient(idle.client),
      ]);
      await closeClient(busy.client);
    });
    expect(await ask(config, 'select 1')).toBe(1);
  });
});

/** The owner's address as a URL, as an operator would write it. */
function urlOf(store: Store): string {
  const { host, port, user, database, password } = store.config('owner');
  const secret = typeof password === 'function' ? password() : password;
  if (typeof secret !== 'string') throw new Error('the password is not known at once');
  return `postgres://${user}:${secret}@localhost:${port}/${database}?host=${encodeURIComponent(host ?? '')}`;
}

describe('a statement', () => {
  test('has its result by promise or callback, and its error with the stack of its caller', async () => {
    await using database = await createDatabase();
    const client = await connectAs(database, 'relay');
    try {
      expect((await client.query('select $1::int as one', [1])).rows).toEqual([{ one: 1 }]);
      const called = Promise.withResolvers<unknown>();
      client.query('select 2 as two', [], (error, result) =>
        error ? called.reject(error) : called.resolve(result.rows),
      );
      expect(await called.promise).toEqual([{ two: 2 }]);
      const failed = await client.query('select 1/0').catch((error: unknown) => error);
      expect(failed).toMatchObject({ code: '22012', stack: expect.stringContaining('connect.test') });
    } finally {
      await client.end();
    }
  });

  test('leaves nothing in the old generation that minor collections do not free', async () => {
    await using database = await createDatabase();
    const { password, ...config } = database.config('relay');
    const own = { ...config, password: typeof password === 'function' ? await password() : password };
    expect(await keptBytes('statement', own)).toBeLessThan(1_000);
    // The reason for it. When pg no longer does this, it needs no other client.
    expect(await keptBytes('statement of pg', own)).toBeGreaterThan(1_500);
  });
});
