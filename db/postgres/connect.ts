import { Client, type ClientBase, type ClientConfig, Pool, type PoolConfig } from 'pg';
import {
  CLOSE_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  IDLE_TRANSACTION_TIMEOUT_MS,
  KEEP_ALIVE_DELAY_MS,
  OWNER_LOCK_TIMEOUT_MS,
  QUERY_TIMEOUT_MS,
  START_CONNECT_TIMEOUT_MS,
  STATEMENT_MARGIN_MS,
} from '#db/bounds.ts';

/** Something about the store that the operator has to put right. The message is one line meant for them. */
export class StoreError extends Error {
  override name = 'StoreError';
}

/** Who a connection acts as: `owner` migrates, `relay` serves, `worker` projects, `auditor` only reads. */
export type Role = 'owner' | 'relay' | 'worker' | 'auditor';

export type Store = {
  /** What `pg` needs to connect as this role, with every time-out set. */
  config(role: Role): ClientConfig;
};

/**
 * Where a session leads. The password is a function so that no configuration that is printed or
 * logged by mistake shows it.
 */
export type Target = Pick<ClientConfig, 'host' | 'port' | 'user' | 'database' | 'ssl' | 'options'> & {
  password?: () => string;
};

/** The full configuration of a session as `role` at `target`: the one place where time-outs are set. */
export function sessionConfig(role: Role, target: Target): ClientConfig {
  const session = {
    ...target,
    application_name: `daybook-${role}`,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
    ...(role === 'owner' ? { lock_timeout: OWNER_LOCK_TIMEOUT_MS } : {}),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
  };
  return withTimeout(session, QUERY_TIMEOUT_MS - STATEMENT_MARGIN_MS);
}

/**
 * The same session with another patience, for what is known to take long: a migration, an export.
 * The server gives a statement up after `timeoutMs`; the client waits a little longer for its answer.
 */
export function withTimeout(config: ClientConfig, timeoutMs: number): ClientConfig {
  return { ...config, statement_timeout: timeoutMs, query_timeout: timeoutMs + STATEMENT_MARGIN_MS };
}

/**
 * The same store for who starts or gives a command: nobody is kept waiting there, and a busy machine must not
 * make it fail.
 */
export function patient(store: Store): Store {
  return { config: (role) => ({ ...store.config(role), connectionTimeoutMillis: START_CONNECT_TIMEOUT_MS }) };
}

/**
 * A connection as a role. It reports its end to whoever uses it and never to the process.
 * @param timeoutMs the patience with a statement, where the short one of every session won't do.
 */
export async function connectAs(store: Store, role: Role, timeoutMs?: number): Promise<Client> {
  const config = store.config(role);
  const client = new Client(timeoutMs === undefined ? config : withTimeout(config, timeoutMs));
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/**
 * Connections that are opened when they are needed. Each reports its end to whoever uses it and never
 * to the process: pg's own pool looks after those that nobody has taken, and only those.
 */
export function openPool(config: PoolConfig): Pool {
  const pool = new Pool(config);
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/**
 * Ends a connection politely where the server still listens, and at once where it is frozen and never would.
 */
export async function closeClient(client: Client): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), CLOSE_TIMEOUT_MS);
  await client.end();
  clearTimeout(timer);
}

/**
 * A PostgreSQL that somebody else runs. The owner connects as the URL says; the other roles connect
 * the same way and take their role with the first packet, so that one DATABASE_URL serves all.
 * @throws {StoreError} when the URL cannot be used. The message never repeats it: it holds a password.
 */
export function externalStore(databaseUrl: string): Store {
  const target = parseDatabaseUrl(databaseUrl);
  return {
    config(role) {
      const options =
        role === 'owner' ? target.options : `${target.options ?? ''} -c role=daybook_${role}`.trim();
      return sessionConfig(role, { ...target, options });
    },
  };
}

function parseDatabaseUrl(text: string): Target {
  // `user@/database?host=/directory` is how libpq writes a Unix socket. The URL standard allows no
  // user without a host, so one is put in; the `host` parameter overrides it.
  const url = URL.parse(text) ?? URL.parse(text.replace('@/', '@localhost/'));
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol)) {
    throw new StoreError(
      'DATABASE_URL is not an address of the form postgres://user:password@host:5432/database',
    );
  }
  let client: Client;
  try {
    // pg reads the address by its own rules (TLS modes, certificate files); nothing is connected.
    client = new Client({ connectionString: url.href });
  } catch (error) {
    // Only the path of an unreadable certificate is told: other messages may quote the address.
    const { path } = error as NodeJS.ErrnoException;
    throw new StoreError(
      `DATABASE_URL cannot be used${path === undefined ? '' : `: ${path} cannot be read`}`,
    );
  }
  const { password } = client;
  return {
    host: client.host,
    port: client.port,
    user: client.user,
    database: client.database,
    ssl: client.ssl,
    options: url.searchParams.get('options') ?? undefined,
    // Without one, pg looks where libpq would.
    ...(password ? { password: () => password } : {}),
  };
}

const OLDEST_SERVER_VERSION_NUM = 180_000;

/** Settings under which Postgres acknowledges what a crash can still take back. */
const HONEST_SETTINGS = ['fsync', 'full_page_writes', 'synchronous_commit'] as const;

/**
 * Refuses a server whose acknowledgement does not mean "durable", because everything that Daybook
 * promises rests on it. Checksums are asked of the embedded server only: an operator's own may sit
 * on storage that has them.
 * @throws {StoreError} naming the setting.
 */
export async function checkDurability(
  client: Pick<ClientBase, 'query'>,
  { checksums }: { checksums: boolean },
): Promise<void> {
  const names = [...HONEST_SETTINGS, 'data_checksums', 'server_version', 'server_version_num'];
  const { rows } = await client.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any($1)',
    [names],
  );
  const settings = new Map(rows.map((row) => [row.name, row.setting]));
  if (Number(settings.get('server_version_num')) < OLDEST_SERVER_VERSION_NUM) {
    throw new StoreError(
      `Daybook needs PostgreSQL 18 or newer, and this server is ${settings.get('server_version')}`,
    );
  }
  for (const name of HONEST_SETTINGS) {
    if (settings.get(name) === 'off') {
      throw new StoreError(
        `PostgreSQL runs with ${name}=off, so a crash would lose records it has acknowledged: set it to on`,
      );
    }
  }
  if (checksums && settings.get('data_checksums') !== 'on') {
    throw new StoreError('PostgreSQL runs with data_checksums=off, so a damaged page would go unnoticed');
  }
}
