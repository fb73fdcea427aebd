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
import {
  checkDurability,
  closeClient,
  connectAs,
  sessionConfig,
  StoreError,
  withTimeout,
  type Role,
  type Store,
} from '#db/postgres/connect.ts';
import { findBinaries, type Binaries } from '#db/postgres/embedded/binaries.ts';
import {
  bootstrap,
  DATABASE,
  DirectoryInUseError,
  takeSupervisorLock,
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
  /** Ends the supervision and stops Postgres in order. Bounded; a second call waits for the first. */
  stop(): Promise<void>;
};

/** What one process knows about the server it runs. The address is set by the first start. */
type Server = {
  place: ClusterPaths;
  runAs: RunAs;
  binaries: Binaries;
  passwords: Passwords;
  address: Address | null;
  log: (line: string) => void;
};

/**
 * A real PostgreSQL below the data directory, run and watched by this process.
 *
 * Four states. *Starting*: a predecessor's server is adopted where one is still running, else one is
 * launched; then the supervisor's lock is taken. *Serving*: the lock is held; its connection is up.
 * *Recovering*: that connection was lost, because Postgres died, crashed or dropped it; the steps of
 * a start are taken again, with growing pauses, until the lock is held once more. *Stopped*: by
 * `stop()` only.
 *
 * Invariants. A second Daybook never gets past *Starting*. A server is stopped only by the process
 * that holds its lock or held it last. A relaunched server gets the same address, because
 * connection pools keep theirs.
 *
 * @param options.log is given one line for each thing that an operator may want to know.
 * @throws {StoreError} when it cannot run here; the message says why and what to do.
 */
export async function startEmbedded(options: {
  dataDir: string;
  log: (line: string) => void;
}): Promise<EmbeddedStore> {
  const { dataDir, log } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const stopped = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const server = await prepare(dataDir, log).catch((error: Error) => refuse(dataDir, error));
  let lock: SupervisorLock | null = await bringUp(server, signal).catch((error: Error) =>
    refuse(dataDir, error),
  );
  let lockedOut = false;

  /** *Recovering*: returns with the lock held, or null when stopped meanwhile. */
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
        // Once per reason, whatever process numbers it quotes: a disk may stay full for hours.
        const reason = message.replaceAll(/\d+/g, '');
        if (reason !== lastReason && !signal.aborted) log(`PostgreSQL is not back yet: ${message}`);
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
      log('the connection to PostgreSQL was lost; bringing it back');
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
    if (!lockedOut && !(await shutDown(server.place)))
      log(`PostgreSQL in ${server.place.cluster} did not stop`);
  };
  let stop: Promise<void> | null = null;
  return { config: (role) => configFor(server, role), stop: () => (stop ??= stopOnce()) };
}

/**
 * The store of a Daybook that runs on this data directory, for a command line beside it.
 * @returns null when none is running.
 * @throws {StoreError} when one is running but cannot be used.
 */
export async function connectEmbedded(dataDir: string): Promise<Store | null> {
  const place = await clusterPaths(dataDir);
  try {
    const passwords = await readPasswords(place);
    const address = (await readPidFile(place))?.address;
    if (passwords === null || !address) return null;
    const store: Store = { config: (role) => configFor({ address, passwords }, role) };
    // The file alone proves nothing: it stays behind when Postgres is killed.
    await closeClient(await connectAs(store, 'auditor'));
    return store;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ECONNREFUSED') return null;
    return refuse(place.dataDir, error as Error);
  }
}

function refuse(dataDir: string, error: Error): never {
  if (error instanceof StoreError) throw error;
  throw new StoreError(`the database in ${dataDir} (DAYBOOK_DATA) cannot be used: ${error.message}`, {
    cause: error,
  });
}

async function prepare(dataDir: string, log: (line: string) => void): Promise<Server> {
  await makeDataDir(path.resolve(dataDir));
  const place = await clusterPaths(dataDir);
  const binaries = await findBinaries();
  const runAs = await chooseRunAs(place.cluster, place.dataDir, binaries);
  const passwords = await ensurePasswords(place);
  await ensureCluster(place, runAs, binaries, passwords);
  return { place, runAs, binaries, passwords, address: null, log };
}

/**
 * Adopts or launches, then takes the lock. What it launched and cannot keep, or may not use, it stops again.
 */
async function bringUp(server: Server, signal: AbortSignal): Promise<SupervisorLock> {
  const { place, passwords, log } = server;
  const launched = await adoptOrLaunch(server, signal);
  let lock: SupervisorLock | null = null;
  try {
    await bootstrap(unhurried(superuserAt(server)), passwords);
    lock = await takeSupervisorLock(place, unhurried(configFor(server, 'owner')));
    await refuseUnlessDurable(server);
    const pid = (await readPidFile(place))?.pid;
    log(launched ? `PostgreSQL started (process ${pid})` : `PostgreSQL was still running (process ${pid})`);
    return lock;
  } catch (error) {
    await lock?.release();
    const unfit = lock !== null && error instanceof StoreError;
    if (unfit || (launched && !(error instanceof DirectoryInUseError))) await shutDown(place);
    throw error;
  }
}

/** @returns whether a server was launched. Sets the address. */
async function adoptOrLaunch(server: Server, signal: AbortSignal): Promise<boolean> {
  const { place, runAs, binaries, log } = server;
  const watch = { place, log, signal, superuser: (address: Address) => superuserAt({ ...server, address }) };
  const running = await findRunning(watch);
  server.address = running ?? server.address ?? (await chooseAddress(place));
  if (running !== null) return false;
  try {
    await launch(watch, runAs, binaries, server.address);
    return true;
  } catch (error) {
    // Of two starters at once one loses; it finds the winner's server.
    const winner = signal.aborted ? null : await findRunning(watch);
    if (winner === null) throw error;
    server.address = winner;
    return false;
  }
}

async function refuseUnlessDurable(server: Server): Promise<void> {
  const client = new Client(unhurried(configFor(server, 'relay')));
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

function unhurried(config: ClientConfig): ClientConfig {
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
