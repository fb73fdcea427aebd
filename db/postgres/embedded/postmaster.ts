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
  SOCKET_PATH_BYTES_MAX,
  START_NOTICE_MS,
  START_TIMEOUT_MS,
} from '#db/bounds.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import type { Binaries } from '#db/postgres/embedded/binaries.ts';
import type { ClusterPaths } from '#db/postgres/embedded/cluster.ts';
import { command, type RunAs } from '#db/postgres/embedded/run-as.ts';

/** Where Postgres listens: `host` is the directory of its Unix socket, or 127.0.0.1. */
export type Address = { host: string; port: number };

/** What it takes to watch one cluster. */
export type Watch = {
  place: ClusterPaths;
  /** A session as superuser at an address, in the database that every cluster has. */
  superuser(address: Address): ClientConfig;
  log(line: string): void;
  /** Ends the waiting. */
  signal: AbortSignal;
};

const SOCKET_PORT = 5432;

/**
 * A new cluster's address: a Unix socket where its path is short enough, so that nothing can even
 * try to connect over the network; else a free port of the loopback.
 */
export async function chooseAddress(place: ClusterPaths): Promise<Address> {
  const socket = path.join(place.cluster, `.s.PGSQL.${SOCKET_PORT}`);
  if (process.platform !== 'win32' && Buffer.byteLength(socket) <= SOCKET_PATH_BYTES_MAX) {
    // Shared folders of virtual machines hold files but no sockets. The name is one that is cleared up.
    const trial = path.join(place.dataDir, `postgres.new-${process.pid}-s`);
    const works = await tryListen({ path: trial }).catch(() => null);
    if (works !== null) return { host: place.cluster, port: SOCKET_PORT };
  }
  const host = '127.0.0.1';
  return { host, port: await tryListen({ host, port: 0 }) };
}

/** Listens for a moment. Returns the port, which is 0 for a Unix socket. */
async function tryListen(where: ListenOptions): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(where, resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** What postmaster.pid says: who serves the cluster, and where once it listens. Null without the file. */
export async function readPidFile(
  place: ClusterPaths,
): Promise<{ pid: number; address: Address | null } | null> {
  const text = await readFile(pidFile(place), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  const [pid = '', , , port = '', socketDirectory = '', listenAddress = ''] = text?.split('\n') ?? [];
  if (!/^\d+$/.test(pid)) return null;
  const host = socketDirectory || listenAddress;
  return { pid: Number(pid), address: host === '' ? null : { host, port: Number(port) } };
}

function pidFile(place: ClusterPaths): string {
  return path.join(place.cluster, 'postmaster.pid');
}

/**
 * What a process number of postmaster.pid stands for today. After a reboot, or in a new container,
 * it is often somebody else's.
 */
export function processKind(pid: number, place: ClusterPaths): 'ours' | 'postgres' | 'other' | 'none' {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return 'none';
  }
  if (process.platform === 'win32') return 'ours';
  // A process that has ended and was not reaped by its parent has an empty command line.
  const words = commandLine(pid);
  if (!/(^|\/)(postgres|postmaster) /.test(words)) return 'other';
  return words.includes(` -D ${place.cluster} `) ? 'ours' : 'postgres';
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

/** How a server answers a knock; `elsewhere` serves another cluster, `denied` refuses our password. */
type Answer = 'serving' | 'elsewhere' | 'starting' | 'denied' | 'silent' | 'absent';

const CANNOT_CONNECT_NOW = '57P03';
const TOO_MANY_CONNECTIONS = '53300';

async function knock(place: ClusterPaths, config: ClientConfig): Promise<Answer> {
  const client = new Client(config);
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    return rows[0]?.data_directory === place.cluster ? 'serving' : 'elsewhere';
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    if (code === CANNOT_CONNECT_NOW || code === TOO_MANY_CONNECTIONS) return 'starting';
    if (code.startsWith('28')) return 'denied';
    return /timeout/i.test(message) ? 'silent' : 'absent';
  } finally {
    await closeClient(client);
  }
}

/**
 * Finds the Postgres that a predecessor left running, waiting while it starts, recovers or stops.
 * The address is tried whatever the process number says: a container that shares the directory has
 * numbers of its own, and two servers on one cluster would destroy it.
 * @returns null when none is running and one may be started.
 * @throws {StoreError} when one is running that is not ours to use.
 */
export async function findRunning(watch: Watch): Promise<Address | null> {
  const { place } = watch;
  const wait = patience(watch, 'is running but does not answer');
  for (;;) {
    const file = await readPidFile(place);
    if (file === null) return null;
    const kind = processKind(file.pid, place);
    const answer = file.address === null ? 'absent' : await knock(place, watch.superuser(file.address));
    if (kind === 'ours') {
      if (answer === 'serving') return file.address;
      if (answer === 'denied') throw wrongPassword(place);
    } else if (answer === 'serving') {
      throw new StoreError(
        `a PostgreSQL that Daybook did not start serves ${place.cluster} (process ${file.pid}, by its postmaster.pid): stop it first`,
      );
    } else if (answer !== 'starting' && answer !== 'silent') {
      // Postgres takes any living process for its predecessor and would refuse to start. Where that
      // one is certainly no Postgres the file is stale; the cluster's shared memory still guards it.
      if (kind === 'other') await rm(pidFile(place), { force: true });
      return null;
    }
    await wait();
  }
}

/** One step of waiting for Postgres, which says so once when it takes long, and gives up in the end. */
function patience({ place, log, signal }: Watch, problem: string): () => Promise<void> {
  const since = performance.now();
  let told = false;
  return async () => {
    const waitedMs = performance.now() - since;
    if (waitedMs > START_TIMEOUT_MS)
      throw new StoreError(`the PostgreSQL in ${place.cluster} ${problem} (see ${place.log})`);
    if (waitedMs > START_NOTICE_MS && !told) {
      told = true;
      log(
        `waiting for the PostgreSQL in ${place.cluster}, which may be recovering from a crash (see ${place.log})`,
      );
    }
    await sleep(POSTMASTER_POLL_MS, undefined, { signal });
  };
}

function wrongPassword(place: ClusterPaths): StoreError {
  return new StoreError(
    `the PostgreSQL in ${place.cluster} does not accept the passwords of ${place.passwords}`,
  );
}

/**
 * Starts Postgres and waits until it serves. It gets a session of its own, so that Ctrl-C in the
 * terminal reaches Daybook only, which drains first; and it outlives a Daybook that is killed, whose
 * successor finds it running.
 * @throws {StoreError} with the reason from Postgres' own log.
 */
export async function launch(
  watch: Watch,
  runAs: RunAs,
  binaries: Binaries,
  address: Address,
): Promise<void> {
  const { place } = watch;
  const { program, args, options } = command(runAs, binaries.postgres, [
    '-D',
    place.cluster,
    ...settings(address),
  ]);
  const log = await openLog(place);
  const { size: logStart } = await log.stat();
  let child: ChildProcess;
  try {
    child = spawn(program, args, { ...options, detached: true, stdio: ['ignore', log.fd, log.fd] });
  } finally {
    await log.close();
  }
  let failure: string | null = null;
  child.once('error', (error) => (failure = error.message));
  child.once('exit', (code, killedBy) => (failure = `it ended at once (${killedBy ?? `exit code ${code}`})`));
  child.unref();
  const wait = patience(watch, 'was started but does not answer');
  try {
    for (;;) {
      const answer = await knock(place, watch.superuser(address));
      if (answer === 'serving') return;
      if (failure !== null) {
        const reason = (await lastComplaint(place, logStart)) ?? failure;
        throw new StoreError(`PostgreSQL did not start in ${place.cluster}: ${reason} (see ${place.log})`);
      }
      if (answer === 'denied') throw wrongPassword(place);
      await wait();
    }
  } catch (error) {
    child.kill('SIGQUIT');
    throw error;
  }
}

/** What Daybook depends on, out of reach of configuration files. */
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
  };
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

