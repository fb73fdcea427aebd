import { readAnthropicCosts, readAnthropicUsage } from '#db/reconcile/bill/anthropic.ts';
import { BillCollector } from '#db/reconcile/bill/collector.ts';
import { isTimeZone } from '#db/reconcile/bill/days.ts';
import { readFocus } from '#db/reconcile/bill/focus.ts';
import { BillFormatError, quoted } from '#db/reconcile/bill/format-error.ts';
import { parseExactJson } from '#db/reconcile/bill/json.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { readBill } from '#db/reconcile/bill/ndjson.ts';
import { readOpenAiCosts } from '#db/reconcile/bill/openai-costs.ts';
import { readOpenAiUsage } from '#db/reconcile/bill/openai-usage.ts';
import { readOpenRouterActivity, readOpenRouterExport } from '#db/reconcile/bill/openrouter.ts';
import { type CsvColumns, readPlainCsv } from '#db/reconcile/bill/plain-csv.ts';

/** Reads a provider's bill in any of its formats. Pure. */

/** `bill` is the file that `daybook reconcile import --out` writes. */
export const BILL_FORMATS = [
  'bill',
  'openai-costs',
  'openai-usage',
  'anthropic-costs',
  'anthropic-usage',
  'openrouter-activity',
  'openrouter-csv',
  'focus',
  'csv',
] as const;
export type BillFormat = (typeof BILL_FORMATS)[number];

/** What files don't state themselves. */
export type BillTerms = {
  /** Who issued a bill of `focus` or `csv`. */
  provider?: string | undefined;
  /** The time zone of the days and times of `csv`; absent: UTC. */
  timeZone?: string | undefined;
  /** Of lines of `csv` that don't name one; absent: USD. */
  currency?: string | undefined;
  /** The names that the header of `csv` has for columns. */
  columns?: CsvColumns | undefined;
  /** Of `focus`: only charges of this `ServiceName`. */
  service?: string | undefined;
};

/**
 * Parses the text of a bill. JSON is one page of a report, or an array of its pages.
 * @throws {BillFormatError} naming the place that is malformed.
 */
export function parseBill(text: string, format: BillFormat, terms: BillTerms = {}): Bill {
  const collector = new BillCollector();
  const pages = (): unknown[] => {
    const json = parseExactJson(text, 'The file');
    return Array.isArray(json) ? json : [json];
  };
  const about = { timeZone: 'UTC' };
  switch (format) {
    case 'bill':
      return readBill(text);
    case 'openai-costs':
      readOpenAiCosts(pages(), collector);
      return collector.bill({ ...about, source: 'openai', provider: 'openai' });
    case 'openai-usage':
      readOpenAiUsage('usage', pages(), collector);
      return collector.bill({ ...about, source: 'openai', provider: 'openai' });
    case 'anthropic-costs':
      readAnthropicCosts(pages(), collector);
      return collector.bill({ ...about, source: 'anthropic', provider: 'anthropic' });
    case 'anthropic-usage':
      readAnthropicUsage(pages(), collector);
      return collector.bill({ ...about, source: 'anthropic', provider: 'anthropic' });
    case 'openrouter-activity':
      readOpenRouterActivity(pages(), collector);
      return collector.bill({ ...about, source: 'openrouter', provider: 'openrouter' });
    case 'openrouter-csv':
      readOpenRouterExport(text, collector);
      return collector.bill({ ...about, source: 'openrouter', provider: 'openrouter' });
    case 'focus': {
      const issuers = readFocus(text, collector, terms.service ?? null);
      return collector.bill({ ...about, source: 'focus', provider: terms.provider ?? issuers.join(', ') });
    }
    case 'csv': {
      const { provider = '', timeZone = 'UTC', currency = 'USD', columns = {} } = terms;
      if (!isTimeZone(timeZone))
        throw new BillFormatError(
          'The time zone',
          `${quoted(timeZone)} is not a name such as Europe/Vienna.`,
        );
      readPlainCsv(text, collector, { columns, timeZone, currency });
      return collector.bill({ timeZone, source: 'csv', provider });
    }
  }
}

/**
 * One bill of several, such as a provider's report of usage and that of costs.
 * @throws {BillFormatError} when they are not of the same provider and time zone.
 */
export function joinBills([first, ...others]: readonly [Bill, ...Bill[]]): Bill {
  const other = others.find(
    ({ source, provider, timeZone }) =>
      source !== first.source || provider !== first.provider || timeZone !== first.timeZone,
  );
  if (other !== undefined)
    throw new BillFormatError(
      'The files',
      `Bills of ${quoted(first.provider)} and ${quoted(other.provider)} can't be joined: they have not ` +
        'the same provider, source and time zone.',
    );
  const all = [first, ...others];
  return {
    ...first,
    from: new Date(Math.min(...all.map(({ from }) => +from))),
    to: new Date(Math.max(...all.map(({ to }) => +to))),
    lines: all.flatMap(({ lines }) => lines),
    unsupported: all.flatMap(({ unsupported }) => unsupported),
    rounded: all.flatMap(({ rounded }) => rounded),
  };
}
