import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { publicId } from '#db/ids.ts';
import { verifyStatementFile } from '#db/statement/file.ts';
import { readInvoices } from '#db/statement/read.ts';
import { BillingControl, readIssued } from '#server/control/billing-control.ts';
import { readBilled } from '#db/statement/issued.ts';
import { withControl } from '#server/control/control.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs, openLivingWriter, registered, type Writer } from '../support/log/log-writer.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { proveAccount, writeBilledAccount } from '../support/statement.ts';

const ISSUER = {
  name: 'Example Relay GmbH',
  address: ['Müllerstraße 1', '10115 Berlin'],
  series: 'INV-2026-',
  currency: { code: 'EUR', rate: '0.92', digits: 2 },
};
const DAY_MS = 86_400_000;

let database: TestDatabase;
let writer: Writer;
let directory: string;
/** Its calls are in a period that is over. */
let account: string;
const name = 'Бюро Ana 株';
let over: { from: Date; to: Date; end_user: null };

const line = commandLine(() => ({ DATABASE_URL: database.url, LOG_LEVEL: 'silent' }));
const billing = <T>(use: (control: BillingControl) => Promise<T>): Promise<T> =>
  withControl(database, 'test', (control, client) => use(new BillingControl(control, client)));
async function numbers(): Promise<number[]> {
  const client = await connectAs(database, 'relay');
  try {
    return (await readInvoices(client)).map(({ placed }) => (placed.event as { number: number }).number);
  } finally {
    await client.end();
  }
}

beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  writer = await openLivingWriter(database);
  account = await writeBilledAccount(writer, name);
  over = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + 1), end_user: null };
  await billing((control) => control.setIssuer(ISSUER));
});
afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

const run = promisify(execFile);

test('two processes that issue at once leave no gap in the series, and no number twice', async () => {
  const accounts = Array.from({ length: 12 }, () => publicId());
  await writer.control(accounts.map((id) => ({ event: registered(id), version: 1 })));
  const month = { from: new Date('2020-01-01'), to: new Date('2020-02-01'), end_user: null };
  const before = (await numbers()).length;
  const program = path.join(import.meta.dirname, '../../server/cli.ts');
  const inProcess = (own: readonly string[]) =>
    billing(async (control) => {
      for (const id of own) await control.issue({ id }, month);
    });
  const outside = (id: string) =>
    run(process.execPath, [program, 'invoice', 'issue', id, '--month', '2020-01'], {
      env: { DATABASE_URL: database.url, LOG_LEVEL: 'silent' },
      cwd: directory,
    });
  await Promise.all([
    inProcess(accounts.slice(0, 5)),
    inProcess(accounts.slice(5, 10)),
    ...accounts.slice(10).map(outside),
    // The same account from two sides gets one invoice.
    inProcess(accounts.slice(0, 2)),
  ]);
  const issued = (await numbers()).slice(before);
  expect(issued).toEqual(accounts.map((_, index) => before + index + 1));
});

test('an invoice is refused before its period is over, and without an issuer', async () => {
  await expect(
    billing((control) => control.issue({ id: account }, { ...over, to: new Date(Date.now() + DAY_MS) })),
  ).rejects.toThrow(/Issue its invoice some seconds later/);
});

test('an invoice has the statement of its period in PDF, CSV and a file that proves it', async () => {
  await expect
    .poll(() => billing((control) => control.issue({ id: account }, over)).then(() => true, String))
    .toBe(true);
  const again = await billing((control) => control.issue({ id: account }, over));
  expect(again.event).toBeNull();
  const { number, total_nanousd: total } = again.invoice;
  await proveAccount(database, account, directory);

  const proof = path.join(directory, 'invoice.json');
  await line.text('invoice', 'show', String(number), '--format', 'proof', '--out', proof);
  const file: unknown = JSON.parse(await readFile(proof, 'utf8'));
  const verified = verifyStatementFile(file, { keys: [], witnesses: [] });
  expect(verified.invoice).toMatchObject({ number, total_nanousd: total, account });
  expect(verified.statement).toMatchObject({ account_name: name, issuer: ISSUER, is_final: true });
  const said = await line.text('audit', 'statement', 'verify', proof);
  expect(said).toContain(`Billed by Invoice INV-2026-${String(number).padStart(4, '0')}`);

  const pdf = path.join(directory, 'invoice.pdf');
  await line.text('invoice', 'show', String(number), '--format', 'pdf', '--out', pdf);
  const bytes = await readFile(pdf);
  expect(bytes.subarray(0, 5).toString()).toBe('%PDF-');

  const csv = await line.text('invoice', 'show', String(number), '--format', 'csv');
  const rows = csv.trim().split(/\r?\n/).slice(1);
  const costs = rows.map((row) => BigInt(row.split(',').at(-3) as string));
  expect(costs.reduce((sum, cost) => sum + cost, 0n)).toBe(BigInt(total));
  const text = await line.text('invoice', 'show', String(number));
  expect(text).toContain(`${total} nano-dollars`);
});

test('the next statement opens with the balance that the invoice closed with', async () => {
  const client = await connectAs(database, 'relay');
  try {
    const issued = await billing((control) => control.issue({ id: account }, over));
    const { statement } = await readBilled(client, issued.invoice);
    const { document } = await readIssued(client, issued.invoice.number);
    const invoice = document as typeof issued.invoice;
    expect(invoice.closing_balance_nanousd).toBe(statement.balance?.closing_nanousd);
    const next = await line.text(
      ...['statement', name, '--from', over.to.toISOString(), '--to', '2100-01-01', '--format', 'json'],
    );
    expect(JSON.parse(next)).toMatchObject({
      is_final: false,
      balance: { opening_nanousd: invoice.closing_balance_nanousd, charges_nanousd: '0' },
    });
  } finally {
    await client.end();
  }
});

test('a credited invoice stays in the series, and its period gets a new number', async () => {
  const first = await billing((control) => control.issue({ id: account }, over));
  const { invoice: note } = await billing((control) => control.credit(first.invoice.number, 'wrong address'));
  expect(note.total_nanousd).toBe(String(-BigInt(first.invoice.total_nanousd)));
  await expect(billing((control) => control.credit(first.invoice.number, 'twice'))).rejects.toThrow(/before/);
  const second = await billing((control) => control.issue({ id: account }, over));
  expect(second.invoice.number).toBe(note.number + 1);
  const all = await numbers();
  expect(all).toEqual(all.map((_, index) => index + 1));
  expect(await line.text('invoice', 'list')).toContain(`credits ${first.invoice.number}`);
});