async function openLog(place: ClusterPaths): Promise<FileHandle> {
  const size = await stat(place.log).then(
    (found) => found.size,
    () => 0,
  );
  if (size > POSTGRES_LOG_BYTES_MAX) await rename(place.log, `${place.log}.1`);
  return open(place.log, 'a', 0o600);
}

/** The last error in the log since `start`, without its time and process number. */
async function lastComplaint(place: ClusterPaths, start: number): Promise<string | null> {
  const log = await open(place.log, 'r');
  try {
    const { size } = await log.stat();
    const from = Math.max(start, size - POSTGRES_LOG_TAIL_BYTES);
    const { buffer, bytesRead } = await log.read(Buffer.alloc(size - from), 0, size - from, from);
    const lines = buffer.toString('utf8', 0, bytesRead).trim().split('\n');
    // "The database system is starting up" is what it told our own knocking.
    const complaints = lines.filter((line) =>
      /\b(FATAL|PANIC|ERROR):(?!\s+the database system is )/.test(line),
    );
    const complaint = complaints.at(-1) ?? lines.at(-1);
    return complaint?.replace(/^.*?\b(?:FATAL|PANIC|ERROR):\s*/, '') || null;
  } finally {
    await log.close();
  }
}

/**
 * Stops Postgres: open transactions are rolled back and a checkpoint is written; where that takes
 * too long it stops at once and recovers at the next start. Nothing acknowledged is lost either way.
 * @returns whether it has stopped.
 */
export async function shutDown(place: ClusterPaths): Promise<boolean> {
  const steps = [
    ['SIGINT', FAST_SHUTDOWN_TIMEOUT_MS],
    ['SIGQUIT', IMMEDIATE_SHUTDOWN_TIMEOUT_MS],
  ] as const;
  const file = await readPidFile(place);
  if (file === null) return true;
  for (const [signal, timeoutMs] of steps) {
    if (processKind(file.pid, place) !== 'ours') return true;
    tell(file.pid, signal);
    const deadline = performance.now() + timeoutMs;
    while (processKind(file.pid, place) === 'ours' && performance.now() < deadline)
      await sleep(POSTMASTER_POLL_MS);
  }
  return processKind(file.pid, place) !== 'ours';
}

function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It ended between the look and the signal.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
