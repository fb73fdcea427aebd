import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client } from 'pg';
import { type Binaries, findBinaries } from '#db/postgres/embedded/binaries.ts';
import { chooseRunAs, command, run, type RunAs } from '#db/postgres/embedded/run-as.ts';
import { openSession } from '../database.ts';
import { until } from '../relay.ts';
import { refusedPort } from '../upstream/upstream.ts';

/** A PostgreSQL that an operator would run, in a process of the test's own, over TCP on 127.0.0.1. */
export type PostgresServer = {
  readonly port: number;
  readonly cluster: string;
  /** The address for a login; the password of each is {@link PASSWORD}. */
  url(user: string, database?: string): string;
  /** A connected superuser. The caller ends it. */
  superuser(database?: string): Promise<Client>;
  start(): Promise<void>;
  /** Fast shutdown; resolves when the process is gone. */
  stop(): Promise<void>;
  /** SIGKILL to the server and all of its processes: what they have not written is lost. */
  kill(): Promise<void>;
  /** A copy at a port of its own, not started. Of a running server it needs the label of a base backup. */
  copy(name: string, options: { isRunning: boolean }): Promise<PostgresServer>;
  /** Removes the stopped cluster. */
  remove(): Promise<void>;
  /** Adds lines to postgresql.conf, which count from the next start on. */
  configure(lines: string): Promise<void>;
  /** Writes a file into the cluster, readable by PostgreSQL alone. */
  write(name: string, text: string): Promise<void>;
};

export const PASSWORD = 'postgres-of-the-test';
const START_WITHIN_MS = 60_000;

/** Creates a cluster in a directory without starting it. @param programs other than the packaged ones. */
export async function createPostgres(directory: string, programs?: Binaries): Promise<PostgresServer> {
  const binaries = programs ?? (await findBinaries());
  const home = path.join(directory, 'postgres-server');
  await mkdir(home, { mode: 0o700 });
  const runAs = await chooseRunAs(home, directory, await findBinaries());
  const passwordFile = path.join(home, 'password');
  await writeFile(passwordFile, PASSWORD, { mode: 0o600 });
  for (const each of [home, passwordFile]) await own(runAs, each);
  const cluster = path.join(home, 'primary');
  const initdb = command(runAs, binaries.initdb, [
    `--pgdata=${cluster}`,
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
  ]);
  await run(initdb.program, initdb.args, { ...initdb.options, timeout: START_WITHIN_MS });
  return serverOf({ binaries, runAs, cluster, port: await refusedPort() });
}

/** Starts it with the owner's login and a database, as the documentation creates them. */
export async function startWithOwner(server: PostgresServer): Promise<void> {
  await server.start();
  const superuser = await server.superuser();
  await superuser.query(`create role daybook login createrole password '${PASSWORD}'`);
  await superuser.query('create database daybook owner daybook');
  await superuser.end();
}

type Place = { binaries: Binaries; runAs: RunAs; cluster: string; port: number };

function serverOf(place: Place): PostgresServer {
  const { binaries, runAs, cluster, port } = place;
  let child: ChildProcess | null = null;
  let gone: Promise<unknown> = Promise.resolve();
  const config = (user: string, database: string) => ({
    host: '127.0.0.1',
    port,
    user,
    database,
    password: PASSWORD,
  });
  const write = async (name: string, text: string): Promise<void> => {
    const file = path.join(cluster, name);
    await writeFile(file, text, { mode: 0o600 });
    await own(runAs, file);
  };
  return {
    port,
    cluster,
    url: (user, database = 'daybook') => `postgres://${user}:${PASSWORD}@127.0.0.1:${port}/${database}`,
    superuser: (database = 'postgres') => openSession(config('postgres', database)),
    async start() {
      const { program, args, options } = command(runAs, binaries.postgres, [
        ...['-D', cluster],
        ...['-c', `port=${port}`],
        ...['-c', 'listen_addresses=127.0.0.1'],
        ...['-c', 'unix_socket_directories='],
      ]);
      const started = spawn(program, args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
      let output = '';
      started.stderr.on('data', (text: Buffer) => (output = (output + text.toString()).slice(-4_000)));
      child = started;
      gone = once(started, 'exit');
      const serves = async (): Promise<boolean> => {
        if (started.exitCode !== null) throw new Error(`PostgreSQL ended: ${output}`);
        const client = new Client(config('postgres', 'postgres'));
        client.on('error', () => undefined);
        return client.connect().then(
          () => client.end().then(() => true),
          () => false,
        );
      };
      await until(serves, (is) => is, 'PostgreSQL', START_WITHIN_MS);
    },
    async stop() {
      child?.kill('SIGINT');
      await gone;
    },
    async kill() {
      const pid = child?.pid;
      if (pid === undefined) return;
      const processes = [pid, ...(await childrenOf(pid))];
      for (const each of processes) signal(each);
      await gone;
    },
    remove: () => rm(cluster, { recursive: true, force: true }),
    async copy(name, { isRunning }) {
      const copied = path.join(path.dirname(cluster), name);
      // Files that a running server removes meanwhile are not needed.
      await run('cp', ['-a', cluster, copied]).catch((error: Error) => {
        if (!isRunning) throw error;
      });
      for (const each of ['postmaster.pid', 'postmaster.opts'])
        await rm(path.join(copied, each), { force: true });
      return serverOf({ ...place, cluster: copied, port: await refusedPort() });
    },
    configure: (lines) => appendFile(path.join(cluster, 'postgresql.conf'), `\n${lines}\n`),
    write,
  };
}

async function own({ owner }: RunAs, file: string): Promise<void> {
  if (owner !== null) await chown(file, owner.uid, owner.gid);
}

async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return text.split(' ').filter(Boolean).map(Number);
}

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
