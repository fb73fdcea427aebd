import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandLine } from '../support/servers/command-line.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/** Bills on the command line, on a real store. */

let dataDir: string;
let database: TestDatabase;
let file: string;
beforeAll(async () => {
  dataDir = await makeTestDirectory();
  database = await createDatabase();
  file = path.join(dataDir, 'bill.csv');
  await writeFile(
    file,
    [
      'date,kind,model,cost',
      '2026-10-01,usage,gpt,1.25',
      '2026-10-01,discount,gpt,-0.25',
      '2026-10-02,tax,gpt,0.1',
    ].join('\n'),
  );
});
afterAll(async () => {
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});
const { daybook, json, text } = commandLine(() => ({ DAYBOOK_DATA: dataDir, DATABASE_URL: database.url }));
const compare = (...more: string[]) => [
  'reconcile',
  'compare',
  file,
  ...['--format', 'csv', '--provider', 'acme', ...more],
];

test('a comparison is recorded, listed and shown as text, CSV and JSON', async () => {
  const compared = await json<{ reconciliation: string }>(...compare());
  const id = compared.reconciliation;
  expect(compared).toMatchObject({
    is_recorded: true,
    totals: { bill_nanousd: '1100000000', reconciled_nanousd: '1100000000', unexplained_nanousd: '0' },
    differences: [
      { id: 1, class: 'missing_here', amount_nanousd: '1250000000' },
      { id: 2, class: 'discount', amount_nanousd: '-250000000' },
      { id: 3, class: 'tax', amount_nanousd: '100000000' },
    ],
  });
  expect(await json('reconcile', 'list')).toMatchObject([
    { event: { reconciliation: id, provider: 'acme', bill_nanousd: 1_100_000_000 } },
  ]);
  expect(await json('reconcile', 'show', id)).toMatchObject({ reconciliation: id });
  expect(await text('reconcile', 'show', id)).toContain('discount');
  const csv = (await text('reconcile', 'show', id, '--csv')).split('\r\n');
  expect(csv[2]).toMatch(/^2,discount,2026-10-01,gpt,,,1,-250000000,false/);
});

test('a dry run records nothing, and a difference without requests is not applied', async () => {
  const listed = await json<{ event: { reconciliation: string } }[]>('reconcile', 'list');
  expect(await json(...compare('--dry-run'))).toMatchObject({ is_recorded: false });
  expect(await json('reconcile', 'list')).toHaveLength(listed.length);
  const id = listed[0]?.event.reconciliation ?? '';
  const applied = await daybook('reconcile', 'apply', id, '--difference', '1', '--reason', 'the bill');
  expect(applied).toMatchObject({ code: 1, stdout: '' });
  expect(applied.stderr).toContain('no recorded figure is wrong');
});
