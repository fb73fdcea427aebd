import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createLogger } from '#db/diagnostics/logger.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { verifyStatementFile } from '#db/statement/file.ts';
import { emailStatements } from '../../worker/tasks/email-statements.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs, openLivingWriter, type Writer } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { attachmentOf, type MailServer, startMailServer } from '../support/servers/mail-server.ts';
import { proveAccount, writeBilledAccount } from '../support/statement.ts';

/** Statements by email: the command line, workers, and a mail server on a real socket. */

const WITHIN_MS = 30_000;
const NAME = 'Ana’s Café';
const RECIPIENTS = ['a@a.example', 'b@a.example', 'c@a.example'];

let database: TestDatabase;
let writer: Writer;
let directory: string;
let account: string;
let owner: Client;
let mail: MailServer;

const line = commandLine(() => ({ DATABASE_URL: database.url, LOG_LEVEL: 'silent' }));
const log = createLogger('silent', {});

beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  writer = await openLivingWriter(database);
  mail = await startMailServer();
  account = await writeBilledAccount(writer, NAME);
  await proveAccount(database, account, directory);
  owner = await connectAs(database, 'owner');
  await line.text('statement-email', 'recipients', NAME, ...RECIPIENTS);
});
afterAll(async () => {
  await closeClient(owner);
  await mail?.[Symbol.asyncDispose]();
  await writer?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});
afterEach(async () => {
  mail.mails.length = 0;
  mail.reject = null;
  mail.isSilent = false;
  await owner.query('delete from daybook.statement_email; delete from daybook.statement_schedule');
});

/** Runs the task as a worker. */
async function work(signal = new AbortController().signal): Promise<void> {
  const client = await connectAs(database, 'worker');
  try {
    const mailServer = { url: mail.url, from: 'billing@b.example' };
    await emailStatements({ client, mailServer, publicUrl: 'https://b.example', log, signal });
  } finally {
    await closeClient(client);
  }
}

/** Creates the emails of the current month, which has the calls, as the schedule does after its end. */
const planCurrent = () =>
  owner.query(`insert into daybook.statement_email (account, email, month, is_monthly)
    select account, email, to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM'), true
      from daybook.statement_recipient`);
const states = async () =>
  (
    await owner.query<{ state: string; attempts: number; result: string | null }>(
      `select state, attempts, coalesce(fault, status::text) as result
        from daybook.statement_email order by email, id`,
    )
  ).rows.map(({ state, attempts, result }) => `${state} ${attempts} ${result}`);
const messageId = ({ text }: MailServer['mails'][number]) => /^Message-ID: (.+)$/im.exec(text)?.[1];

test('each recipient gets the statement of a month once, with several workers at once', async () => {
  await planCurrent();
  await Promise.all([1, 2, 3, 4].map(() => work()));
  expect(mail.mails.map(({ to }) => to).toSorted()).toEqual(RECIPIENTS);
  expect(await states()).toEqual(RECIPIENTS.map(() => 'sent 1 250'));
  await work();
  expect(mail.mails).toHaveLength(RECIPIENTS.length);
});

test('the email has the PDF and the file that verifies without a server', async () => {
  await planCurrent();
  await work();
  const month = new Date().toISOString().slice(0, 7);
  const [first] = mail.mails as [MailServer['mails'][number]];
  expect(attachmentOf(first, `statement-${month}.pdf`)?.subarray(0, 5).toString()).toBe('%PDF-');
  const proof = attachmentOf(first, `statement-${month}.proof.json`)?.toString() ?? '';
  const verified = verifyStatementFile(JSON.parse(proof), { keys: [], witnesses: [] });
  expect(verified.statement).toMatchObject({ account, account_name: NAME });
  expect(first.text.replaceAll('=\n', '')).toContain(`Amount: ${verified.statement.totals.amount} USD`);
});

