import type { EventOf, Placed } from '#db/events/events.ts';

/** The invoices that were issued. Pure. */

/** The invoices that no credit note takes back, in the order of their numbers. */
export function openInvoices(stream: readonly Placed[]): EventOf<'invoice.issued'>[] {
  const credited = new Set(
    stream.flatMap(({ event }) => (event.type === 'invoice.credited' ? [event.invoice] : [])),
  );
  return stream.flatMap(({ event }) =>
    event.type === 'invoice.issued' && !credited.has(event.number) ? [event] : [],
  );
}

/** The number as documents show it. */
export const invoiceName = ({ series, number }: { series: string; number: number }): string =>
  `${series}${String(number).padStart(4, '0')}`;
