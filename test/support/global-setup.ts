import { chmod } from 'node:fs/promises';
import { Client } from 'pg';
import type { TestProject } from 'vitest/node';
import { type EmbeddedStore, startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { DATABASE } from '#db/postgres/embedded/bootstrap.ts';
import { clusterPaths, readPasswords, type Passwords } from '#db/postgres/embedded/cluster.ts';
import { migrate } from '#db/schema/migrate.ts';
import { keepTemplate } from './cluster-copy.ts';
import {
  chooseTestDirectoryParent,
  makeTestDirectory,
  removeLeftoverDirectories,
  removeTestDirectory,
} from './directory.ts';

/** The PostgreSQL of this run: what tests need to make databases in it. */
export type Cluster = { host: string; port: number; passwords: Passwords; template: string };

declare module 'vitest' {
  interface ProvidedContext {
    cluster: Cluster;
  }
}

/**
 * Starts one server for the run, with a migrated database that every test's own is cloned from. Tests that
 * need a cluster of their own copy this one, in the state before any of them.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeLeftoverDirectories();
  await chooseTestDirectoryParent();
  const dataDir = await makeTestDirectory();
  const template = await makeTestDirectory();
  const complaints: string[] = [];
  const start = (): Promise<EmbeddedStore> =>
    startEmbedded({ dataDir, log: (line) => complaints.push(line) });
  let store: EmbeddedStore | null = null;
  const teardown = async (): Promise<void> => {
    await store?.stop();
    await removeTestDirectory(dataDir);
    await removeTestDirectory(template);
  };
  try {
    await chmod(dataDir, 0o711);
    store = await start();
    await migrate(store);
    await cheapenPasswords(dataDir, store);
    await store.stop();
    await keepTemplate(dataDir, template);
    store = await start();
    const { host, port, passwords } = await readAddress(dataDir, store);
    project.provide('cluster', { host, port, passwords, template: DATABASE });
  } catch (error) {
    await teardown();
    throw error;
  }
  return teardown;
}

async function readAddress(dataDir: string, store: EmbeddedStore): Promise<Omit<Cluster, 'template'>> {
  const passwords = await readPasswords(await clusterPaths(dataDir));
  const { host, port } = store.config('owner');
  if (passwords === null || host === undefined || port === undefined)
    throw new Error('the server has no address');
  return { host, port, passwords };
}

function newSuperuser({ host, port, passwords }: Omit<Cluster, 'template'>): Client {
  return new Client({ host, port, user: 'postgres', database: 'postgres', password: passwords.superuser });
}

/**
 * Stores the same passwords with one iteration of their hash instead of 4,096, which saves 2.5 ms of CPU time
 * per connection. The suite makes thousands.
 */
async function cheapenPasswords(dataDir: string, store: EmbeddedStore): Promise<void> {
  const address = await readAddress(dataDir, store);
  const client = newSuperuser(address);
  await client.connect();
  const { rowCount } = await client.query("select from pg_settings where name = 'scram_iterations'");
  // Before PostgreSQL 16 the number is fixed.
  if (rowCount === 1) await client.query('set scram_iterations = 1');
  for (const [role, password] of Object.entries(address.passwords)) {
    const name = role === 'superuser' ? 'postgres' : `daybook_${role}`;
    await client.query(`alter role ${name} password ${client.escapeLiteral(password)}`);
  }
  await client.end();
}
