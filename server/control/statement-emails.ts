import { sql } from 'kysely';
import type { Client, ClientBase } from 'pg';
import { countOf, db, onlyRowOf, readClock, rowOf, rowsOf } from '#db/schema/query.ts';
import { type Month, monthText } from '#db/statement/email-schedule.ts';
import { EMAILS_LISTED_MAX, RECIPIENTS_MAX } from '#server/control/bounds.ts';
import { Email } from '#server/contract/session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';

/**
 * Statements by email, as the command line and the dashboard manage them: the monthly schedule,
 * the recipients of each account, and documents that are sent on demand. No part is an event, since addresses
 * must be erasable.
 */

/** `day`: of the next month. `on_since`: months that end later are sent; null: none. */
export type EmailSchedule = { day: number; on_since: Date | null };

export type StatementEmail = {
  account: string;
  email: string;
  /** Such as `2027-01`; null: the document of a number. */
  month: string | null;
  invoice: number | null;
  is_monthly: boolean;
  state: 'waiting' | 'sent' | 'skipped' | 'failed';
  created_at: Date;
  ended_at: Date | null;
  attempts: number;
  /** Of the newest attempt. */
  status: number | null;
  fault: string | null;
};

const DAY_DEFAULT = 1;

export async function readEmailSchedule(client: ClientBase): Promise<EmailSchedule> {
  const schedule = db.selectFrom('daybook.statement_schedule').select(['day', 'on_since']);
  return (await rowOf(client, schedule)) ?? { day: DAY_DEFAULT, on_since: null };
}

/**
 * Turns monthly emails on or off. Turning them off drops those that are not sent yet. While they stay on, the
 * months to send stay the same.
 * @param day of the next month, from 1 to 28.
 */
export async function setEmailSchedule(
  client: ClientBase,
  { isOn, day }: { isOn: boolean; day: number },
): Promise<EmailSchedule> {
  if (!Number.isInteger(day) || day < 1 || day > 28)
    throw new DecisionError('invalid', 'The day must be from 1 to 28.');
  const now = sql<Date>`statement_timestamp()`;
  const set = await onlyRowOf(
    client,
    db
      .insertInto('daybook.statement_schedule')
      .values({ only_row: true, day, on_since: isOn ? now : null })
      .onConflict((on) =>
        on.column('only_row').doUpdateSet({
          day,
          on_since: isOn ? sql<Date>`coalesce(statement_schedule.on_since, ${now})` : null,
        }),
      )
      .returning(['day', 'on_since']),
  );
  if (!isOn)
    await countOf(
      client,
      db.deleteFrom('daybook.statement_email').where('is_monthly', '=', true).where('state', '=', 'waiting'),
    );
  return set;
}

/** The recipients of an account, in alphabetical order. */
export async function listRecipients(client: ClientBase, account: string): Promise<string[]> {
  const recipients = db
    .selectFrom('daybook.statement_recipient')
    .select('email')
    .where('account', '=', account)
    .orderBy('email');
  return (await rowsOf(client, recipients)).map(({ email }) => email);
}

/**
 * Sets the recipients of an account. Everything that was recorded of a removed one is erased.
 * @throws {DecisionError} when an address is invalid, or there are too many.
 */
export async function setRecipients(
  client: Client,
  account: string,
  addresses: readonly string[],
): Promise<string[]> {
  const emails = [...new Set(addresses.map(parseEmail))].toSorted();
  if (emails.length > RECIPIENTS_MAX)
    throw new DecisionError('invalid', `An account has at most ${RECIPIENTS_MAX} recipients.`);
  const own = db.deleteFrom('daybook.statement_recipient').where('account', '=', account);
  await inTransaction(client, async () => {
    await countOf(client, emails.length === 0 ? own : own.where('email', 'not in', emails));
    if (emails.length === 0) return;
    const added = emails.map((email) => ({ account, email }));
    await countOf(
      client,
      db
        .insertInto('daybook.statement_recipient')
        .values(added)
        .onConflict((on) => on.columns(['account', 'email']).doNothing()),
    );
  });
  return emails;
}

function parseEmail(text: string): string {
  const parsed = Email.safeParse(text);
  if (!parsed.success)
    throw new DecisionError('invalid', 'A recipient must be an email such as billing@example.com.');
  return parsed.data;
}

/**
 * Sends a document to all recipients of an account now, whether it was sent before or not.
 * @param wanted a month that is over, or the number of an invoice or a credit note.
 * @returns the number of emails.
 * @throws {DecisionError} when the account has no recipients, or the month is not over.
 */
export async function sendStatementEmails(
  client: ClientBase,
  account: string,
  wanted: { month: Month } | { invoice: number },
): Promise<number> {
  if ('month' in wanted && (await readClock(client)) < wanted.month.to)
    throw new DecisionError('not_allowed', `The month ends at ${wanted.month.to.toISOString()}.`);
  const month = 'month' in wanted ? monthText(wanted.month) : null;
  const invoice = 'invoice' in wanted ? wanted.invoice : null;
  const recipients = db
    .selectFrom('daybook.statement_recipient')
    .select(['account', 'email'])
    .select([
      sql<string>`${month}::text`.as('month'),
      sql<number>`${invoice}::integer`.as('invoice'),
      sql<boolean>`false`.as('is_monthly'),
    ])
    .where('account', '=', account);
  const count = await countOf(
    client,
    db
      .insertInto('daybook.statement_email')
      .columns(['account', 'email', 'month', 'invoice', 'is_monthly'])
      .expression(recipients),
  );
  if (count === 0)
    throw new DecisionError(
      'not_allowed',
      'The account has no recipients. Set them: daybook statement-email recipients ACCOUNT EMAIL …',
    );
  await onlyRowOf(client, db.selectNoFrom(sql<boolean>`daybook.queue_statement_emails()`.as('queued')));
  return count;
}

/** The newest emails, first the newest one. @param account null: of all. */
export async function listStatementEmails(
  client: ClientBase,
  account: string | null,
): Promise<StatementEmail[]> {
  let emails = db
    .selectFrom('daybook.statement_email')
    .select(['account', 'email', 'invoice', 'is_monthly', 'state', 'created_at', 'ended_at'])
    .select(['attempts', 'status', 'fault', 'month'])
    .orderBy('id', 'desc')
    .limit(EMAILS_LISTED_MAX);
  if (account !== null) emails = emails.where('account', '=', account);
  return rowsOf(client, emails);
}
