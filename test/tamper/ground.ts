import { chmod } from 'node:fs/promises';
import path from 'node:path';
import { Client } from 'pg';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { clusterPaths, readPasswords } from '#db/postgres/embedded/cluster.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import type { Ground } from './world.ts';

/** A PostgreSQL of a run's own, in a directory that goes with it. */
export async function startGround(): Promise<Ground & AsyncDisposable & { place: string }> {
  const place = await makeTestDirectory();
  await chmod(place, 0o711);
  const dataDir = path.join(place, 'data');
  const store = await startEmbedded({ dataDir, log: () => {} });
  const passwords = await readPasswords(await clusterPaths(dataDir));
  const { host, port, database } = store.config('owner');
  return {
    store,
    place,
    async superuser() {
      const client = new Client({ host, port, database, user: 'postgres', password: passwords?.superuser });
      client.on('error', () => undefined);
      await client.connect();
      return client;
    },
    async [Symbol.asyncDispose]() {
      await store.stop();
      await removeTestDirectory(dataDir);
      await removeTestDirectory(place);
    },
  };
}
