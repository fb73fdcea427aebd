import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { verifyStatementFile } from '#db/statement/file.ts';
import { readStatement } from '#db/statement/read.ts';
import { BillingControl } from '#server/control/billing-control.ts';
import { withControl } from '#server/control/control.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import {
  accepted,
  connectAs,
  openLivingWriter,
  registered,
  settled,
  type Writer,
} from '../support/log/log-writer.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { proveAccount } from '../support/statement.ts';

/** Corrections that are recorded after an invoice, and the credit notes over them. */

const ACCOUNT = 'Account9';
const DAY_MS = 86_400_000;

let database: TestDatabase;
let writer: Writer;
let directory: string;
/** A period that is over, with the calls of `old`, and the one behind it. */
let over: { from: Date; to: Date; end_user: null };
const old: EventOf<'request.accepted'>[] = [];

const line = commandLine(() => ({ DATABASE_URL: database.url, LOG_LEVEL: 'silent' }));
const billing = <T>(use: (control: BillingControl) => Promise<T>): Promise<T> =>
  withControl(database, 'test', (control, client) => use(new BillingControl(control, client)));

async function call(cost: number): Promise<EventOf<'request.accepted'>> {
  const begun = accepted({ account: ACCOUNT, model: 'gpt-5' });
  await writer.append([begun, settled(begun, { cost_nanousd: cost })]);
  return begun;
}
const correct = (begun: EventOf<'request.accepted'> | undefined, cost: number, reference: string) =>
  writer.correct([
    {
      type: 'usage.adjusted',
      request: begun?.request ?? '',
      ...{ account: ACCOUNT, key: begun?.key ?? '', model: 'gpt-5', end_reason: 'completed' },
      cost_nanousd: cost,
      reference,
      reason: 'billed by the provider',
      adjusted_by: 'command-line',
    },
  ]);
/** Projects what was written, and issues the invoice of a period as soon as it is final. */
async function issue(period: typeof over) {
  await proveAccount(database, ACCOUNT, directory);
  await expect
    .poll(() => billing((control) => control.issue({ id: ACCOUNT }, period)).then(() => true, String))
    .toBe(true);
  return (await billing((control) => control.issue({ id: ACCOUNT }, period))).invoice;
}
/** All charges and corrections of the account. */
async function charged(): Promise<bigint> {
  const client = await connectAs(database, 'relay');
  try {
    const all = { account: ACCOUNT, from: new Date('2000-01-01'), to: new Date('2100-01-01') };
    return BigInt((await readStatement(client, all)).statement.totals.cost_nanousd);
  } finally {
    await client.end();
  }
}
const sum = (...totals: string[]): bigint => totals.reduce((total, each) => total + BigInt(each), 0n);

beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  writer = await openLivingWriter(database);
  await writer.control([{ event: registered(ACCOUNT, 'Ana'), version: 1 }]);
  await billing((control) =>
    control.setIssuer({ name: 'Example Relay GmbH', address: [], series: 'INV-2026-' }),
  );
  for (const cost of [1_000_003, 2_000_005, 3_000_007]) old.push(await call(cost));
  over = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + 1), end_user: null };
});
afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

test('an invoice and its credit notes add up to the period with its corrections, exactly', async () => {
  const invoice = await issue(over);
  expect(invoice.total_nanousd).toBe('6000015');
  expect(await line.text('invoice', 'correct', String(invoice.number))).toContain('No correction');
  await correct(old[0], -3, 'bill-1');
  await correct(old[1], -1_999_999, 'bill-1');
  const recent = await call(77);
  await correct(recent, -7, 'bill-1');

  const first = await billing((control) => control.correct(invoice.number));
  expect(first?.invoice).toMatchObject({ invoice: invoice.number, total_nanousd: '-2000002' });
  expect(await billing((control) => control.correct(invoice.number))).toBeNull();
  await correct(old[0], 10, 'bill-2');
  const said = await line.text('invoice', 'correct', String(invoice.number));
  expect(said).toContain('Debit note INV-2026-0003 issued over 1 corrections');

  // The next invoice bills what no credit note does: the recent call with its correction.
  const next = { from: over.to, to: new Date(Date.now() + 1), end_user: null };
  const second = await issue(next);
  expect(second.total_nanousd).toBe('70');
  const notes = sum(first?.invoice.total_nanousd ?? '', '10');
  expect(sum(invoice.total_nanousd) + notes).toBe(6_000_015n - 3n - 1_999_999n + 10n);
  expect(sum(invoice.total_nanousd, second.total_nanousd) + notes).toBe(await charged());
  const csv = await line.text('invoice', 'show', String(second.number), '--format', 'csv');
  const costs = csv
    .trim()
    .split(/\r?\n/)
    .slice(1)
    .map((row) => row.split(',').at(-3) as string);
  expect(sum(...costs)).toBe(70n);
});

test('a credit note has the calls it corrects in a file that verifies, and none other', async () => {
  await proveAccount(database, ACCOUNT, directory);
  const proof = path.join(directory, 'note.json');
  await line.text('invoice', 'show', '2', '--format', 'proof', '--out', proof);
  const file = JSON.parse(await readFile(proof, 'utf8')) as { statement: { corrections: number[] } };
  const verified = verifyStatementFile(file, { keys: [], witnesses: [] });
  expect(verified.invoice).toMatchObject({ type: 'invoice.corrected', number: 2, invoice: 1 });
  expect(verified.statement.totals).toMatchObject({ requests: 0, corrections: 2, cost_nanousd: '-2000002' });
  file.statement.corrections.pop();
  expect(() => verifyStatementFile(file, { keys: [], witnesses: [] })).toThrow(/lines|totals/);
  expect(await line.text('invoice', 'show', '2')).toContain('Credit note INV-2026-0002');
  const pdf = path.join(directory, 'note.pdf');
  await line.text('invoice', 'show', '2', '--format', 'pdf', '--out', pdf);
  expect((await readFile(pdf)).subarray(0, 5).toString()).toBe('%PDF-');
});

test('a correction that an invoice bills is in no credit note; taking back counts the notes', async () => {
  await correct(old[2], -5, 'bill-3');
  // Recorded in the third period, and billed by its invoice before a credit note is issued.
  const [first, second] = [1, 4] as const;
  const third = await issue({ from: over.to, to: new Date(Date.now() + 1), end_user: null });
  expect(third.total_nanousd).toBe('65');
  expect(await billing((control) => control.correct(first))).toBeNull();
  const { invoice: back } = await billing((control) => control.credit(first, 'wrong address'));
  expect(back.total_nanousd).toBe(String(-(6_000_015n - 2_000_002n + 10n)));
  await expect(billing((control) => control.correct(first))).rejects.toThrow(/credited before/);
  await billing((control) => control.credit(second, 'superseded'));

  const again = await issue(over);
  expect(again.total_nanousd).toBe('6000015');
  const note = await billing((control) => control.correct(again.number));
  expect(note?.invoice.total_nanousd).toBe('-1999992');
  expect(sum(again.total_nanousd, note?.invoice.total_nanousd ?? '', third.total_nanousd)).toBe(
    await charged(),
  );
});
