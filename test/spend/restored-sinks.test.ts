import { afterAll, beforeAll, expect, test } from 'vitest';
import { restoreBackup } from '#db/backup/restore.ts';
import { backUp } from '../support/audit/backup-fixture.ts';
import { createDatabase, createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** Sinks of a database that was restored from a backup while the original may still deliver. */

let original: TestDatabase;
let restored: TestDatabase;
let directory: string;
const before = commandLine(() => ({ DATABASE_URL: original.url, DAYBOOK_DATA: directory }));
const after = commandLine(() => ({ DATABASE_URL: restored.url, DAYBOOK_DATA: directory }));

beforeAll(async () => {
  original = await createDatabase();
  restored = await createEmptyDatabase();
  directory = await makeTestDirectory();
});
afterAll(async () => {
  await restored?.[Symbol.asyncDispose]();
  await original?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

const byCheck = (one: { check: string }, other: { check: string }): number =>
  one.check.localeCompare(other.check);

const sinkFindings = async (): Promise<unknown> => {
  const { stdout } = await after.daybook('doctor', '--json');
  const { findings } = JSON.parse(stdout) as { findings: { check: string }[] };
  return findings.filter(({ check }) => check.startsWith('sink ')).toSorted(byCheck);
};

test('a restored sink delivers nothing before it is resumed, and doctor names it', async () => {
  await before.json('sink', 'add', 'webhook', 'billing', 'https://billing.example.com');
  await before.json('sink', 'add', 'webhook', 'stopped', 'https://stopped.example.com');
  await before.json('sink', 'pause', 'stopped');
  const { directory: backup } = await backUp(original, directory);
  expect(await restoreBackup({ store: restored, directory: backup, evenDamaged: false })).toMatchObject({
    paused_sinks: 1,
  });

  expect(await before.json('sink', 'list')).toMatchObject([{ paused_at: null }, { name: 'stopped' }]);
  expect(await after.json('sink', 'list')).toMatchObject([
    { name: 'billing', paused_at: expect.any(String), fault: 'restored_from_backup' },
    { name: 'stopped', paused_at: expect.any(String), fault: null },
  ]);
  expect(await sinkFindings()).toMatchObject([
    {
      check: 'sink billing',
      ok: false,
      detail: expect.stringMatching(/^paused since the database was restored.*sink resume billing;/),
    },
    { check: 'sink stopped', ok: true, detail: expect.stringMatching(/^paused since/) },
  ]);
  await after.json('sink', 'resume', 'billing');
  expect(await after.json('sink', 'list')).toMatchObject([{ paused_at: null, fault: null }, {}]);
  expect(await sinkFindings()).toMatchObject([
    { ok: true, detail: expect.stringMatching(/^no failure; webhook, at position \d+/) },
    { ok: true },
  ]);
});
