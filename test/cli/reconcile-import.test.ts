import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readBillFile } from '#db/reconcile/bill/read-file.ts';
import { type BillingProvider, startBillingProvider } from '../support/billing/billing-provider.ts';
import type { LedgerEntry } from '../support/billing/ledger.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { readLog } from '../support/log/log-writer.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** Bills by the command line: fetched with a billing credential, and from files. */

const FIXTURES = path.join(import.meta.dirname, '../fixtures/billing');
const ENTRY: LedgerEntry = {
  requestId: 'req-1',
  at: new Date('2026-10-02T10:00:00Z'),
  model: 'claude-sonnet',
  credential: 'apikey_1',
  serviceTier: 'standard',
  parts: { input: { quantity: 1_000n, cost: 3_000_001n }, output: { quantity: 10n, cost: 150_000n } },
};

let directory: string;
let database: TestDatabase;
let provider: BillingProvider;
beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  provider = await startBillingProvider({ ledger: [ENTRY], bucketsPerPage: 2 });
});
afterAll(async () => {
  await provider?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

const { daybook, json, text } = commandLine(
  () => ({ DAYBOOK_DATA: path.join(directory, 'data'), DATABASE_URL: database.url }),
  () => Readable.from([`${provider.adminKey}\n`]),
);
const fetchArgs = [
  'reconcile',
  'import',
  '--upstream',
  'claude',
  '--since',
  '2026-10-01',
  '--until',
  '2026-10-06',
];

describe('a bill of an upstream', () => {
  test('needs a billing credential, which the error shows how to add', async () => {
    await text(
      'upstream',
      'add',
      'claude',
      '--provider',
      'anthropic',
      '--base-url',
      `${provider.url}/v1`,
      '--network',
      'private',
      '--models',
      'claude-*',
    );
    await text('credential', 'add', 'claude', '--label', 'calls');
    const { code, stderr } = await daybook(...fetchArgs);
    expect([code, stderr]).toEqual([3, expect.stringContaining('credential add claude --billing')]);
    expect(provider.asked).toEqual([]);
  });

  test('is fetched through all pages, shown and written to a file, without the credential', async () => {
    const added = await text('credential', 'add', 'claude', '--label', 'billing', '--billing');
    expect(added).toMatch(/^Billing credential \w+ of upstream "claude" is added/);
    const out = path.join(directory, 'october.ndjson');
    const shown = await text(...fetchArgs, '--out', out);
    expect(shown).toContain('Bill of anthropic (anthropic) from 2026-10-01T00:00:00.000Z until 2026-10-06');
    expect(shown).toMatch(/\nclaude-sonnet +0\.003150001 +USD +0\n/);
    expect(shown).toMatch(/\n2026-10-02 +0\.003150001 +USD/);
    expect(provider.asked.every(({ key }) => key === provider.adminKey)).toBe(true);
    expect(provider.asked).toHaveLength(6); // Two reports of five days in pages of two.

    const bill = await readBillFile(out, 'bill');
    expect(bill.lines.map(({ part, quantity, cost }) => [part, quantity, cost])).toEqual([
      ['input', null, 3_000_001n],
      ['output', null, 150_000n],
      ['input', 1_000n, null],
      ['output', 10n, null],
    ]);
    expect((await stat(out)).mode & 0o777).toBe(0o600);
    const summary = await json<object>('reconcile', 'import', '--file', out, '--format', 'bill');
    expect(summary).toMatchObject({
      by_kind: [{ kind: 'usage', cost_billionths: '3150001', currency: 'USD', requests: '0' }],
      file: null,
    });

    const seen = [
      shown,
      JSON.stringify(summary),
      await readFile(out, 'utf8'),
      await text('credential', 'list'),
    ];
    expect(
      seen.join('\n') + JSON.stringify((await readLog(database)).map(({ event }) => event)),
    ).not.toContain('canary');
  });

  test('that a provider rejects is an error without the credential, and no file', async () => {
    const out = path.join(directory, 'rejected.ndjson');
    provider.faults.push({ status: 401 });
    const { code, stdout, stderr } = await daybook(...fetchArgs, '--out', out);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^daybook: Fetching \/organizations\/cost_report failed: [^\n]+\n$/);
    expect(stderr).not.toContain('canary');
    expect(await readdir(directory)).not.toContain('rejected.ndjson');
  });

  test('is marked as billing where credentials are listed', async () => {
    expect(await json('credential', 'list')).toMatchObject([
      { label: 'calls', purpose: 'calls' },
      { label: 'billing', purpose: 'billing' },
    ]);
    expect(await json('upstream', 'list')).toMatchObject([{ name: 'claude', credentials: 1 }]);
  });
});

describe('a bill in files', () => {
  const file = (name: string): string[] => ['--file', path.join(FIXTURES, name)];

  test('joins reports, and states everything that its lines do not represent', async () => {
    const shown = await text(
      'reconcile',
      'import',
      ...file('openai-costs.json'),
      ...file('openai-usage.json'),
      '--format',
      'openai-costs',
      '--format',
      'openai-usage',
    );
    expect(shown).toMatch(/\ncredit +-0\.5 +USD +0\nusage +1\.44127038 +USD +8\n/);
    expect(shown).toContain('Costs finer than a billionth of USD, which are rounded: 1, remainder -0.0000');
    expect(shown).toContain(
      'Not represented in its lines (1):\n  usage page 1 bucket 1 result 2: The usage of 50',
    );
    expect(shown).toContain('Add --out to compare it.');
  });

  test('of CSV has the columns and time zone that its reader names', async () => {
    const columns = ['date=Day', 'model=Model', 'cost=Amount', 'part=Class', 'quantity=Tokens'];
    const summary = await json<{ by_day: unknown }>(
      'reconcile',
      'import',
      ...file('plain.csv'),
      '--format',
      'csv',
      '--provider',
      'mistral',
      '--time-zone',
      'Europe/Paris',
      ...columns.flatMap((column) => ['--column', column]),
    );
    expect(summary.by_day).toEqual([
      { day: '2026-10-25', currency: 'EUR', cost_billionths: '3200000', requests: '0' },
      { day: '2026-10-26', currency: 'EUR', cost_billionths: '-1500000000', requests: '0' },
    ]);
  });

  test.each<[string, string[]]>([
    ['either an upstream', []],
    ['format of each file', [...file('plain.csv')]],
    ['is not one of bill', [...file('plain.csv'), '--format', 'pdf']],
    ['plain.csv: line 2: It has no cost', [...file('plain.csv'), '--format', 'csv']],
    ['--column "a=b"', [...file('plain.csv'), '--format', 'csv', '--column', 'a=b']],
    ['(ENOENT)', ['--file', '/nowhere/bill.csv', '--format', 'csv']],
    ['"Mars/Phobos"', [...file('plain.csv'), '--format', 'csv', '--time-zone', 'Mars/Phobos']],
    ['needs its first day', ['--upstream', 'claude']],
    ['--since: "yesterday"', ['--upstream', 'claude', '--since', 'yesterday', '--until', '2026-10-06']],
    ['no upstream named "none"', ['--upstream', 'none', '--since', '2026-10-01', '--until', '2026-10-06']],
    ['to a later one', ['--upstream', 'claude', '--since', '2026-10-06', '--until', '2026-10-01']],
    ['at most 366 days', ['--upstream', 'claude', '--since', '2020-10-06', '--until', '2026-10-01']],
  ])('is rejected in one line: %s', async (expected, args) => {
    const { code, stdout, stderr } = await daybook('reconcile', 'import', ...args);
    expect([code, stdout]).toEqual([expect.toBeOneOf([1, 3]), '']);
    expect(stderr).toMatch(/^daybook: [^\n]+\n$/);
    expect(stderr).toContain(expected);
  });

  test('that cannot be written leaves no partial file', async () => {
    const bill = [
      'reconcile',
      'import',
      ...file('plain.csv'),
      '--format',
      'csv',
      '--column',
      'date=Day',
      '--column',
      'cost=Amount',
    ];
    await writeFile(path.join(directory, 'occupied'), '');
    const { stderr } = await daybook(...bill, '--out', path.join(directory, 'occupied/bill.ndjson'));
    expect(stderr).toContain("It can't be written (ENOTDIR).");
    expect((await readdir(directory)).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });
});
