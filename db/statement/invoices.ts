import type { Event, EventOf, Placed } from '#db/events/events.ts';
import type { StatementGroup, StatementParameters } from '#db/statement/document.ts';

/**
 * Invoices and credit notes. Each correction is billed once: by a credit note
 * of the period in which its call ended, or by the invoice of the period in which it was recorded, whichever
 * is issued first. Pure.
 */

export type Invoice = EventOf<'invoice.issued'>;
/** A credit note over corrections of an invoice's period. */
export type CorrectionNote = EventOf<'invoice.corrected'>;
/** A document with a statement of its own. */
export type BilledDocument = Invoice | CorrectionNote;
export type BillingEvent = BilledDocument | EventOf<'invoice.credited'>;

export const isBillingEvent = (event: Event): event is BillingEvent =>
  event.type === 'invoice.issued' || event.type === 'invoice.corrected' || event.type === 'invoice.credited';

export const billingEventsOf = (stream: readonly Placed[]): BillingEvent[] =>
  stream.map(({ event }) => event).filter(isBillingEvent);

/** What the lines of an invoice are grouped by: few enough for paper. */
export const INVOICE_GROUPS: readonly StatementGroup[] = ['key'];

/** Whose usage is billed: of a whole account, or of one of its end users. */
export type BilledSubject = Pick<StatementParameters, 'account' | 'end_user'>;

export const isBilledTo = (
  { account, end_user: endUser }: Pick<BilledDocument, 'account' | 'end_user'>,
  subject: BilledSubject,
): boolean => account === subject.account && (endUser ?? null) === subject.end_user;

/** The invoices that no credit note takes back, in the order of their numbers. */
export function openInvoices(events: readonly BillingEvent[]): Invoice[] {
  const credited = creditedNumbers(events);
  return events
    .filter((event) => event.type === 'invoice.issued')
    .filter(({ number }) => !credited.has(number));
}

/**
 * The credit notes over corrections that stand: their invoice was not taken back.
 * @param subject whose; a key has no credit notes.
 */
export function liveNotes(
  events: readonly BillingEvent[],
  subject: BilledSubject & { key?: string | null },
): CorrectionNote[] {
  if ((subject.key ?? null) !== null) return [];
  const credited = creditedNumbers(events);
  return events
    .filter((event) => event.type === 'invoice.corrected')
    .filter((note) => !credited.has(note.invoice) && isBilledTo(note, subject));
}

/**
 * Whether a document bills a correction that was recorded after its call's period.
 * @param stream all invoices and credit notes.
 */
export function isBilled(
  stream: readonly Placed[],
  subject: BilledSubject,
  { position, at }: { position: number; at: Date },
): boolean {
  const events = billingEventsOf(stream);
  const isListed = (notes: readonly CorrectionNote[]): boolean =>
    notes.some(({ corrections }) => corrections.includes(position));
  if (isListed(liveNotes(events, subject))) return true;
  return openInvoices(events).some((invoice) => {
    if (!isBilledTo(invoice, subject) || at < new Date(invoice.from) || at >= new Date(invoice.to))
      return false;
    // An invoice leaves out those that a credit note billed when it was issued.
    const before = stream.filter((placed) => placed.position <= invoice.as_of);
    return !isListed(liveNotes(billingEventsOf(before), subject));
  });
}

const creditedNumbers = (events: readonly BillingEvent[]): ReadonlySet<number> =>
  new Set(events.flatMap((event) => (event.type === 'invoice.credited' ? [event.invoice] : [])));

const DIGITS_MIN = 4;

/** The number as documents show it. */
export const invoiceName = ({ series, number }: Pick<Invoice, 'series' | 'number'>): string =>
  `${series}${String(number).padStart(DIGITS_MIN, '0')}`;

/** An issued document, as its statement is shown. */
export type ShownDocument = {
  title: string;
  /** When it was issued. */
  at: string;
  /** Of a credit note: the name of the invoice whose calls it corrects. */
  corrects: string | null;
};

/** The document as PDF and text show it; null: a statement that bills nothing. */
export function documentOf(issued: { document: BilledDocument; at: Date } | null): ShownDocument | null {
  if (issued === null) return null;
  const { document, at } = issued;
  const corrects =
    document.type === 'invoice.issued'
      ? null
      : invoiceName({ series: document.invoice_series, number: document.invoice });
  return { title: documentTitle(document), at: at.toISOString(), corrects };
}

/** The document as a title. A credit note above zero is called a debit note. */
export function documentTitle(document: BilledDocument): string {
  if (document.type === 'invoice.issued') return `Invoice ${invoiceName(document)}`;
  const kind = BigInt(document.total_nanousd) > 0n ? 'Debit note' : 'Credit note';
  return `${kind} ${invoiceName(document)}`;
}
