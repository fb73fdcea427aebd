import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, chmod, chown, mkdir, readFile, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connectEmbedded, type EmbeddedStore, startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { findBinaries } from '#db/postgres/embedded/binaries.ts';
import { clusterPaths } from '#db/postgres/embedded/cluster.ts';
import { readPidFile } from '#db/postgres/embedded/postmaster.ts';
import { run } from '#db/postgres/embedded/run-as.ts';
import { copyCluster } from '../support/cluster-copy.ts';
import { ask } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

const CHILD = path.join(import.meta.dirname, '../support/servers/embedded-child.ts');
const IS_ROOT = process.getuid?.() === 0;
/** A user other than root: 65534 by convention. */
const ORDINARY = 65_534;
const AS_ORDINARY = [`--reuid=${ORDINARY}`, `--regid=${ORDINARY}`, '--clear-groups', '--'];

let parent: string;
let dataDir: string;
let store: EmbeddedStore | null;
beforeEach(async () => {
  parent = await makeTestDirectory();
  dataDir = path.join(parent, 'data');
  store = null;
});
afterEach(async () => {
  await store?.stop();
  await removeTestDirectory(dataDir);
  await removeTestDirectory(parent);
});

async function start(): Promise<EmbeddedStore> {
  store = await startEmbedded({ dataDir, log: () => undefined });
  return store;
}

/** Makes the data directory with a cluster in it, where a test is not about its creation. */
async function makeCluster(): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 });
  await copyCluster(dataDir);
}

/** Who runs the Postgres of a data directory. */
async function postgresUser(): Promise<number> {
  const file = await readPidFile(await clusterPaths(dataDir));
  return (await stat(`/proc/${file?.pid}`)).uid;
}

describe.runIf(IS_ROOT)('root', () => {
  test('runs Postgres as another user, also below a directory that only root can enter', async () => {
    await chmod(parent, 0o700);
    await mkdir(dataDir, { mode: 0o700 });
    expect(await ask((await start()).config('owner'), 'select 1')).toBe(1);
    expect(await postgresUser()).toBe((await stat(path.join(dataDir, 'postgres'))).uid);
    expect(await postgresUser()).not.toBe(0);
    expect((await stat(path.join(dataDir, 'postgres-passwords.json'))).uid).toBe(0);
  });

  test('gives Postgres no capability if every user can enter the directory', async () => {
    await chmod(parent, 0o755);
    await makeCluster();
    await start();
    const status = await readFile(
      `/proc/${(await readPidFile(await clusterPaths(dataDir)))?.pid}/status`,
      'utf8',
    );
    const binaries = await findBinaries();
    const open = await run('setpriv', [...AS_ORDINARY, 'test', '-x', binaries.postgres]).then(
      () => true,
      () => false,
    );
    // A clone that only root may enter needs the one capability for the programs themselves.
    expect(/^CapEff:\t(\w+)$/m.exec(status)?.[1]).toMatch(open ? /^0+$/ : /^0+[24]$/);
  });

  test('can run the cluster of an ordinary user, who stays its owner', async () => {
    await makeCluster();
    const cluster = path.join(dataDir, 'postgres');
    await run('chown', ['-R', `${ORDINARY}:${ORDINARY}`, cluster]);
    await start();
    expect(await postgresUser()).toBe(ORDINARY);
    expect((await stat(cluster)).uid).toBe(ORDINARY);
  });
});

test.runIf(IS_ROOT)('an ordinary user runs Postgres as themselves', async (context) => {
  const readable = await run('setpriv', [...AS_ORDINARY, 'test', '-r', CHILD]).catch(() => null);
  if (readable === null) context.skip('this clone is below a directory that only root may enter');
  await chmod(parent, 0o755);
  await mkdir(dataDir);
  await chown(dataDir, ORDINARY, ORDINARY);
  const child = spawn('setpriv', [...AS_ORDINARY, process.execPath, CHILD, dataDir], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  expect(await postgresUser()).toBe(ORDINARY);
  const beside = await connectEmbedded(dataDir);
  expect(await ask(beside?.config('relay') ?? {}, 'select current_user')).toBe('daybook_relay');
  child.stdin.end();
  await once(child, 'exit');
  expect(await readPidFile(await clusterPaths(dataDir))).toBeNull();
});

test('a data directory whose path is too long for a Unix socket is served on the loopback only', async () => {
  dataDir = path.join(dataDir, 'deep'.repeat(30));
  await makeCluster();
  const config = (await start()).config('relay');
  expect(config.host).toBe('127.0.0.1');
  expect(await ask(config, 'show listen_addresses')).toBe('127.0.0.1');
  const beside = await connectEmbedded(dataDir);
  expect(beside?.config('relay')).toMatchObject({ host: config.host, port: config.port });
});

test('any other data directory is served on a Unix socket only', async () => {
  dataDir = path.join(parent, `o'dd, "name`);
  const config = (await start()).config('relay');
  expect(await ask(config, 'show listen_addresses')).toBe('');
  expect(config.host).toBe(path.join(dataDir, 'postgres'));
  expect(await ask(config, 'show unix_socket_permissions')).toBe('0700');
});

test('Postgres does not inherit the credentials in our environment', async () => {
  await makeCluster();
  const { OPENAI_API_KEY } = process.env;
  process.env['OPENAI_API_KEY'] = 'sk-canary';
  try {
    await start();
  } finally {
    if (OPENAI_API_KEY === undefined) delete process.env['OPENAI_API_KEY'];
    else process.env['OPENAI_API_KEY'] = OPENAI_API_KEY;
  }
  const pid = (await readPidFile(await clusterPaths(dataDir)))?.pid;
  const environment = await readFile(`/proc/${pid}/environ`, 'utf8');
  expect(environment).toContain('LC_ALL=C');
  expect(environment).not.toContain('canary');
});

test('a link that an installation without scripts lacks is created', async (context) => {
  const { postgres } = await findBinaries();
  // No program needs this one, so a failing test breaks nothing.
  const link = path.resolve(postgres, '../../lib/libecpg.so');
  const removed = await unlink(link).then(
    () => true,
    () => false,
  );
  if (!removed) context.skip('the installation is not ours to change');
  await findBinaries();
  await expect(access(link)).resolves.toBeUndefined();
});

test('a directory that cannot hold a database is rejected in one line that names it', async () => {
  const inAFile = path.join(CHILD, 'data');
  await expect(startEmbedded({ dataDir: inAFile, log: () => undefined })).rejects.toMatchObject({
    name: 'StoreError',
    message: expect.stringMatching(
      /^the database in \S+embedded-child\.ts\/data \(DAYBOOK_DATA\) cannot be used: ENOTDIR[^\n]*$/,
    ),
  });
});
