import { setTimeout as wait } from 'node:timers/promises';
import type { Selectable } from 'kysely';
import type { ClientBase } from 'pg';
import { raiseAlerts } from '#db/alerts/alert-log.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { ArchivedError } from '#db/log/read.ts';
import { readClock } from '#db/schema/query.ts';
import type { StatementEmailTable, StatementScheduleTable } from '#db/schema/tables.ts';
import { digestOf } from '#db/statement/canonical.ts';
import {
  type EmailResult,
  monthOf,
  monthText,
  newestDueMonth,
  pauseAfter,
} from '#db/statement/email-schedule.ts';
import { statementFileParts } from '#db/statement/file.ts';
import {
  billingEventsOf,
  documentOf,
  INVOICE_GROUPS,
  invoiceName,
  isBilledTo,
  openInvoices,
} from '#db/statement/invoices.ts';
import { findIssued, type IssuedDocument, readBilled } from '#db/statement/issued.ts';
import type { PdfInput } from '#db/statement/pdf/layout.ts';
import { renderPdf } from '#db/statement/pdf/render.ts';
import { proveStatement } from '#db/statement/prove.ts';
import {
  readInvoicesOf,
  type ReadStatement,
  readStatement,
  type StatementBounds,
  TooManyEventsError,
} from '#db/statement/read.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { type Email, type MailServer, sendEmail } from '../mail.ts';
import { statementEmailOf } from '../messages/statement-email.ts';

/**
 * Sends statements by email. A row for each document and recipient is the claim: a worker takes the row with
 * its next attempt, and another one takes it again only after the time in which the first has ended or died.
 * So each email is sent once, unless a worker dies between the mail server's reply and its record, or the
 * reply is lost: then it is sent again, with the same `Message-ID`.
 */

/** Of a query: some read a part of the log. */
export const EMAIL_QUERY_TIMEOUT_MS = 60_000;
/** Of the computation of a statement, of all its queries. */
const READ_TIMEOUT_MS = 120_000;
const SEND_TIMEOUT_MS = 30_000;
const RENDER_PAUSE_MS = 200;
/** When a claimed attempt counts as lost: more than its parts can take. */
const CLAIM_S = 300;
/** The time of a run; the rest is left to the next minute's run. */
const RUN_MS_MAX = 50_000;
/** A larger proof is not attached: mail servers take messages of 10 to 25 MB, and base64 adds a third. */
const PROOF_EVENTS_MAX = 20_000;
const PROOF_BYTES_MAX = 6 * 1024 * 1024;

/** The rows of a month are created once, by the first worker that finds it due. */
const SCHEDULE = 'select day from daybook.statement_schedule where on_since is not null';
const PLAN = `with due as (
    update daybook.statement_schedule set planned = $1::text
      where on_since < $2 and (planned is null or planned < $1::text) returning 1)
  insert into daybook.statement_email (account, email, month, is_monthly)
    select r.account, r.email, $1::text, true from daybook.statement_recipient r, due
      where r.added_at < $2
    on conflict do nothing`;
const CLAIM = `update daybook.statement_email
    set attempts = attempts + 1, due_at = clock_timestamp() + $1 * interval '1 second'
    where id = (select id from daybook.statement_email
      where state = 'waiting' and due_at <= statement_timestamp()
      order by due_at limit 1 for update skip locked)
    returning id, account, email, month, invoice, attempts`;
const ENDED = `update daybook.statement_email
    set state = $2, ended_at = clock_timestamp(), status = $3, fault = $4
    where id = $1 and state = 'waiting'`;
/** Not where another worker has taken the row meanwhile. */
const AGAIN = `update daybook.statement_email
    set due_at = clock_timestamp() + $2 * interval '1 second', status = $3, fault = $4
    where id = $1 and state = 'waiting' and attempts = $5`;

type Claimed = Pick<
  Selectable<StatementEmailTable>,
  'id' | 'account' | 'email' | 'month' | 'invoice' | 'attempts'
>;

