import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseVerifierKey } from '#db/tlog/note.ts';
import {
  type StatementFile,
  StatementFileError,
  statementFileParts,
  verifyStatementFile,
} from '#db/statement/file.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { proveStatement } from '#db/statement/prove.ts';
import { readStatement } from '#db/statement/read.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs, openLivingWriter, type Writer } from '../support/log/log-writer.ts';
import { period, proveAccount, writeBilledAccount } from '../support/statement.ts';

let database: TestDatabase;
let writer: Writer;
let directory: string;
let account: string;
let file: StatementFile;
let text: string;

beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  writer = await openLivingWriter(database);
  account = await writeBilledAccount(writer);
  file = await proveAccount(database, account, directory);
  text = [...statementFileParts(file)].join('');
});
afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

const key = (): string => file.keys[0] as string;
const known = () => ({ keys: [parseVerifierKey(key())], witnesses: [] });
const verify = (changed: unknown) => verifyStatementFile(changed, known());

const run = promisify(execFile);
/** Runs `npm run audit` in a process with an empty environment: no database, no server, no settings. */
async function audit(...args: string[]): Promise<{ code: number; stdout: string }> {
  const program = path.join(import.meta.dirname, '../../db/audit/main.ts');
  return run(process.execPath, [program, 'statement', 'verify', ...args], { env: {}, cwd: directory }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: { code: number; stdout: string }) => ({ code: error.code, stdout: error.stdout }),
  );
}

test('the unchanged file verifies in a process without a server, a database and settings', async () => {
  await writeFile(path.join(directory, 'statement.json'), text);
  const { code, stdout } = await audit('statement.json', '--key', key());
  expect([code, stdout]).toEqual([0, expect.stringContaining('Valid: every figure follows from')]);
  expect(stdout).toContain(`${file.statement.totals.cost_nanousd} nano-dollars`);
});

test('a file with one figure changed exits with 1 and names the figure', async () => {
  const statement = structuredClone(file.statement);
  (statement.lines[0] as { cost_nanousd: string }).cost_nanousd += '0';
  await writeFile(path.join(directory, 'wrong.json'), JSON.stringify({ ...file, statement }));
  const { code, stdout } = await audit('wrong.json', '--key', key());
  expect([code, stdout]).toEqual([1, expect.stringContaining('lines[0].cost_nanousd')]);
});

test('every changed digit of the statement, and any of the rest, is refused', () => {
  const passed: string[] = [];
  const statementEnd = text.indexOf('"entries"');
  const digits = [...text.matchAll(/[0-9]/g)].map(({ index }) => index);
  expect(digits.filter((at) => at < statementEnd).length).toBeGreaterThan(200);
  const rest = digits.filter((at) => at > statementEnd);
  const chosen = [
    ...digits.filter((at) => at < statementEnd),
    ...Array.from({ length: 1_500 }, () => rest[Math.floor(Math.random() * rest.length)] as number),
  ];
  for (const at of chosen) {
    const digit = (Number(text[at]) + 1 + Math.floor(Math.random() * 9)) % 10;
    const changed = `${text.slice(0, at)}${digit}${text.slice(at + 1)}`;
    if (changed === text) throw new Error('nothing was changed');
    try {
      verify(JSON.parse(changed));
      passed.push(text.slice(Math.max(0, at - 30), at + 30));
    } catch (error) {
      if (!(error instanceof StatementFileError || error instanceof SyntaxError)) throw error;
    }
  }
  expect(passed).toEqual([]);
});

