import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { closeClient, connectAs } from '#db/postgres/connect.ts';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { readSchema, SCHEMA_FOLDER } from '#db/schema/files.ts';
import { migrate } from '#db/schema/migrate.ts';
import { takeSnapshot } from '#db/schema/snapshot.ts';
import { renderTableTypes } from '#db/schema/table-types.ts';

/** `npm run schema`: writes the snapshot and the table types from a new database in a temporary cluster. */
const dataDir = await mkdtemp(path.join(tmpdir(), 'daybook-schema-'));
try {
  const store = await startEmbedded({ dataDir, log: () => undefined });
  try {
    await migrate(store);
    const client = await connectAs(store, 'owner');
    const { version } = await readSchema();
    await writeFile(path.join(SCHEMA_FOLDER, 'snapshot.sql'), await takeSnapshot(client, version));
    await writeFile(path.join(SCHEMA_FOLDER, 'tables.ts'), await renderTableTypes(client));
    await closeClient(client);
  } finally {
    await store.stop();
  }
} finally {
  await rm(dataDir, { recursive: true });
}
