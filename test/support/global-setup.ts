import { chmod } from 'node:fs/promises';
import { Client } from 'pg';
import type { TestProject } from 'vitest/node';
import type { Store } from '#db/postgres/connect.ts';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { clusterPaths, readPasswords, type Passwords } from '#db/postgres/embedded/cluster.ts';
import { migrate } from '#db/schema/migrate.ts';
import { makeTestDirectory, removeLeftoverDirectories, removeTestDirectory } from './directory.ts';

/** The PostgreSQL of this run: what tests need to make databases in it. */
export type Cluster = { host: string; port: number; passwords: Passwords; template: string };

declare module 'vitest' {
  interface ProvidedContext {
    cluster: Cluster;
  }
}

const TEMPLATE = 'daybook_template';

/** Starts one server for the run, with a migrated database that every test's own is cloned from. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeLeftoverDirectories();
  const dataDir = await makeTestDirectory();
  await chmod(dataDir, 0o711);
  const complaints: string[] = [];
  const store = await startEmbedded({ dataDir, log: (line) => complaints.push(line) });
  const teardown = async (): Promise<void> => {
    await store.stop();
    await removeTestDirectory(dataDir);
  };
  try {
    const passwords = await readPasswords(await clusterPaths(dataDir));
    const { host, port } = store.config('owner');
    if (passwords === null || host === undefined || port === undefined)
      throw new Error('the server has no address');
    // Not the server's own database: its supervisor is connected to that, and a template may have no
    // sessions.
    const superuser = new Client({
      host,
      port,
      user: 'postgres',
      database: 'postgres',
      password: passwords.superuser,
    });
    await superuser.connect();
    await superuser.query(`create database ${TEMPLATE} owner daybook_owner`);
    await superuser.end();
    const template: Store = { config: (role) => ({ ...store.config(role), database: TEMPLATE }) };
    await migrate(template);
    project.provide('cluster', { host, port, passwords, template: TEMPLATE });
  } catch (error) {
    await teardown();
    throw error;
  }
  return teardown;
}
