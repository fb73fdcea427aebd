import { setTimeout as wait } from 'node:timers/promises';
import type { Client } from 'pg';
import type { Store } from '#db/postgres/connect.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { connectEmbedded } from '#db/postgres/embedded/embedded.ts';
import type { Placed } from '#db/events/events.ts';
import { PAGE_ROWS, readPage } from '#db/log/read.ts';
import { readConfig } from '#server/process/config.ts';
import { type Control, withControl } from '#server/control/control.ts';
import { ControlWriter } from '#server/control/control-writer.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { startServer } from '#server/process/server.ts';
import { DroppableOutput } from '#db/diagnostics/droppable-output.ts';
import { createLogger, type Logger } from '#db/diagnostics/logger.ts';
import { createDatabase, openSession, type TestDatabase } from './database.ts';
import { makeClusterDirectory } from './cluster-copy.ts';
import { AS_OPERATOR, READYZ_TOKEN } from './servers/operator.ts';
import { makeTestDirectory, removeTestDirectory } from './directory.ts';
import { countLockWaiters } from './lock-waiters.ts';
import type { ScriptedUpstream } from './upstream/upstream.ts';

/** An upstream as a test names it; a scripted upstream fits as it is. */
export type UpstreamEntry = {
  baseUrl: string;
  name?: string;
  apiKey?: string;
  models?: string[];
  provider?: 'openai' | 'anthropic' | 'gemini';
  routes?: readonly string[];
};

export type RelayOptions = {
  /** In their order; without `models` an upstream serves every model. */
  upstreams?: readonly UpstreamEntry[];
  env?: Record<string, string>;
  /** Receives its diagnostic lines of all levels; absent: none are written. */
  onLine?: (line: string) => void;
  /** A database of the tests' common cluster (the default), or a cluster of the relay's own. */
  postgres?: 'database' | 'embedded';
  /** Called with its database before it starts. */
  prepare?: (database: TestDatabase) => Promise<void>;
};

/** A whole relay in this process, on a real socket and a database of its own. */
export type TestRelay = AsyncDisposable & {
  readonly port: number;
  /** What clients set as their base URL; ends in `/v1`. */
  readonly baseUrl: string;
  /** The account of the first start, and its key's secret. */
  readonly account: string;
  readonly key: string;
  readonly dataDir: string;
  readonly store: Store;
  /** The port of `/metrics`; null: metrics are off. */
  readonly metricsPort: number | null;
  /** Changes accounts and keys as the command line does; returns when the server has taken it in. */
  control<T>(use: (control: Control, pepper: Buffer) => Promise<T>): Promise<T>;
  createAccount(name: string): Promise<{ id: string; name: string }>;
  /** A further key; of the first account unless another is named. */
  createKey(options?: {
    account?: string;
    name?: string;
    expiresAt?: Date;
  }): Promise<{ id: string; secret: string }>;
  /** The whole log, in order. */
  readLog(): Promise<Placed[]>;
  /** Reads the log again and again until it satisfies a condition. @throws {Error} after two minutes. */
  waitFor(condition: (events: readonly Placed[]) => boolean): Promise<Placed[]>;
  /** Ends the server as SIGTERM does; it returns only when nothing runs any more. */
  stop(): Promise<void>;
};

const POLL_MIN_MS = 10;
const POLL_MAX_MS = 50;
/** A wait that ends in vain. Nothing is asserted by it, so that it may be long. */
const WAIT_MS = 120_000;

function logger({ onLine }: RelayOptions): Logger {
  if (!onLine) return createLogger('silent');
  const write = (bytes: Buffer): number => {
    for (const line of bytes.toString().split('\n')) if (line !== '') onLine(line);
    return bytes.length;
  };
  const target = {
    write: (bytes: Buffer, done: (error: null, written: number) => void) => done(null, write(bytes)),
    writeSync: write,
    mayBlock: false,
  };
  return createLogger('trace', null, new DroppableOutput(() => target));
}

