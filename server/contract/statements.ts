import { z } from 'zod';
import { BillingTerms, STATEMENT_GROUPS } from '#db/events/billing-events.ts';
import type { Statement } from '#db/statement/document.ts';
import type { Change } from '#server/contract/keys.ts';
import { Id, PseudonymText, Time } from '#server/contract/parts.ts';

/** Contract for statements, invoices and their issuer. Amounts are nano-dollars as decimal texts. Pure. */

const StatementFormat = z.enum(['json', 'csv', 'pdf', 'proof']);
export type StatementFormat = z.infer<typeof StatementFormat>;
const Month = z.string().regex(/^\d{4}-(?:0[1-9]|1[0-2])$/, 'must be a month such as 2027-01');

/** `GET /v1/statements` and `GET /api/statements`: a month, or `from` and `to`. */
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
export type StatementReply = { object: 'statement'; digest: string } & Statement;

/** `GET /api/invoices/:number` */
export const InvoiceQuery = z.strictObject({ format: StatementFormat.default('json') });

/** One in `GET /api/invoices`, newest first. Members see those of their account. */
export type InvoiceRow = {
  number: number;
  /** The number as documents show it. */
  name: string;
  kind: 'invoice' | 'credit_note';
  account: string;
  at: string;
  position: number;
  total_nanousd: string;
  /** Of invoices. */
  period: { from: string; to: string; end_user: string | null } | null;
  /** Of an invoice that was taken back: the name of its credit note. Of a credit note: its invoice's. */
  counterpart: string | null;
  /** Of credit notes. */
  reason: string | null;
};
export type InvoiceList = {
  object: 'list';
  data: InvoiceRow[];
  /** The number of older rows that are not included. */
  rows_omitted: number;
};

/**
 * `POST /api/invoices` issues the invoice of a period that is over. The same account and period give the same
 * invoice. 409 `not_allowed` without an issuer, or before the period is over.
 */
export const IssueInvoice = z.strictObject({
  account: Id,
  period: Month,
  end_user: PseudonymText.optional(),
});
/** `POST /api/invoices/:number/credit` takes an invoice back by a credit note. */
export const CreditInvoice = z.strictObject({ reason: z.string().trim().min(1).max(200) });
export type InvoiceChange = Change & { name: string };

/** `PUT /api/issuer`: all terms, in place of those before. */
export const PutIssuer = BillingTerms;
/** `GET /api/issuer` */
export type Issuer = { object: 'issuer'; terms: BillingTerms | null };
