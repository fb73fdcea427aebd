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
import { StoreClient } from '#db/postgres/client.ts';

/** A problem of the store that the operator has to fix. The message is one line for the operator. */
export class StoreError extends Error {
  override name = 'StoreError';
}

/** The database isn't running, or can't be reached. */
export class StoreUnavailable extends StoreError {}

/** The role of a connection: `owner` migrates, `relay` serves, `worker` projects, `auditor` only reads. */
export type Role = 'owner' | 'relay' | 'worker' | 'auditor';

export type Store = {
  /** The configuration with which `pg` connects as this role, with every timeout set. */
  config(role: Role): ClientConfig;
};

/**
 * The address of a session. The password is a function, so that a configuration that is printed or logged by
 * mistake does not show it.
 */
export type Target = Pick<ClientConfig, 'host' | 'port' | 'user' | 'database' | 'ssl' | 'options'> & {
  password?: () => string;
};

/** The full configuration of a session as `role` at `target`: the only place that sets timeouts. */
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
 * The same session with a longer statement timeout, for migrations and exports. The server cancels a
 * statement after `timeoutMs`; the client waits a little longer for its reply.
 */
export function withTimeout(config: ClientConfig, timeoutMs: number): ClientConfig {
  return { ...config, statement_timeout: timeoutMs, query_timeout: timeoutMs + STATEMENT_MARGIN_MS };
}

/**
 * The same store with a longer connection timeout, for starts and commands: no request waits for them, and a
 * busy machine must not make them fail.
 */
export function patient(store: Store): Store {
  return { config: (role) => ({ ...store.config(role), connectionTimeoutMillis: START_CONNECT_TIMEOUT_MS }) };
}

/**
 * Connects as a role. Errors of the connection reach its user and never crash the process.
 * @param timeoutMs the statement timeout, if the short default of every session does not suffice.
 */
export async function connectAs(store: Store, role: Role, timeoutMs?: number): Promise<Client> {
  const config = store.config(role);
  const client = new StoreClient(timeoutMs === undefined ? config : withTimeout(config, timeoutMs));
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Another session like that of a client, with the same login, role and timeouts. */
export async function connectLike(client: ClientBase): Promise<Client> {
  // The password is not enumerable.
  const { connectionParameters: like } = client as unknown as { connectionParameters: ClientConfig };
  const other = new StoreClient({
    ...like,
    password: like.password,
    query_timeout: client instanceof StoreClient ? client.timeoutMs : like.query_timeout,
    connectionTimeoutMillis: START_CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
  });
  other.on('error', () => undefined);
  await other.connect();
  return other;
}

/**
 * A pool, which connects on demand. Errors of a connection reach its user and never crash the process: pg's
 * own pool handles only the errors of idle connections.
 */
export function openPool(config: PoolConfig): Pool {
  const pool = new Pool({ ...config, Client: StoreClient });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/**
 * Ends a connection in order, or destroys it if a frozen server does not reply in time.
 */
export async function closeClient(client: Client): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), CLOSE_TIMEOUT_MS);
  await client.end();
  clearTimeout(timer);
}

/**
 * A PostgreSQL that the operator runs. The owner connects with the URL; the other roles connect in the same
 * way and set their role in the startup packet, so that one DATABASE_URL serves all roles.
 * @throws {StoreError} if the URL can't be used. The message never quotes the URL, which contains a password.
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
  // `user@/database?host=/directory` is libpq's syntax for a Unix socket. The URL standard allows no user
  // without a host, so a host is inserted; the `host` parameter overrides it.
  const url = URL.parse(text) ?? URL.parse(text.replace('@/', '@localhost/'));
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol)) {
    throw new StoreError(
      'DATABASE_URL is not an address of the form postgres://user:password@host:5432/database',
    );
  }
  let client: Client;
  try {
    // pg parses the address by its own rules (TLS modes, certificate files), without connecting.
    client = new Client({ connectionString: url.href });
  } catch (error) {
    // Only the path of an unreadable certificate is reported: other messages may quote the address.
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
    // Without a password, pg uses libpq's sources.
    ...(password ? { password: () => password } : {}),
  };
}
