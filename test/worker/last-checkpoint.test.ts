import path from 'node:path';
import { expect, test } from 'vitest';
import { parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseNote } from '#db/tlog/note.ts';
import { readCheckpointFile } from '#db/tlog/publish-directory.ts';
import { ask, createDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { changeControl, until } from '../support/relay.ts';
import { spawnWorker } from '../support/servers/worker-process.ts';

const WITHIN_MS = 30_000;

test('a stopping worker publishes a checkpoint of the whole log, against truncation', async () => {
  await using database = await createDatabase();
  const dataDir = await makeTestDirectory();
  const env = { DATABASE_URL: database.url, DAYBOOK_DATA: dataDir };
  const published = async (): Promise<number> => {
    const note = await readCheckpointFile(path.join(dataDir, 'published'));
    return note === null ? 0 : parseCheckpoint(parseNote(note).text).size;
  };
  const head = () => ask(database.config('auditor'), 'select daybook.head(0::smallint)::int');
  try {
    const worker = spawnWorker(env);
    try {
      await until(
        () => ask(database.config('worker'), 'select count(*)::int from daybook.queue_pool'),
        (count) => count === 1,
        'the worker',
        WITHIN_MS,
      );
      await changeControl(database, dataDir, (control) => control.createAccount('last'));
    } finally {
      expect(await worker.stop()).toBe(0);
    }
    expect(await published()).toBe(await head());
    expect(await ask(database.config('auditor'), 'select max(size)::int from daybook.checkpoint')).toBe(
      await head(),
    );
  } finally {
    await removeTestDirectory(dataDir);
  }
});
