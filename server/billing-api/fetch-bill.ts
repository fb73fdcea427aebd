import { BillCollector } from '#db/reconcile/bill/collector.ts';
import { nextPageOf, parseExactJson } from '#db/reconcile/bill/json.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import type { BillingClient } from '#server/billing-api/billing-client.ts';
import { BillingError } from '#server/billing-api/billing-error.ts';
import { IMPORT_DAYS_MAX, PAGES_MAX, REPORTS_BYTES_MAX } from '#server/billing-api/bounds.ts';
import { type BillingApiName, type Report, reportsOf } from '#server/billing-api/reports.ts';

const DAY_MS = 24 * 60 * 60 * 1_000;

/**
 * Fetches a provider's bill of whole days of UTC: each of its reports, with all pages.
 * @param from until before `to`.
 * @throws {BillingError} when the provider doesn't reply as it must.
 * @throws {BillFormatError} naming the report, page and place that can't be read.
 */
export async function fetchBill(
  client: BillingClient,
  { api, from, to }: { api: BillingApiName; from: Date; to: Date },
): Promise<Bill> {
  if (+from % DAY_MS !== 0 || +to % DAY_MS !== 0 || !(from < to))
    throw new BillingError('A bill is fetched from one midnight of UTC to a later one.');
  if (+to - +from > IMPORT_DAYS_MAX * DAY_MS)
    throw new BillingError(`A bill has at most ${IMPORT_DAYS_MAX} days. Fetch several.`);
  const collector = new BillCollector();
  const budget = { pages: PAGES_MAX, bytes: REPORTS_BYTES_MAX };
  for (const report of reportsOf(api, from, to))
    report.read(await fetchPages(client, report, budget), collector);
  return collector.bill({ source: api, provider: api, timeZone: 'UTC' }, { from, to });
}

async function fetchPages(
  client: BillingClient,
  { path, queries, isPaged }: Report,
  budget: { pages: number; bytes: number },
): Promise<unknown[]> {
  const pages: unknown[] = [];
  for (const query of queries) {
    const cursors = new Set<string>();
    let cursor: string | null = null;
    do {
      const text: string = await client.get(path, cursor === null ? query : [...query, ['page', cursor]]);
      budget.pages -= 1;
      budget.bytes -= text.length;
      const place = `${path} page ${pages.length + 1}`;
      if (budget.pages < 0 || budget.bytes < 0)
        throw new BillingError(`The reports have too many pages (${place}). Fetch a shorter interval.`);
      const page = parseExactJson(text, place);
      pages.push(page);
      cursor = isPaged ? nextPageOf(page, place) : null;
      if (cursor !== null && cursors.has(cursor))
        throw new BillingError(`The provider repeats a page of its report (${place}).`);
      if (cursor !== null) cursors.add(cursor);
    } while (cursor !== null);
  }
  return pages;
}
