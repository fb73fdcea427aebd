import { z } from 'zod';
import type { Statement } from '#db/statement/document.ts';
import { BillingTerms, STATEMENT_GROUPS } from '#db/events/billing-events.ts';
import { ChangeReply, Id, PseudonymText, Time } from '#server/contract/parts.ts';

/** Contract for statements, invoices and their issuer. Amounts are nano-dollars as decimal texts. Pure. */

const StatementFormat = z.enum(['json', 'csv', 'pdf', 'proof']);
export type StatementFormat = z.infer<typeof StatementFormat>;
const Month = z.string().regex(/^\d{4}-(?:0[1-9]|1[0-2])$/, 'must be a month such as 2027-01');

/** `GET /v1/statements` and `GET /api/v1/statements`: a month, or `from` and `to`. */
export const StatementQuery = z.strictObject({
  /** A UTC month. */
  period: Month.optional(),
  /** Inclusive. */
  from: Time.optional(),
  /** Exclusive. */
  to: Time.optional(),
  /** Required of administrators and auditors; others have their own. */
  account: Id.optional(),
  key: Id.optional(),
  end_user: PseudonymText.optional(),
  /** Separated by commas. */
  group_by: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(STATEMENT_GROUPS)))
    .refine((groups) => new Set(groups).size === groups.length, 'names a group twice')
    .optional(),
  format: StatementFormat.default('json'),
});
export type StatementQuery = z.infer<typeof StatementQuery>;

/** A statement as JSON, with the SHA-256 of its canonical text, which an invoice in the log names. */
export const StatementReply = z.looseObject({ object: z.literal('statement'), digest: z.string() });
/** The offline proof of a statement (`format=proof`). */
const StatementProof = z.looseObject({
  statement: z.looseObject({}),
  entries: z.array(z.string()),
  proof: z.array(z.string()),
});
export const StatementDocument = z.union([StatementReply, StatementProof]);
export type StatementReply = Statement & { object: 'statement'; digest: string };

/** `GET /api/v1/invoices/:number` */
export const InvoiceQuery = z.strictObject({ format: StatementFormat.default('json') });

/** One in `GET /api/v1/invoices`, newest first. Members see those of their account. */
export const InvoiceRow = z.object({
  number: z.number(),
  /** The number as documents show it. */
  name: z.string(),
  /** A correction note is a credit note over corrections, which has a statement of its own. */
  kind: z.enum(['invoice', 'correction_note', 'credit_note']),
  account: z.string(),
  at: z.string(),
  position: z.number(),
  total_nanousd: z.string(),
  /** Of invoices and correction notes. */
  period: z.object({ from: z.string(), to: z.string(), end_user: z.string().nullable() }).nullable(),
  /**
   * Of an invoice that was taken back: the name of its credit note. Of a credit or correction note: its
   * invoice's.
   */
  counterpart: z.string().nullable(),
  /** Of credit notes. */
  reason: z.string().nullable(),
});
export type InvoiceRow = z.infer<typeof InvoiceRow>;
export const InvoiceList = z.object({
  object: z.literal('list'),
  data: z.array(InvoiceRow),
  /** The number of older rows that are not included. */
  rows_omitted: z.number(),
});
export type InvoiceList = z.infer<typeof InvoiceList>;

/**
 * `POST /api/v1/invoices` issues the invoice of a period that is over. The same account and period give the
 * same invoice. 409 `not_allowed` without an issuer, or before the period is over.
 */
export const IssueInvoice = z.strictObject({
  account: Id,
  period: Month,
  end_user: PseudonymText.optional(),
});
/** `POST /api/v1/invoices/:number/credit` takes an invoice back by a credit note. */
export const CreditInvoice = z.strictObject({ reason: z.string().trim().min(1).max(200) });
/**
 * `GET /api/v1/invoices/:number/corrections`: the corrections of calls of an invoice that were recorded after
 * its period and that no document bills. `POST` to the same issues their credit note, over at most
 * 1,000 of them; 409 `not_allowed` without one.
 */
export const UnbilledCorrections = z.object({ object: z.literal('corrections'), count: z.number() });
export type UnbilledCorrections = z.infer<typeof UnbilledCorrections>;
export const InvoiceChange = z.object({ ...ChangeReply.shape, name: z.string() });
export type InvoiceChange = z.infer<typeof InvoiceChange>;

/** `PUT /api/v1/issuer`: all terms, in place of those before. */
export const PutIssuer = BillingTerms;
/** `GET /api/v1/issuer` */
export const Issuer = z.object({ object: z.literal('issuer'), terms: BillingTerms.nullable() });
export type Issuer = z.infer<typeof Issuer>;

/**
 * `GET /api/v1/statement-emails?account=`: of an account, for administrators and auditors; members have those
 * of their own.
 */
export const EmailsQuery = z.strictObject({ account: Id.optional() });
export const StatementEmailRow = z.object({
  recipient: z.string(),
  /** The month, such as `2027-01`; null: the document of a number. */
  period: z.string().nullable(),
  invoice: z.number().nullable(),
  monthly: z.boolean(),
  state: z.enum(['waiting', 'sent', 'skipped', 'failed']),
  created_at: z.string(),
  ended_at: z.string().nullable(),
  attempts: z.number(),
  /** The mail server's status of the newest attempt; `fault` says why it is missing. */
  status: z.number().nullable(),
  fault: z.string().nullable(),
});
export type StatementEmailRow = z.infer<typeof StatementEmailRow>;
export const StatementEmails = z.object({
  object: z.literal('statement_emails'),
  /** Whether statements are sent monthly, on a day of the next month. */
  schedule: z.object({ enabled: z.boolean(), day: z.number() }),
  /** Whether this server has a mail server; a worker on another machine has settings of its own. */
  has_mail_server: z.boolean(),
  recipients: z.array(z.string()),
  /** The newest emails, first the newest one. */
  data: z.array(StatementEmailRow),
});
export type StatementEmails = z.infer<typeof StatementEmails>;
/** `PUT /api/v1/statement-emails/schedule` */
export const PutEmailSchedule = z.strictObject({ enabled: z.boolean(), day: z.int().min(1).max(28) });
/** `PUT /api/v1/statement-emails/recipients`: all of an account, in place of those before. */
export const PutRecipients = z.strictObject({
  account: Id,
  recipients: z.array(z.string().max(300)).max(20),
});
/** `POST /api/v1/statement-emails`: sends the document of a month or a number to all recipients now. */
export const SendStatement = z.union([
  z.strictObject({ account: Id, period: Month }),
  z.strictObject({ invoice: z.int().min(1) }),
]);
export const SentStatement = z.object({ object: z.literal('statement_emails'), count: z.number() });
export type SentStatement = z.infer<typeof SentStatement>;
