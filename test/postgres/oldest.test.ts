import { expect, test } from 'vitest';
import { externalStore, patient } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, openWriter, settled } from '../support/log/log-writer.ts';
import { createPostgres, startWithOwner } from '../support/postgres/server.ts';
import { findMajor } from '../support/postgres/majors.ts';
import { projectAll } from '../support/projections/projected.ts';
import { runAudit } from '../chaos/audit-diff.ts';
import { ask } from '../support/database.ts';

/** The short form of `npm run test:postgres`, which runs all tests of the database in each version. */
const OLDEST = 15;
const binaries = await findMajor(OLDEST);

test.skipIf(binaries === null)(
  'the oldest supported PostgreSQL takes the schema, appends, projects and verifies the log',
  async () => {
    const directory = await makeTestDirectory();
    const server = await createPostgres(directory, binaries ?? undefined);
    await startWithOwner(server);
    try {
      const url = server.url('daybook');
      const store = patient(externalStore(url));
      await migrate(store);
      expect(await ask(store.config('relay'), 'show server_version')).toMatch(new RegExp(`^${OLDEST}\\.`));
      {
        await using writer = await openWriter(store);
        const calls = Array.from({ length: 20 }, () => accepted());
        await writer.append(calls);
        await writer.append(calls.map((call) => settled(call)));
      }
      await projectAll(store);
      const place = { DATABASE_URL: url, DAYBOOK_DATA: directory };
      expect(await runAudit(place, 'diff')).toMatchObject({ code: 0 });
      expect(await runAudit(place, 'verify')).toMatchObject({ code: 0 });
    } finally {
      await server.stop();
      await removeTestDirectory(directory);
    }
  },
);