test('a month is planned once, for recipients and a schedule from before its end', async () => {
  await line.text('statement-email', 'on', '--day', '1');
  await work();
  // Turned on in this month: the last one is not sent.
  expect(await states()).toEqual([]);
  await owner.query("update daybook.statement_schedule set on_since = now() - interval '62 days'");
  await owner.query(`update daybook.statement_recipient set added_at = now() - interval '62 days'
    where email <> 'c@a.example'`);
  await Promise.all([1, 2, 3].map(() => work()));
  // The account had no calls in it.
  expect(await states()).toEqual(['skipped 1 null', 'skipped 1 null']);
  await owner.query("update daybook.statement_recipient set added_at = now() - interval '62 days'");
  await work();
  expect(await states()).toHaveLength(2);
  expect(mail.mails).toEqual([]);
  expect(await line.text('statement-email', 'off')).toContain('off');
});

test('an attempt that its worker did not survive is repeated under the same Message-ID', async () => {
  await planCurrent();
  await owner.query("delete from daybook.statement_email where email <> 'a@a.example'");
  mail.isSilent = true;
  const ending = new AbortController();
  const dying = work(ending.signal).catch((error: unknown) => error);
  await until(
    async () => mail.mails.length,
    (count) => count === 1,
    'the mail',
    WITHIN_MS,
  );
  ending.abort();
  await dying;
  mail.isSilent = false;
  // The attempt may still run, so that no other worker takes it.
  await work();
  expect([await states(), mail.mails.length]).toEqual([['waiting 1 null'], 1]);
  await owner.query('update daybook.statement_email set due_at = now()');
  await work();
  expect(await states()).toEqual(['sent 2 250']);
  expect(new Set(mail.mails.map(messageId)).size).toBe(1);
});

test('a rejected recipient raises an alert, and a full mailbox is tried again', async () => {
  await planCurrent();
  mail.reject = { to: 'a@a.example', reply: '550 no such user' };
  await work();
  expect(await states()).toEqual(['failed 1 550', 'sent 1 250', 'sent 1 250']);
  const raised = await owner.query<{ account: string; details: { reason: string; period: string } }>(
    "select account, details from daybook.alert where kind = 'statement_email_failed'",
  );
  expect(raised.rows).toMatchObject([{ account, details: { reason: '550' } }]);
  expect(JSON.stringify(raised.rows)).not.toContain('a.example');

  await owner.query('delete from daybook.statement_email');
  await planCurrent();
  mail.reject = { to: 'b@a.example', reply: '452 mailbox full' };
  await work();
  expect(await states()).toEqual(['sent 1 250', 'waiting 1 452', 'sent 1 250']);
  await owner.query(
    "update daybook.statement_email set due_at = now(), attempts = 8 where state = 'waiting'",
  );
  await work();
  expect((await states())[1]).toMatch(/^failed 9 /);
  expect((await owner.query('select from daybook.alert')).rowCount).toBe(2);
});

test('a document is sent again on demand, and one of another account is not', async () => {
  const month = new Date().toISOString().slice(0, 7);
  const early = await line.daybook('statement-email', 'send', NAME, '--month', month);
  expect([early.code, early.stderr]).toEqual([1, expect.stringContaining('The month ends')]);
  const over = ['statement-email', 'send', NAME, '--month', '2020-01'];
  expect(await line.text(...over)).toContain('3 emails queued');
  expect(await line.text(...over)).toContain('3 emails queued');
  await work();
  expect(await states()).toEqual(Array.from({ length: 6 }, () => 'skipped 1 null'));
  const unknown = await line.daybook('statement-email', 'send', NAME, '--invoice', '7');
  expect([unknown.code, unknown.stderr]).toEqual([3, expect.stringContaining('no invoice')]);
});

test('removing a recipient erases its address everywhere', async () => {
  await planCurrent();
  await work();
  await line.text('statement-email', 'recipients', NAME, 'a@a.example');
  expect(await states()).toEqual(['sent 1 250']);
  for (const table of ['statement_email', 'statement_recipient', 'alert'])
    expect(
      (await owner.query(`select t::text from daybook.${table} t where t::text like '%b@a.example%'`)).rows,
    ).toEqual([]);
  await line.text('statement-email', 'recipients', NAME, ...RECIPIENTS);
});
