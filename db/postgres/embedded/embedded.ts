import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import {
  BOOTSTRAP_TIMEOUT_MS,
  RESTART_PAUSE_MAX_MS,
  RESTART_PAUSE_MIN_MS,
  RESTART_STABLE_MS,
  START_CONNECT_TIMEOUT_MS,
} from '#db/bounds.ts';
import { checkDurability } from '#db/postgres/check-server.ts';
import {
  closeClient,
  connectAs,
  sessionConfig,
  StoreError,
  withTimeout,
  type Role,
  type Store,
} from '#db/postgres/connect.ts';
import { describeFileError } from '#db/file-errors.ts';
import { findBinaries, type Binaries } from '#db/postgres/embedded/binaries.ts';
import {
  bootstrap,
  DATABASE,
  DirectoryInUseError,
  acquireSupervisorLock,
  type SupervisorLock,
} from '#db/postgres/embedded/bootstrap.ts';
import {
  ensureCluster,
  ensurePasswords,
  makeDataDir,
  clusterPaths,
  readPasswords,
  type Passwords,
  type ClusterPaths,
} from '#db/postgres/embedded/cluster.ts';
import {
  chooseAddress,
  findRunning,
  launch,
  readPidFile,
  shutDown,
  type Address,
} from '#db/postgres/embedded/postmaster.ts';
import { chooseRunAs, type RunAs } from '#db/postgres/embedded/run-as.ts';

export type EmbeddedStore = Store & {
  /** Ends the supervision and shuts down Postgres. Bounded; a second call waits for the first. */
  stop(): Promise<void>;
};

/** The state of the server that this process runs. The address is set by the first start. */
type Server = {
  paths: ClusterPaths;
  runAs: RunAs;
  binaries: Binaries;
  passwords: Passwords;
  address: Address | null;
  log: (line: string) => void;
};

/**
 * A PostgreSQL in the data directory, run and supervised by this process.
 *
 * Four states. *Starting*: a predecessor's server that is still running is adopted, otherwise one is
 * launched; then the supervisor's lock is acquired. *Serving*: the lock is held; its connection is up.
 * *Recovering*: that connection was lost, because Postgres died, crashed or dropped it; the steps of a
 * start are repeated with backoff until the lock is held again. *Stopped*: by `stop()` only.
 *
 * Invariants. A second Daybook never gets past *Starting*. A server is stopped only by the process that
 * holds its lock or held it last. A relaunched server gets the same address, because connection pools keep
 * theirs.
 *
 * @param options.log receives log lines for the operator.
 * @param options.stop aborts the start while it waits for PostgreSQL.
 * @throws {StoreError} if it can't run here; the message says why and how to fix it.
 */
export async function startEmbedded(options: {
  dataDir: string;
  log: (line: string) => void;
  stop?: AbortSignal | undefined;
}): Promise<EmbeddedStore> {
  const { dataDir, log, stop: interruption } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const startSignal = interruption ? AbortSignal.any([signal, interruption]) : signal;
  const stopped = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const server = await prepare(dataDir, log).catch((error: Error) => unusable(dataDir, error));
  let lock: SupervisorLock | null = await bringUp(server, startSignal).catch((error: Error) =>
    unusable(dataDir, error),
  );
  let lockedOut = false;

  /** *Recovering*: returns with the lock held, or null if stopped meanwhile. */
  const recover = async (nextPauseMs: () => number): Promise<SupervisorLock | null> => {
    let lastReason = '';
    for (;;) {
      await Promise.race([sleep(nextPauseMs()), stopped]);
      if (signal.aborted) return null;
      try {
        const regained = await bringUp(server, signal);
        lockedOut = false;
        return regained;
      } catch (error) {
        const { message } = error as Error;
        lockedOut = error instanceof DirectoryInUseError;
        // Once per reason, whatever process ids it quotes: a disk may stay full for hours.
        const reason = message.replaceAll(/\d+/g, '');
        if (reason !== lastReason && !signal.aborted) log(`PostgreSQL restart failed; retrying: ${message}`);
        lastReason = reason;
      }
    }
  };

  const supervise = async (): Promise<void> => {
    let pauseMs = RESTART_PAUSE_MIN_MS;
    const nextPauseMs = (): number => {
      const now = pauseMs;
      pauseMs = Math.min(pauseMs * 2, RESTART_PAUSE_MAX_MS);
      return now;
    };
    while (lock !== null) {
      const servingSince = performance.now();
      await Promise.race([lock.lost, stopped]);
      if (signal.aborted) return;
      log('PostgreSQL connection lost; restarting it');
      if (performance.now() - servingSince > RESTART_STABLE_MS) pauseMs = RESTART_PAUSE_MIN_MS;
      lock = null;
      lock = await recover(nextPauseMs);
    }
  };
  const supervision = supervise();

  const stopOnce = async (): Promise<void> => {
    stopping.abort();
    await supervision;
    await lock?.release();
    if (!lockedOut && !(await shutDown(server.paths)))
      log(`PostgreSQL in ${server.paths.cluster} did not stop`);
  };
  let stop: Promise<void> | null = null;
  return { config: (role) => configFor(server, role), stop: () => (stop ??= stopOnce()) };
}

