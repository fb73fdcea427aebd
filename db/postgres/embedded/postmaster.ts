import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { open, readFile, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { createServer, type ListenOptions } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import {
  FAST_SHUTDOWN_TIMEOUT_MS,
  IMMEDIATE_SHUTDOWN_TIMEOUT_MS,
  POSTGRES_LOG_BYTES_MAX,
  POSTGRES_LOG_TAIL_BYTES,
  POSTMASTER_POLL_MS,
  PROBE_TIMEOUT_MS,
  SOCKET_PATH_BYTES_MAX,
  START_NOTICE_MS,
  START_TIMEOUT_MS,
} from '#db/bounds.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import type { Binaries } from '#db/postgres/embedded/binaries.ts';
import { remedyFor } from '#db/file-errors.ts';
import type { ClusterPaths } from '#db/postgres/embedded/cluster.ts';
import { removeDamagedLocks } from '#db/postgres/embedded/lock-files.ts';
import { reasonIn } from '#db/postgres/embedded/reason.ts';
import { command, type RunAs } from '#db/postgres/embedded/run-as.ts';

/** The address at which Postgres listens: `host` is the directory of its Unix socket, or 127.0.0.1. */
export type Address = { host: string; port: number };

/** The dependencies of supervising one cluster. */
export type Supervision = {
  paths: ClusterPaths;
  /** A session as superuser at an address, in the database that every cluster has. */
  superuser(address: Address): ClientConfig;
  log(line: string): void;
  /** Aborts waiting. */
  signal: AbortSignal;
};

const SOCKET_PORT = 5432;

/**
 * A new cluster's address: a Unix socket where its path is short enough, so that nothing can even
 * try to connect over the network; else a free port of the loopback.
 */
export async function chooseAddress(paths: ClusterPaths): Promise<Address> {
  const socket = path.join(paths.cluster, `.s.PGSQL.${SOCKET_PORT}`);
  if (process.platform !== 'win32' && Buffer.byteLength(socket) <= SOCKET_PATH_BYTES_MAX) {
    // Shared folders of virtual machines support files but no sockets. Leftovers of this name are removed.
    const trial = path.join(paths.dataDir, `postgres.new-${process.pid}-s`);
    const works = await tryListen({ path: trial }).catch(() => null);
    if (works !== null) return { host: paths.cluster, port: SOCKET_PORT };
  }
  const host = '127.0.0.1';
  return { host, port: await tryListen({ host, port: 0 }) };
}

/** Listens briefly. Returns the port, which is 0 for a Unix socket. */
async function tryListen(where: ListenOptions): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(where, resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/**
 * Reads postmaster.pid: the process that serves the cluster, and its address once it listens. Null without
 * it.
 */
export async function readPidFile(
  paths: ClusterPaths,
): Promise<{ pid: number; address: Address | null } | null> {
  const text = await readFile(pidFile(paths), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  const [pid = '', , , port = '', socketDirectory = '', listenAddress = ''] = text?.split('\n') ?? [];
  if (!/^\d+$/.test(pid)) return null;
  const host = socketDirectory || listenAddress;
  return { pid: Number(pid), address: host === '' ? null : { host, port: Number(port) } };
}

function pidFile(paths: ClusterPaths): string {
  return path.join(paths.cluster, 'postmaster.pid');
}

/**
 * What a process id of postmaster.pid refers to now. After a reboot, or in a new container, it is often an
 * unrelated process.
 */
export function processKind(pid: number, paths: ClusterPaths): 'ours' | 'postgres' | 'other' | 'none' {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return 'none';
  }
  if (process.platform === 'win32') return 'ours';
  // A zombie has an empty command line.
  const words = commandLine(pid);
  if (!/(^|\/)(postgres|postmaster) /.test(words)) return 'other';
  return words.includes(` -D ${paths.cluster} `) ? 'ours' : 'postgres';
}

function commandLine(pid: number): string {
  try {
    return process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      : `${execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).trim()} `;
  } catch {
    return '';
  }
}

/** The result of a probe; `elsewhere` serves another cluster, `denied` rejects our password. */
type ProbeResult = 'serving' | 'elsewhere' | 'starting' | 'denied' | 'silent' | 'absent';

const CANNOT_CONNECT_NOW = '57P03';
const TOO_MANY_CONNECTIONS = '53300';
/** It runs but can't open its files: insufficient privilege, full disk, I/O error, corruption. */
const UNUSABLE_FILES = /^(?:42501|53100|58\w{3}|XX\w{3})$/;

async function probe(paths: ClusterPaths, config: ClientConfig): Promise<ProbeResult> {
  // pg's own timeouts reject with errors that only their text identifies.
  const client = new Client({ ...config, connectionTimeoutMillis: 0, query_timeout: 0 });
  client.on('error', () => undefined);
  let isTimedOut = false;
  const timer = setTimeout(() => {
    isTimedOut = true;
    client.connection.stream.destroy();
  }, PROBE_TIMEOUT_MS);
  try {
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    return rows[0]?.data_directory === paths.cluster ? 'serving' : 'elsewhere';
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (UNUSABLE_FILES.test(code)) {
      const { message } = error as Error;
      throw new StoreError(
        `the PostgreSQL in ${paths.cluster} cannot use its files: ${message}` +
          remedyFor(message, paths.cluster),
      );
    }
    if (code === CANNOT_CONNECT_NOW || code === TOO_MANY_CONNECTIONS) return 'starting';
    if (code.startsWith('28')) return 'denied';
    return isTimedOut || code === 'ETIMEDOUT' ? 'silent' : 'absent';
  } finally {
    clearTimeout(timer);
    await closeClient(client);
  }
}

/**
 * Finds the Postgres that a predecessor left running, waiting while it starts, recovers or stops.
 * The address is probed whatever the process id refers to: a container that shares the directory has
 * process ids of its own, and two servers on one cluster would destroy it.
 * @returns null if no server is running and Daybook may start one.
 * @throws {StoreError} if a server is running that Daybook may not use.
 */
export async function findRunning(supervision: Supervision): Promise<Address | null> {
  const { paths } = supervision;
  const wait = startWait(supervision, 'is running but does not answer');
  const usual = supervision.superuser({ host: paths.cluster, port: SOCKET_PORT });
  await removeDamagedLocks(
    paths.cluster,
    async () => ['serving', 'starting', 'silent', 'denied'].includes(await probe(paths, usual)),
    supervision.log,
  );
  for (;;) {
    const file = await readPidFile(paths);
    if (file === null) return null;
    const kind = processKind(file.pid, paths);
    const result = file.address === null ? 'absent' : await probe(paths, supervision.superuser(file.address));
    if (kind === 'ours') {
      if (result === 'serving') return file.address;
      if (result === 'denied') throw wrongPassword(paths);
    } else if (result === 'serving') {
      throw new StoreError(
        `a PostgreSQL that Daybook did not start serves ${paths.cluster} ` +
          `(process ${file.pid} in postmaster.pid): stop it first`,
      );
    } else if (result !== 'starting' && result !== 'silent') {
      // Postgres mistakes any running process with this id for its predecessor and would refuse to start.
      // If the process is certainly no Postgres the file is stale; the cluster's shared memory still
      // guards it.
      if (kind === 'other') await rm(pidFile(paths), { force: true });
      return null;
    }
    await wait();
  }
}

/** Starts a wait for Postgres: each step sleeps, logs once when it takes long, and finally fails. */
function startWait({ paths, log, signal }: Supervision, problem: string): () => Promise<void> {
  const since = performance.now();
  let isLogged = false;
  return async () => {
    const waitedMs = performance.now() - since;
    if (waitedMs > START_TIMEOUT_MS)
      throw new StoreError(`the PostgreSQL in ${paths.cluster} ${problem} (see ${paths.log})`);
    if (waitedMs > START_NOTICE_MS && !isLogged) {
      isLogged = true;
      log(
        `waiting for the PostgreSQL in ${paths.cluster}, ` +
          `which may be recovering from a crash (see ${paths.log})`,
      );
    }
    await sleep(POSTMASTER_POLL_MS, undefined, { signal });
  };
}

function wrongPassword(paths: ClusterPaths): StoreError {
  return new StoreError(
    `the PostgreSQL in ${paths.cluster} does not accept the passwords of ${paths.passwords}`,
  );
}

/**
 * Starts Postgres and waits until it serves. It gets a session (setsid) of its own, so that Ctrl-C in the
 * terminal reaches only Daybook, which drains first; and it outlives a Daybook that is killed, whose
 * successor adopts it.
 * @throws {StoreError} with the reason from Postgres' own log.
 */
export async function launch(
  supervision: Supervision,
  runAs: RunAs,
  binaries: Binaries,
  address: Address,
): Promise<void> {
  const { paths } = supervision;
  const { program, args, options } = command(runAs, binaries.postgres, [
    '-D',
    paths.cluster,
    ...settings(address),
  ]);
  const log = await openLog(paths);
  const { size: logStart } = await log.stat();
  let child: ChildProcess;
  try {
    child = spawn(program, args, { ...options, detached: true, stdio: ['ignore', log.fd, log.fd] });
  } finally {
    await log.close();
  }
  let failure: string | null = null;
  child.once('error', (error) => (failure = error.message));
  child.once(
    'exit',
    (code, killedBy) => (failure = `it exited immediately (${killedBy ?? `exit code ${code}`})`),
  );
  child.unref();
  const wait = startWait(supervision, 'was started but does not answer');
  try {
    for (;;) {
      const result = await probe(paths, supervision.superuser(address));
      if (result === 'serving') return;
      if (failure !== null) {
        const reason = (await lastError(paths, logStart)) ?? failure;
        throw new StoreError(
          `PostgreSQL did not start in ${paths.cluster}: ${reason} (see ${paths.log})` +
            remedyFor(reason, paths.cluster),
        );
      }
      if (result === 'denied') throw wrongPassword(paths);
      await wait();
    }
  } catch (error) {
    child.kill('SIGQUIT');
    throw error;
  }
}

/** Settings that Daybook depends on; the command line overrides configuration files. */
function settings({ host, port }: Address): string[] {
  const onSocket = path.isAbsolute(host);
  const values = {
    port,
    listen_addresses: onSocket ? '' : host,
    // A list of directories: quotes keep commas and spaces within one of them.
    unix_socket_directories: onSocket ? `"${host.replaceAll('"', '""')}"` : '',
    unix_socket_permissions: '0700',
    logging_collector: 'off',
    log_destination: 'stderr',
    // Hints at the start; sessions in Daybook's database log tersely, because details quote rows.
    log_error_verbosity: 'default',
  };
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

async function openLog(paths: ClusterPaths): Promise<FileHandle> {
  const size = await stat(paths.log).then(
    (found) => found.size,
    () => 0,
  );
  if (size > POSTGRES_LOG_BYTES_MAX) await rename(paths.log, `${paths.log}.1`);
  return open(paths.log, 'a', 0o600);
}

/** The last error in the log since `start`, with its details and hints, without time and process id. */
async function lastError(paths: ClusterPaths, start: number): Promise<string | null> {
  const log = await open(paths.log, 'r');
  try {
    const { size } = await log.stat();
    const from = Math.max(start, size - POSTGRES_LOG_TAIL_BYTES);
    const { buffer, bytesRead } = await log.read(Buffer.alloc(size - from), 0, size - from, from);
    const lines = buffer.toString('utf8', 0, bytesRead).trim().split('\n');
    return reasonIn(lines);
  } finally {
    await log.close();
  }
}

/**
 * Stops Postgres: open transactions are rolled back and a checkpoint is written; if that takes too long, an
 * immediate shutdown leads to crash recovery at the next start. Nothing acknowledged is lost either way.
 * @returns whether it has stopped.
 */
export async function shutDown(paths: ClusterPaths): Promise<boolean> {
  const steps = [
    ['SIGINT', FAST_SHUTDOWN_TIMEOUT_MS],
    ['SIGQUIT', IMMEDIATE_SHUTDOWN_TIMEOUT_MS],
  ] as const;
  const file = await readPidFile(paths);
  if (file === null) return true;
  for (const [signal, timeoutMs] of steps) {
    if (processKind(file.pid, paths) !== 'ours') return true;
    sendSignal(file.pid, signal);
    const deadline = performance.now() + timeoutMs;
    while (processKind(file.pid, paths) === 'ours' && performance.now() < deadline)
      await sleep(POSTMASTER_POLL_MS);
  }
  return processKind(file.pid, paths) !== 'ours';
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It ended between the check and the signal.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