/** Starts a relay in this process. It is stopped, and its database and directory removed, on dispose. */
export async function startRelay(options: RelayOptions = {}): Promise<TestRelay> {
  const place = await makePlace(options);
  if (place.store) await options.prepare?.(place.store);
  const server = await startServer(readConfig({ ...place.env, ...options.env }), logger(options));
  const port = Number(new URL(server.baseUrl).port);
  const store = place.store ?? (await connectEmbedded(place.dataDir));
  if (!store || !server.firstKey) throw new Error('the relay did not start on an empty store of its own');
  const { account, secret } = server.firstKey;
  const log = openLog(store);
  let stopped: Promise<void> | null = null;
  const stop = (): Promise<void> => (stopped ??= log.close().then(() => server.stop()));

  // The first key is in the log; the server reads it from there.
  await caughtUp(port, await log.read());

  // One session for all changes: a connection and an instance for each would cost more than the change.
  const writer = new ControlWriter(store, createLogger('silent'), WAIT_MS);
  const control: TestRelay['control'] = async (use) => {
    const result = await writer.change('test', async (commands, client) =>
      use(commands, await pepperOf(client, place.dataDir)),
    );
    if (result instanceof ApiError) throw result;
    await caughtUp(port, await log.read());
    return result;
  };
  return {
    port,
    baseUrl: server.baseUrl,
    account,
    key: secret,
    dataDir: place.dataDir,
    store,
    metricsPort: server.metricsPort,
    control,
    createAccount: (name) => control((commands) => commands.createAccount(name)),
    createKey: ({ account: owner = account, name = 'key', expiresAt = null } = {}) =>
      control((commands, pepper) => commands.createKey(pepper, { account: owner, name, expiresAt })),
    readLog: log.read,
    waitFor: (condition) => until(log.read, condition, 'the log'),
    stop,
    async [Symbol.asyncDispose]() {
      await writer.close();
      await stop();
      await log.close();
      await place[Symbol.asyncDispose]();
    },
  };
}

export type Place = AsyncDisposable & {
  dataDir: string;
  /** Null where the relay runs a cluster of its own. */
  store: TestDatabase | null;
  env: Record<string, string>;
};

/** A directory and, unless the relay brings its own, a database; with the environment that names them. */
export async function makePlace({
  upstreams = [],
  postgres = 'database',
}: RelayOptions = {}): Promise<Place> {
  const dataDir = await (postgres === 'embedded' ? makeClusterDirectory() : makeTestDirectory());
  const database = postgres === 'database' ? await createDatabase() : null;
  return {
    dataDir,
    store: database,
    env: {
      PORT: '0',
      DAYBOOK_DATA: dataDir,
      DAYBOOK_UPSTREAMS: upstreamsVariable(upstreams),
      READYZ_TOKEN,
      LOG_LEVEL: 'silent',
      ...(database ? { DATABASE_URL: database.url } : {}),
    },
    async [Symbol.asyncDispose]() {
      await removeTestDirectory(dataDir);
      await database?.[Symbol.asyncDispose]();
    },
  };
}

/** The value of `DAYBOOK_UPSTREAMS` for these upstreams. */
export function upstreamsVariable(upstreams: readonly UpstreamEntry[]): string {
  return JSON.stringify(
    upstreams.map(({ baseUrl, name, apiKey, models, provider, routes }, index) => ({
      name: name ?? `upstream-${index + 1}`,
      base_url: baseUrl,
      api_key: apiKey ?? '',
      models: models ?? ['*'],
      // Absent where nothing is said.
      provider,
      routes,
    })),
  );
}

/** Changes accounts and keys in a store whose pepper lies in this data directory. */
export function changeControl<T>(
  store: Store,
  dataDir: string,
  use: (control: Control, pepper: Buffer) => Promise<T>,
): Promise<T> {
  return withControl(store, 'test', async (control, client) => use(control, await pepperOf(client, dataDir)));
}

const pepperOf = (client: Client, dataDir: string): Promise<Buffer> =>
  loadPepper(client, { DAYBOOK_DATA: dataDir, DAYBOOK_PEPPER_FILE: undefined });

/**
 * A reader of the log over a connection of its own, which is made at the first use and after each failure. It
 * keeps what it has read and fetches only what was appended since, because waits read again and again.
 */
