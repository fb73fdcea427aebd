import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '#db/postgres/connect.ts';
import { connectEmbedded, type EmbeddedStore, startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { findBinaries } from '#db/postgres/embedded/binaries.ts';
import { clusterPaths } from '#db/postgres/embedded/cluster.ts';
import { removeDamagedLocks } from '#db/postgres/embedded/lock-files.ts';
import { readPidFile } from '#db/postgres/embedded/postmaster.ts';
import { chooseRunAs, command, run } from '#db/postgres/embedded/run-as.ts';
import { ask } from '../support/database.ts';
import { copyCluster } from '../support/cluster-copy.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

const CHILD = path.join(import.meta.dirname, '../support/servers/embedded-child.ts');
/** How many sessions hold the supervisor's lock. */
const SUPERVISORS = `select count(*)::int from pg_locks join pg_stat_activity using (pid)
  where locktype = 'advisory' and granted and application_name like 'daybook-supervisor%'`;

let dataDir: string;
let running: EmbeddedStore[];
let children: ChildProcess[];

async function open(): Promise<void> {
  dataDir = await makeTestDirectory();
  running = [];
  children = [];
}

async function close(): Promise<void> {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(running.map((store) => store.stop()));
  await removeTestDirectory(dataDir);
}

async function start(
  directory = dataDir,
  log: (line: string) => void = () => undefined,
): Promise<EmbeddedStore> {
  const store = await startEmbedded({ dataDir: directory, log });
  running.push(store);
  return store;
}

/**
 * Another process that runs the store. Resolves when it serves; rejects with its output if it fails.
 */
async function startChild(): Promise<ChildProcess> {
  const child = spawn(process.execPath, [CHILD, dataDir], { stdio: ['pipe', 'pipe', 'pipe'] });
  children.push(child);
  const refusal = text(child.stderr);
  const ended = once(child, 'exit').then(async () => {
    throw new Error(await refusal);
  });
  await Promise.race([once(child.stdout, 'data'), ended]);
  ended.catch(() => undefined);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

async function postmasterPid(directory = dataDir): Promise<number> {
  const file = await readPidFile(await clusterPaths(directory));
  if (file === null) throw new Error('no Postgres is running');
  return file.pid;
}

/** A cluster that no server runs on. */
async function stoppedCluster(): Promise<void> {
  await copyCluster(dataDir);
  if (!existsSync((await clusterPaths(dataDir)).cluster)) await (await start()).stop();
}

/** Writes a row to a table of its own, and returns the query that reads it: its answer is 42. */
let tables = 0;
async function writeRow(store: Store): Promise<string> {
  const table = `kept_${(tables += 1)}`;
  await ask(store.config('owner'), `create table ${table} as select 42 as answer`);
  return `select answer from ${table}`;
}

describe('a start on a new directory', () => {
  let store: EmbeddedStore;
  beforeAll(open);
  afterAll(close);

  test('that was killed midway does not prevent the next one', async () => {
    const child = spawn(process.execPath, [CHILD, dataDir], { stdio: 'ignore' });
    children.push(child);
    await expect
      .poll(() => readdir(dataDir), { interval: 5 })
      .toContainEqual(expect.stringMatching(/^postgres\.new-/));
    await kill(child);
    expect(await readdir(dataDir)).not.toContain('postgres');
    store = await start();
    expect((await readdir(dataDir)).filter((name) => name.includes('.new-'))).toEqual([]);
  });

  test('stores passwords readable by its user only, and in no log or printed configuration', async () => {
    const file = path.join(dataDir, 'postgres-passwords.json');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(path.join(dataDir, 'postgres'))).mode & 0o777).toBe(0o700);
    const passwords = Object.values(JSON.parse(await readFile(file, 'utf8')) as Record<string, string>);
    expect(new Set(passwords).size).toBe(5);
    const seen =
      (await readFile(path.join(dataDir, 'postgres.log'), 'utf8')) + JSON.stringify(store.config('owner'));
    for (const password of passwords) expect(seen).not.toContain(password);
    const wrong = { ...store.config('owner'), password: 'not the password' };
    await expect(ask(wrong, 'select 1')).rejects.toMatchObject({ code: '28P01' });
  });

  test('creates a database that keeps its data across a restart', async () => {
    const row = await writeRow(store);
    await store.stop();
    expect(await readPidFile(await clusterPaths(dataDir))).toBeNull();
    expect(await ask((await start()).config('owner'), row)).toBe(42);
  });
});