test('every digit of a small file, with its events, proof and checkpoint, is protected', async () => {
  const client = await connectAs(database, 'relay');
  try {
    const read = await readStatement(
      client,
      { account, end_user: 'EndUser000000001', ...period() },
      { entriesMax: 100 },
    );
    const small = await proveStatement(client, read, null, []);
    const whole = [...statementFileParts(small as StatementFile)].join('');
    verify(JSON.parse(whole));
    const passed: string[] = [];
    for (const { index } of whole.matchAll(/[0-9]/g)) {
      const digit = (Number(whole[index]) + 1 + Math.floor(Math.random() * 9)) % 10;
      try {
        verify(JSON.parse(`${whole.slice(0, index)}${digit}${whole.slice(index + 1)}`));
        passed.push(whole.slice(Math.max(0, index - 30), index + 30));
      } catch (error) {
        if (!(error instanceof StatementFileError || error instanceof SyntaxError)) throw error;
      }
    }
    expect(passed).toEqual([]);
  } finally {
    await client.end();
  }
});

test('a changed figure with a digest of its own, and an invented event, are refused', () => {
  const totals = { ...file.statement.totals, cost_nanousd: '1' };
  const statement = { ...file.statement, totals };
  expect(() => verify({ ...file, statement, digest: digestOf(statement) })).toThrow(
    /totals\.cost_nanousd is "1"/,
  );
  const [first, ...others] = file.entries as [string, ...string[]];
  expect(() => verify({ ...file, entries: [first.replace('Ana', 'Bob'), ...others] })).toThrow(
    /entry or a hash/,
  );
  expect(() => verify({ ...file, entries: [first, first, ...others] })).toThrow(/entry or a hash/);
  expect(() => verify({ ...file, entries: others })).toThrow(/entry or a hash/);
  expect(() => verify({ ...file, entries: ['(0,1,2,3,)', ...others] })).toThrow(/not an event/);
  expect(() => verify({ ...file, invoice_position: 7 })).toThrow(/invoice_position/);
});

test('a statement has lines for each kind of request, corrections, and the balance', () => {
  const { lines, totals, balance, top_ups: topUps } = file.statement;
  expect(lines.map(({ kind, model }) => `${kind} ${model}`)).toEqual([
    'priced claude-opus',
    'priced gpt-5',
    'abandoned gpt-5',
    'unpriced local',
    'correction gpt-5',
  ]);
  const cost = 5n * 1_000_003n * (1n + 2n + 3n + 5n + 6n + 7n + 9n + 10n + 11n) + 77n + 5n - 2n;
  expect(totals).toMatchObject({
    requests: 48,
    rejected: 3,
    estimated: 2,
    estimated_nanousd: '82',
    corrections: 1,
    correction_nanousd: '-2',
    cost_nanousd: String(cost),
    amount: '0.27',
    currency: 'USD',
  });
  expect(topUps).toMatchObject([{ amount_nanousd: '50000000000', reference: 'wire 1' }]);
  expect(balance).toEqual({
    opening_nanousd: '0',
    top_ups_nanousd: '50000000000',
    charges_nanousd: String(cost),
    adjustments_nanousd: '0',
    closing_nanousd: String(50_000_000_000n - cost),
  });
});

test('the statement is the same where the log is searched instead of the projection', async () => {
  const client = await connectAs(database, 'owner');
  try {
    const request = { account, ...period(), group_by: ['key' as const] };
    const projected = await readStatement(client, request, { entriesMax: 10_000 });
    await client.query("begin; update daybook.projection set kept_from = 'infinity' where name = 'requests'");
    const searched = await readStatement(client, request, { entriesMax: 10_000 });
    await client.query('rollback');
    expect(searched.entries).toEqual(projected.entries);
    expect(searched.statement.lines).toEqual(projected.statement.lines);
  } finally {
    await client.end();
  }
});

test('the statement of an end user has their requests alone, and no balance', async () => {
  const client = await connectAs(database, 'relay');
  try {
    const { statement } = await readStatement(client, { account, end_user: 'EndUser000000001', ...period() });
    expect(statement.totals).toMatchObject({ requests: 1, cost_nanousd: '5' });
    expect([statement.balance, statement.top_ups]).toEqual([null, []]);
  } finally {
    await client.end();
  }
});