export type EmailOptions = {
  client: ClientBase;
  mailServer: MailServer | null;
  publicUrl: string | null;
  log: Pick<Logger, 'warn'>;
  /** Aborts an attempt while the worker ends; the row is taken again later. */
  signal: AbortSignal;
};

/** Creates the emails of a month that is due, and sends all that are. */
export async function emailStatements(options: EmailOptions): Promise<void> {
  const { client, mailServer, signal } = options;
  // Another worker may have a mail server. Emails wait until one has.
  if (mailServer === null) return;
  await planMonth(client);
  const endMs = performance.now() + RUN_MS_MAX;
  let newest: Newest = null;
  while (!signal.aborted && performance.now() < endMs) {
    const { rows } = await client.query<Claimed>(CLAIM, [CLAIM_S]);
    const [claimed] = rows;
    if (claimed === undefined) return;
    newest = await attempt(claimed, { ...options, mailServer }, newest);
  }
}

async function planMonth(client: ClientBase): Promise<void> {
  const { rows } = await client.query<Pick<Selectable<StatementScheduleTable>, 'day'>>(SCHEDULE);
  const [schedule] = rows;
  if (schedule === undefined) return;
  const month = newestDueMonth(await readClock(client), schedule.day);
  await client.query(PLAN, [monthText(month), month.to]);
}

type Sending = EmailOptions & { mailServer: MailServer };

/** A document as its recipients get it; `skipped`: there is nothing to state. */
type Composed = { message: Pick<Email, 'subject' | 'text' | 'attachments'> } | { fault: string } | 'skipped';

/** Recipients of a document follow one another, so that it is made once for them. */
type Newest = { subject: string; composed: Composed } | null;

const subjectOf = ({ account, month, invoice }: Claimed): string => `${account}/${month ?? invoice}`;

/** Makes one attempt. @returns the document, for the next recipient. */
async function attempt(claimed: Claimed, options: Sending, newest: Newest): Promise<Newest> {
  const { client, log, mailServer, signal } = options;
  const subject = subjectOf(claimed);
  let composed: Composed | null = newest?.subject === subject ? newest.composed : null;
  let result: EmailResult | 'skipped';
  try {
    composed ??= await compose(claimed, options);
    result =
      typeof composed === 'object' && 'message' in composed
        ? await sendEmail(mailServer, {
            ...composed.message,
            ...{ to: claimed.email, id: claimed.id, timeoutMs: SEND_TIMEOUT_MS, signal },
          })
        : composed;
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ statement_email: claimed.id, ...errorFields(error) }, 'statement could not be sent by email');
    result = { fault: faultOf(error) };
  }
  await record(client, claimed, result);
  return composed === null ? null : { subject, composed };
}

async function compose(claimed: Claimed, { client, publicUrl, signal }: Sending): Promise<Composed> {
  const found = await findDocument(client, claimed, signal);
  if (found === null) return 'skipped';
  const { read, issued } = found;
  const { statement } = read;
  const document = documentOf(issued);
  const pdf = await renderWhenFree({ statement, digest: digestOf(statement), document });
  const proof = read.entries.length === 0 ? null : await proofOf(client, read, issued);
  if (proof === 'uncovered') return { fault: 'no_checkpoint' };
  const name = fileName(claimed, issued);
  const files = { pdf: `${name}.pdf`, proof: proof === null ? null : `${name}.proof.json` };
  const attachments = [
    { filename: files.pdf, content: pdf, contentType: 'application/pdf' },
    ...(proof === null || files.proof === null
      ? []
      : [{ filename: files.proof, content: proof, contentType: 'application/json' }]),
  ];
  return { message: { ...statementEmailOf({ statement, document, files, publicUrl }), attachments } };
}

/** Waits while this process lays out as many documents as it may. */
async function renderWhenFree(input: PdfInput): Promise<Buffer> {
  for (;;) {
    const pdf = await renderPdf(input);
    if (pdf !== null) return pdf;
    await wait(RENDER_PAUSE_MS);
  }
}

type Found = { read: ReadStatement; issued: IssuedDocument | null };