describe('a start', () => {
  beforeEach(open);
  afterEach(close);

  test('of two concurrent Daybooks on a new directory leaves one serving', async () => {
    const starts = await Promise.allSettled([startChild(), startChild()]);
    expect(starts.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    const refusals = starts.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
    const winner = children.find((child) => child.exitCode === null)?.pid;
    for (const refusal of refusals)
      expect(refusal).toContain(`${dataDir} is in use by another Daybook (pid ${winner})`);
  });

  test('with fsync or another durability setting off fails naming it, and leaves no server', async () => {
    await stoppedCluster();
    for (const setting of ['fsync', 'full_page_writes', 'synchronous_commit']) {
      await writeFile(path.join(dataDir, 'postgres', 'postgresql.auto.conf'), `${setting} = off\n`);
      await expect(startEmbedded({ dataDir, log: () => undefined })).rejects.toThrow(`${setting}=off`);
      expect(await readPidFile(await clusterPaths(dataDir))).toBeNull();
    }
  });

  test('removes lock files that a power failure left empty or cut, and names other obstacles', async () => {
    await stoppedCluster();
    const { cluster } = await clusterPaths(dataDir);
    const [pidFile, socketLock] = ['postmaster.pid', '.s.PGSQL.5432.lock'].map((name) =>
      path.join(cluster, name),
    ) as [string, string];
    for (const [pid, lock] of [
      ['', ''],
      ['\0\0\0\0', '12'],
    ] as const) {
      await writeFile(pidFile, pid);
      await writeFile(socketLock, lock);
      const lines: string[] = [];
      const store = await start(dataDir, (line) => lines.push(line));
      expect(lines.filter((line) => line.startsWith('removed '))).toHaveLength(2);
      expect(await ask(store.config('relay'), 'show log_error_verbosity')).toBe('terse');
      // A Postgres that runs is never taken for stale.
      const own = await readFile(pidFile, 'utf8');
      await writeFile(pidFile, '');
      await removeDamagedLocks(
        cluster,
        async () => false,
        (line) => lines.push(line),
      );
      expect(lines.filter((line) => line.startsWith('removed '))).toHaveLength(2);
      await writeFile(pidFile, own);
      await store.stop();
    }
    await chmod(cluster, 0o777);
    await expect(startEmbedded({ dataDir, log: () => undefined })).rejects.toThrow(
      /has invalid permissions\. Permissions should be [^\n]+ To fix it, run: chmod 700 \S+\/postgres$/,
    );
  });

  test('on a cluster without checksums fails', async () => {
    const place = await clusterPaths(dataDir);
    const binaries = await findBinaries();
    const runAs = await chooseRunAs(place.cluster, dataDir, binaries);
    await mkdir(place.cluster);
    if (runAs.owner !== null) await chown(place.cluster, runAs.owner.uid, runAs.owner.gid);
    const options = [
      '-D',
      place.cluster,
      '-U',
      'postgres',
      '--auth=trust',
      // Before PostgreSQL 18 it is the default, and there is no such option.
      ...(Number(binaries.major) < 18 ? [] : ['--no-data-checksums']),
      '--no-sync',
    ];
    const initdb = command(runAs, binaries.initdb, options);
    await run(initdb.program, initdb.args, initdb.options);
    await writeFile(
      place.passwords,
      JSON.stringify({ superuser: 's', owner: 'o', relay: 'r', worker: 'w', auditor: 'a' }),
    );
    await expect(startEmbedded({ dataDir, log: () => undefined })).rejects.toThrow('data_checksums=off');
  });
});

/** One server for all of them: each test continues where the previous one ended. */
describe('a running Postgres', () => {
  const lines: string[] = [];
  let store: EmbeddedStore;
  beforeAll(async () => {
    await open();
    await stoppedCluster();
    expect(await connectEmbedded(dataDir)).toBeNull();
    store = await start(dataDir, (line) => lines.push(line));
  });
  afterAll(close);

  test('is found by a command beside it', async () => {
    const beside = await connectEmbedded(dataDir);
    expect(await ask(beside?.config('relay') ?? {}, 'select current_user')).toBe('daybook_relay');
  });

  test('is not disturbed by a second Daybook on the same directory, which fails', async () => {
    const row = await writeRow(store);
    const pid = await postmasterPid();
    await expect(startEmbedded({ dataDir, log: () => undefined })).rejects.toMatchObject({
      name: 'StoreError',
      message: `${dataDir} is in use by another Daybook (pid ${process.pid})`,
    });
    expect(await postmasterPid()).toBe(pid);
    expect(await ask(store.config('owner'), row)).toBe(42);
  });

  test('whose backends crash recovers, and stays under the same supervision', async () => {
    const row = await writeRow(store);
    const pid = await postmasterPid();
    const supervisor = `select pid from pg_stat_activity where application_name like 'daybook-supervisor%'`;
    process.kill(Number(await ask(store.config('owner'), supervisor)), 'SIGKILL');
    await expect.poll(() => lines.at(-1)).toBe(`PostgreSQL was still running (process ${pid})`);
    expect(await ask(store.config('owner'), row)).toBe(42);
    expect(await ask(store.config('owner'), SUPERVISORS)).toBe(1);
  });

  test('that is killed is restarted at the same address, with all committed data', async () => {
    const row = await writeRow(store);
    const before = { pid: await postmasterPid(), config: store.config('owner') };
    process.kill(before.pid, 'SIGKILL');
    await expect.poll(() => ask(before.config, row).catch(() => 'down')).toBe(42);
    await expect.poll(() => lines.at(-1)).toMatch(/^PostgreSQL started/);
    expect(await postmasterPid()).not.toBe(before.pid);
    expect(await ask(before.config, SUPERVISORS)).toBe(1);
  });

  test('stops within its timeout although a session is executing a statement', async () => {
    const sleeper = ask(
      { ...store.config('owner'), query_timeout: 60_000, statement_timeout: 60_000 },
      'select pg_sleep(60)',
    );
    const ended = expect(sleeper).rejects.toMatchObject({ code: '57P01' });
    const busy = `select count(*)::int from pg_stat_activity where query = 'select pg_sleep(60)'`;
    await expect.poll(() => ask(store.config('owner'), busy)).toBe(1);
    await store.stop();
    await ended;
    expect(await readPidFile(await clusterPaths(dataDir))).toBeNull();
    // No command finds it any more.
    expect(await connectEmbedded(dataDir)).toBeNull();
  });

  test('outlives a Daybook that is killed, and its successor adopts it', async () => {
    const child = await startChild();
    const beside = await connectEmbedded(dataDir);
    if (beside === null) throw new Error('the child serves nothing');
    const row = await writeRow(beside);
    const pid = await postmasterPid();
    await kill(child);
    const successor = await start();
    expect(await postmasterPid()).toBe(pid);
    expect(await ask(successor.config('owner'), row)).toBe(42);
    await successor.stop();
    expect(await readPidFile(await clusterPaths(dataDir))).toBeNull();
  });
});
