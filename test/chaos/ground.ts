import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import type { Store } from '#db/postgres/connect.ts';
import { makeClusterDirectory } from '../support/cluster-copy.ts';
import { createDatabase } from '../support/database.ts';
import { databaseUrlOf } from '../support/database-url.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/** Where the servers of a run keep their data: a migrated database, and a data directory for its secrets. */
export type Ground = AsyncDisposable & {
  store: Store;
  /** As the owner: what a spawned server takes as DATABASE_URL. */
  url: string;
  dataDir: string;
};

/** A cluster of the run's own, which the commands use. */
export async function clusterGround(): Promise<Ground> {
  const dataDir = await makeClusterDirectory();
  const store = await startEmbedded({ dataDir, log: () => {} });
  return {
    store,
    url: await databaseUrlOf(store.config('owner')),
    dataDir,
    async [Symbol.asyncDispose]() {
      await store.stop();
      await removeTestDirectory(dataDir);
    },
  };
}

/** A database of the test suite's cluster, which costs neither a copy nor a start. */
export async function databaseGround(): Promise<Ground> {
  const database = await createDatabase();
  const dataDir = await makeTestDirectory();
  return {
    store: database,
    url: database.url,
    dataDir,
    async [Symbol.asyncDispose]() {
      await removeTestDirectory(dataDir);
      await database[Symbol.asyncDispose]();
    },
  };
}