/** The document of an email; null: a month without anything to state. */
async function findDocument(
  client: ClientBase,
  claimed: Claimed,
  signal: AbortSignal,
): Promise<Found | null> {
  const { account, month, invoice } = claimed;
  if (month === null) {
    const issued = await findIssued(client, invoice ?? 0);
    if (issued === null || issued.document.account !== account) return null;
    return { issued, read: await bounded(signal, (bounds) => readBilled(client, issued.document, bounds)) };
  }
  const { from, to } = monthOf(month);
  const events = (await readInvoicesOf(client, account)).map(({ placed }) => placed);
  const own = openInvoices(billingEventsOf(events)).find(
    (each) =>
      isBilledTo(each, { account, end_user: null }) &&
      each.from === from.toISOString() &&
      each.to === to.toISOString(),
  );
  const issued = own === undefined ? null : await findIssued(client, own.number);
  if (issued !== null)
    return { issued, read: await bounded(signal, (bounds) => readBilled(client, issued.document, bounds)) };
  const read = await bounded(signal, (bounds) =>
    readStatement(client, { account, from, to, group_by: INVOICE_GROUPS }, bounds),
  );
  return isEmpty(read) ? null : { read, issued: null };
}

/** With the events where they fit into an email, and without them where they are too many. */
async function bounded(
  signal: AbortSignal,
  read: (bounds: StatementBounds) => Promise<ReadStatement>,
): Promise<ReadStatement> {
  const ending = AbortSignal.any([signal, AbortSignal.timeout(READ_TIMEOUT_MS)]);
  const pause = async (): Promise<void> => ending.throwIfAborted();
  try {
    return await read({ entriesMax: PROOF_EVENTS_MAX, pause });
  } catch (error) {
    if (error instanceof TooManyEventsError) return read({ entriesMax: 0, pause });
    throw error;
  }
}

function isEmpty({ statement: { lines, totals, top_ups: topUps, adjustments } }: ReadStatement): boolean {
  return lines.length + totals.rejected + topUps.length + adjustments.length === 0;
}

/** The file with the proof; null where it is too large. */
async function proofOf(
  client: ClientBase,
  read: ReadStatement,
  issued: IssuedDocument | null,
): Promise<Buffer | null | 'uncovered'> {
  const file = await proveStatement(client, read, issued?.entry ?? null, []);
  if (file === null) return 'uncovered';
  const bytes = Buffer.from([...statementFileParts(file)].join(''));
  return bytes.length > PROOF_BYTES_MAX ? null : bytes;
}

function fileName({ month }: Claimed, issued: IssuedDocument | null): string {
  if (issued === null) return `statement-${month}`;
  // A series may have a slash, which no file name has.
  return invoiceName(issued.document).replaceAll('/', '-');
}

async function record(client: ClientBase, claimed: Claimed, result: EmailResult | 'skipped'): Promise<void> {
  const { id, attempts } = claimed;
  if (result === 'skipped') return void (await client.query(ENDED, [id, 'skipped', null, null]));
  const status = 'status' in result ? result.status : null;
  const fault = 'status' in result ? null : result.fault;
  if (status !== null && status >= 200 && status < 300)
    return void (await client.query(ENDED, [id, 'sent', status, null]));
  const pauseS = pauseAfter(attempts, result);
  if (pauseS !== null) return void (await client.query(AGAIN, [id, pauseS, status, fault, attempts]));
  // First the alert, which is raised once, so that a worker that dies in between loses none.
  await raiseAlerts(client, [
    {
      topic: `statement_email_failed/${id}`,
      ordinal: 1,
      kind: 'statement_email_failed',
      state: 'raised',
      account: claimed.account,
      details: {
        period: claimed.month,
        invoice: claimed.invoice,
        reason: fault ?? String(status),
        attempts,
      },
    },
  ]);
  await client.query(ENDED, [id, 'failed', status, fault]);
}

function faultOf(error: unknown): string {
  if (error instanceof ArchivedError || error instanceof MissingHashesError) return 'events_archived';
  if (error instanceof DOMException && error.name === 'TimeoutError') return 'statement_timed_out';
  return 'statement_failed';
}