/**
 * The store of a Daybook that runs on this data directory, for a command beside it.
 * @returns null if no Daybook is running.
 * @throws {StoreError} if one is running but its database can't be used.
 */
export async function connectEmbedded(dataDir: string): Promise<Store | null> {
  const paths = await clusterPaths(dataDir);
  try {
    const passwords = await readPasswords(paths);
    const address = (await readPidFile(paths))?.address;
    if (passwords === null || !address) return null;
    const store: Store = { config: (role) => configFor({ address, passwords }, role) };
    // The file alone proves nothing: it remains when Postgres is killed.
    await closeClient(await connectAs(store, 'auditor'));
    return store;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ECONNREFUSED') return null;
    return unusable(paths.dataDir, error as Error);
  }
}

function unusable(dataDir: string, error: Error): never {
  if (error instanceof StoreError) throw error;
  const described = describeFileError(error, dataDir);
  if (described !== null) throw new StoreError(described, { cause: error });
  throw new StoreError(`the database in ${dataDir} (DAYBOOK_DATA) cannot be used: ${error.message}`, {
    cause: error,
  });
}

async function prepare(dataDir: string, log: (line: string) => void): Promise<Server> {
  await makeDataDir(path.resolve(dataDir));
  const paths = await clusterPaths(dataDir);
  const binaries = await findBinaries();
  const runAs = await chooseRunAs(paths.cluster, paths.dataDir, binaries);
  const passwords = await ensurePasswords(paths, binaries);
  await ensureCluster(paths, runAs, binaries, passwords);
  return { paths, runAs, binaries, passwords, address: null, log };
}

/**
 * Adopts or launches a server, then acquires the lock. Stops a server that it launched but can't keep, or
 * one without durable settings.
 */
async function bringUp(server: Server, signal: AbortSignal): Promise<SupervisorLock> {
  const { paths, passwords, log } = server;
  const launched = await adoptOrLaunch(server, signal);
  let lock: SupervisorLock | null = null;
  try {
    await bootstrap(withStartTimeouts(superuserAt(server)), passwords);
    lock = await acquireSupervisorLock(paths, withStartTimeouts(configFor(server, 'owner')));
    await requireDurability(server);
    const pid = (await readPidFile(paths))?.pid;
    log(launched ? `PostgreSQL started (process ${pid})` : `PostgreSQL was still running (process ${pid})`);
    return lock;
  } catch (error) {
    await lock?.release();
    const unfit = lock !== null && error instanceof StoreError;
    if (unfit || (launched && !(error instanceof DirectoryInUseError))) await shutDown(paths);
    throw error;
  }
}

/** @returns whether a server was launched. Sets the address. */
async function adoptOrLaunch(server: Server, signal: AbortSignal): Promise<boolean> {
  const { paths, runAs, binaries, log } = server;
  const supervision = {
    paths,
    log,
    signal,
    superuser: (address: Address) => superuserAt({ ...server, address }),
  };
  const running = await findRunning(supervision);
  server.address = running ?? server.address ?? (await chooseAddress(paths));
  if (running !== null) return false;
  try {
    await launch(supervision, runAs, binaries, server.address);
    return true;
  } catch (error) {
    // The loser of two concurrent starters adopts the winner's server.
    const winner = signal.aborted ? null : await findRunning(supervision);
    if (winner === null) throw error;
    server.address = winner;
    return false;
  }
}

async function requireDurability(server: Server): Promise<void> {
  const client = new Client(withStartTimeouts(configFor(server, 'relay')));
  client.on('error', () => undefined);
  await client.connect();
  try {
    await checkDurability(client, { checksums: true });
  } finally {
    await closeClient(client);
  }
}

function configFor(server: Pick<Server, 'address' | 'passwords'>, role: Role): ClientConfig {
  const password = (): string => server.passwords[role];
  return sessionConfig(role, { ...server.address, user: `daybook_${role}`, database: DATABASE, password });
}

function withStartTimeouts(config: ClientConfig): ClientConfig {
  return { ...withTimeout(config, BOOTSTRAP_TIMEOUT_MS), connectionTimeoutMillis: START_CONNECT_TIMEOUT_MS };
}

function superuserAt(server: Pick<Server, 'address' | 'passwords'>): ClientConfig {
  const password = (): string => server.passwords.superuser;
  const session = sessionConfig('owner', {
    ...server.address,
    user: 'postgres',
    database: 'postgres',
    password,
  });
  return { ...session, application_name: 'daybook-bootstrap' };
}
