import type { EventOf, Placed } from '#db/events/events.ts';
import type { StatementGroup } from '#db/statement/document.ts';

/** The invoices that were issued. Pure. */

export type Invoice = EventOf<'invoice.issued'>;

/** What the lines of an invoice are grouped by: few enough for paper. */
export const INVOICE_GROUPS: readonly StatementGroup[] = ['key'];

/** The invoices that no credit note takes back, in the order of their numbers. */
export function openInvoices(stream: readonly Placed[]): Invoice[] {
  const credited = new Set(
    stream.flatMap(({ event }) => (event.type === 'invoice.credited' ? [event.invoice] : [])),
  );
  return stream.flatMap(({ event }) =>
    event.type === 'invoice.issued' && !credited.has(event.number) ? [event] : [],
  );
}

const DIGITS_MIN = 4;

/** The number as documents show it. */
export const invoiceName = ({ series, number }: Pick<Invoice, 'series' | 'number'>): string =>
  `${series}${String(number).padStart(DIGITS_MIN, '0')}`;