export function openLog(store: Store): { read(): Promise<Placed[]>; close(): Promise<void> } {
  const events: Placed[] = [];
  const last = (): number => events.at(-1)?.position ?? 0;
  // One for all who read at the same time, so that none is left open.
  let client: Promise<Client> | null = null;
  async function connect(): Promise<Client> {
    const fresh = await openSession(store.config('auditor'));
    fresh.on('error', () => {
      client = null;
    });
    return fresh;
  }
  function connected(): Promise<Client> {
    if (client) return client;
    const made = connect();
    client = made;
    made.catch(() => {
      if (client === made) client = null;
    });
    return made;
  }
  return {
    async read() {
      const reader = await connected();
      for (;;) {
        const page = await readPage(reader, last());
        // Another read may have fetched some of them meanwhile.
        const known = last();
        events.push(...page.filter(({ position }) => position > known));
        if (page.length < PAGE_ROWS) return [...events];
      }
    },
    async close() {
      const open = client;
      client = null;
      await open?.then((each) => each.end()).catch(() => undefined);
    },
  };
}

/** Waits until the server's read model has taken in the newest control event of these. */
async function caughtUp(port: number, events: readonly Placed[]): Promise<void> {
  const newest = events.findLast(({ stream }) => stream !== null)?.position ?? 0;
  await until(
    () => readiness(port),
    ({ position }) => position >= newest,
    'the read model',
  );
}

/** The log's lock, held by somebody else: until it is released no append comes to its end. */
export type HeldLog = AsyncDisposable & {
  /** Resolves when an append waits for the lock. */
  awaited(): Promise<void>;
  release(): Promise<void>;
};

/** Takes the lock under which the log is appended to. */
export async function holdLog(store: Store): Promise<HeldLog> {
  const client = await openSession(store.config('owner'));
  await client.query(`begin; set local idle_in_transaction_session_timeout = 0; ${takeLock('log')}`);
  const waiting = (): Promise<number> => countLockWaiters(client, 'daybook_lock.log');
  const release = async (): Promise<void> => {
    await client.end();
  };
  return {
    awaited: async () => void (await until(waiting, (count) => count > 0, 'the append')),
    release,
    [Symbol.asyncDispose]: release,
  };
}

/**
 * Resolves when the server has dealt with all that had reached it before: it answers those who come later,
 * too.
 */
export async function hasHadItsTurn(port: number): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await (await fetch(`http://127.0.0.1:${port}/healthz`)).text();
}

/**
 * What a refused request must leave as it was: how much was forwarded, and how much recorded.
 * Endings and notes of refusals are not counted: those of requests before it may still be on their way.
 */
export async function footprint(
  relay: TestRelay,
  upstream: ScriptedUpstream,
): Promise<{ forwarded: number; recorded: number }> {
  const { attempts, visits } = upstream.ledger;
  const begun = (await relay.readLog()).filter(
    ({ event }) => event.type !== 'request.settled' && event.type !== 'request.rejected',
  );
  return { forwarded: attempts.length + visits.length, recorded: begun.length };
}

/** What `/readyz` says. */
export async function readiness(port: number): Promise<{ status: number; position: number }> {
  const reply = await fetch(`http://127.0.0.1:${port}/readyz`, { headers: AS_OPERATOR });
  const body = (await reply.json()) as { read_model: { position: number } };
  return { status: reply.status, position: body.read_model.position };
}

/**
 * Looks at something again and again until it is as wanted, and returns it. The pauses grow, because a look
 * often reads the whole log.
 * @throws {Error} naming `what` after `timeoutMs`, with what was seen last.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  condition: (seen: T) => boolean,
  what: string,
  timeoutMs = WAIT_MS,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = POLL_MIN_MS; ; pauseMs = Math.min(pauseMs * 1.25, POLL_MAX_MS)) {
    const seen = await look();
    if (condition(seen)) return seen;
    if (performance.now() > deadline) {
      throw new Error(
        `${what} did not come to be as wanted; last seen: ${JSON.stringify(seen)?.slice(-2_000)}`,
      );
    }
    await wait(pauseMs);
  }
}
