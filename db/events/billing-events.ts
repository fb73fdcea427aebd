import { z } from 'zod';
import { Control, Count, Digest, Id, Pseudonym, Time } from '#db/events/parts.ts';

/** What statements and invoices say of their issuer, and the invoices that were issued. Pure. */

const Line = z
  .string()
  .trim()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}]*$/u, 'must be one line');
const ADDRESS_LINES_MAX = 8;
/** Before the number of an invoice: `INV-2026-`. */
const Series = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9./_-]{0,19}$/);
/** A sum of money in nano-dollars. It may exceed the integers that a JSON number has exactly. */
const Sum = z.string().regex(/^(?:0|-?[1-9]\d{0,29})$/);

/** The currency that amounts are shown in, beside the nano-dollars that they are charged in. */
export const DisplayCurrency = z.strictObject({
  code: z.string().regex(/^[A-Z]{3}$/),
  /** Units for a dollar, as a decimal number. */
  rate: z.string().regex(/^(?:0|[1-9]\d{0,8})(?:\.\d{1,9})?$/),
  /** Decimal places of a total. */
  digits: z.int().min(0).max(6),
});
export type DisplayCurrency = z.infer<typeof DisplayCurrency>;

/** The issuer of statements and invoices, as they print it. */
export const BillingTerms = z.strictObject({
  name: Line,
  address: z.array(Line).max(ADDRESS_LINES_MAX),
  /** A tax number, or a note on taxes. */
  tax: Line.optional(),
  series: Series,
  currency: DisplayCurrency.optional(),
});
export type BillingTerms = z.infer<typeof BillingTerms>;

/** The issuer changed; all terms, in place of those before. */
export const BillingChanged = Control.extend({ type: z.literal('billing.changed'), terms: BillingTerms });

/** What the lines of a statement are grouped by, besides their kind and model. */
export const STATEMENT_GROUPS = ['day', 'key', 'end_user'] as const;

/**
 * An invoice: the statement that it bills, and that one's digest. Its number is its version in the stream of
 * invoices, so that numbers have no gaps.
 */
export const InvoiceIssued = Control.extend({
  type: z.literal('invoice.issued'),
  account: Id,
  end_user: Pseudonym.optional(),
  series: Series,
  number: z.int().min(1),
  /** The period of the statement: `from` is inclusive, `to` exclusive. */
  from: Time,
  to: Time,
  /** The position up to which names and the issuer were read. */
  as_of: Count,
  total_nanousd: Sum,
  /** The prepaid balance at the end of the period; absent: the account isn't prepaid. */
  closing_balance_nanousd: Sum.optional(),
  /** SHA-256 of the canonical statement. */
  digest: Digest,
});

/** Corrections of one credit note: more are several notes. */
export const CORRECTIONS_PER_NOTE_MAX = 1_000;

/**
 * A credit note over corrections that were recorded after the period of an invoice and concern its calls. Its
 * total is above zero where the calls cost more than was invoiced: a debit note. It has a number of the same
 * series.
 */
export const InvoiceCorrected = Control.extend({
  type: z.literal('invoice.corrected'),
  account: Id,
  end_user: Pseudonym.optional(),
  series: Series,
  number: z.int().min(1),
  /** The number of the invoice, its series and its period. */
  invoice: z.int().min(1),
  invoice_series: Series,
  from: Time,
  to: Time,
  /** The position up to which names and the issuer were read. */
  as_of: Count,
  /** The positions of the corrections, in the order of the log. */
  corrections: z.array(z.int().positive()).min(1).max(CORRECTIONS_PER_NOTE_MAX),
  total_nanousd: Sum,
  /** SHA-256 of the canonical statement of these corrections. */
  digest: Digest,
});

/**
 * A credit note that takes a whole invoice back, with the credit notes over its corrections. It has a number
 * of the same series.
 */
export const InvoiceCredited = Control.extend({
  type: z.literal('invoice.credited'),
  account: Id,
  series: Series,
  number: z.int().min(1),
  /** The number of the invoice. */
  invoice: z.int().min(1),
  total_nanousd: Sum,
  reason: z.string().trim().min(1).max(200),
});
