import { type BillCollector, currencyOf, EMPTY_LINE } from '#db/reconcile/bill/collector.ts';
import { csvRecords } from '#db/reconcile/bill/csv-records.ts';
import { dayOf, momentOf } from '#db/reconcile/bill/days.ts';
import { parseScaled } from '#db/reconcile/bill/decimal.ts';
import { BillFormatError, quoted } from '#db/reconcile/bill/format-error.ts';
import { BILL_KINDS, type BillKind } from '#db/reconcile/bill/line.ts';
import { partNamed, quantityOf } from '#db/reconcile/bill/units.ts';

/** CSV files of any other provider, whose columns the operator names. Pure. */

/** The columns that are read. `date` is a day in place of `from` and `to`. */
export const CSV_COLUMNS = [
  'date',
  'from',
  'to',
  'kind',
  'model',
  'credential',
  'service_tier',
  'request_id',
  'part',
  'quantity',
  'unit',
  'requests',
  'cost',
  'currency',
] as const;
export type CsvColumn = (typeof CSV_COLUMNS)[number];

/** The header's names of columns that it names differently. */
export type CsvColumns = { readonly [Column in CsvColumn]?: string };

export type CsvTerms = {
  columns: CsvColumns;
  /** In which days begin, and times without an offset are. */
  timeZone: string;
  /** Of lines that don't name one. */
  currency: string;
};

export function readPlainCsv(text: string, collector: BillCollector, terms: CsvTerms): void {
  const { columns, timeZone } = terms;
  for (const { place, cells } of csvRecords(text, Object.values(columns))) {
    const cell = (name: CsvColumn): string | null => cells.get(columns[name] ?? name) || null;
    const currency = currencyOf(place, cell('currency') ?? terms.currency);
    const costText = cell('cost');
    const cost = costText === null ? null : collector.cost(place, costText, currency);
    const requests = wholeOf(cell('requests'), 'requests', place);
    const part = partOf(cell('part'), place);
    const quantity = readQuantity(cell('quantity'), cell('unit'), part, place, collector);
    if (cost === null && requests === null && quantity === null)
      throw new BillFormatError(place, 'It has no cost, quantity or number of requests.');
    collector.add({
      ...EMPTY_LINE,
      place,
      kind: kindIn(cell('kind'), place),
      ...intervalOf(cell('date'), cell('from'), cell('to'), timeZone, place),
      model: cell('model'),
      credential: cell('credential'),
      serviceTier: cell('service_tier'),
      requestId: cell('request_id'),
      part,
      quantity,
      requests: requests ?? (part === 'requests' ? quantity : null),
      cost,
      currency,
    });
  }
}

function intervalOf(
  date: string | null,
  from: string | null,
  to: string | null,
  timeZone: string,
  place: string,
): { from: Date; to: Date } {
  if (date !== null) return dayOf(date, timeZone, place);
  if (from === null) throw new BillFormatError(place, 'It has no date and no "from".');
  const begin = momentOf(from, timeZone, place);
  return { from: begin, to: to === null ? begin : momentOf(to, timeZone, place) };
}

function kindIn(text: string | null, place: string): BillKind {
  const kind = BILL_KINDS.find((each) => each === (text ?? 'usage').toLowerCase());
  if (kind === undefined)
    throw new BillFormatError(place, `The kind ${quoted(text)} is not one of ${BILL_KINDS.join(', ')}.`);
  return kind;
}

function partOf(text: string | null, place: string): ReturnType<typeof partNamed> {
  const part = text === null ? null : partNamed(text);
  if (text !== null && part === null)
    throw new BillFormatError(place, `The part ${quoted(text)} is not known. Leave the cell empty for all.`);
  return part;
}

function readQuantity(
  text: string | null,
  unit: string | null,
  part: ReturnType<typeof partNamed>,
  place: string,
  collector: BillCollector,
): bigint | null {
  if (text === null) return null;
  if (unit === null || part === null) return wholeOf(text, 'quantity', place);
  const quantity = quantityOf(text, unit, part);
  if (quantity === null)
    collector.unsupported(place, `The quantity ${text} ${unit} has no unit of "${part}" here.`);
  return quantity;
}

function wholeOf(text: string | null, name: string, place: string): bigint | null {
  if (text === null) return null;
  const value = parseScaled(text, 0);
  if (value === null || value < 0n)
    throw new BillFormatError(place, `"${name}": ${quoted(text)} is not a whole number.`);
  return value;
}
