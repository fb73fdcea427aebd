import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PricedPart } from '#db/pricing/parts.ts';
import type { Bill, BillLine } from '#db/reconcile/bill/line.ts';
import { parseBill } from '#db/reconcile/bill/read-bill.ts';
import { openBillingClient } from '#server/billing-api/billing-client.ts';
import { fetchBill } from '#server/billing-api/fetch-bill.ts';
import type { BillingApiName } from '#server/billing-api/reports.ts';
import { arbitraryLedger, LEDGER_DAYS, LEDGER_FROM } from '../support/billing/arbitrary-ledger.ts';
import { type BillingProvider, startBillingProvider } from '../support/billing/billing-provider.ts';
import { costOf, DAY_MS, dayStart, type LedgerEntry, partsOf } from '../support/billing/ledger.ts';
import { openRouterExport } from '../support/billing/openrouter-reports.ts';

/** Bills that are fetched over real connections equal the provider's ledger, or are errors. */

const to = new Date(+LEDGER_FROM + LEDGER_DAYS * DAY_MS);

async function fetched(provider: BillingProvider, api: BillingApiName, secret = provider.adminKey) {
  const waited: number[] = [];
  await using client = openBillingClient({
    api,
    baseUrl: `${provider.url}${api === 'openrouter' ? '/api/v1' : '/v1'}`,
    network: 'private',
    secret,
    wait: async (ms) => void waited.push(ms),
  });
  return { bill: await fetchBill(client, { api, from: LEDGER_FROM, to }), waited };
}

type Sums = Record<string, bigint>;
function sumBy<T>(items: Iterable<T>, keyOf: (item: T) => string, valueOf: (item: T) => bigint): Sums {
  const sums: Sums = {};
  for (const item of items) {
    const value = valueOf(item);
    if (value !== 0n) sums[keyOf(item)] = (sums[keyOf(item)] ?? 0n) + value;
  }
  return Object.fromEntries(Object.entries(sums).filter(([, sum]) => sum !== 0n));
}

/** Tokens of the ledger by part, in the parts that the provider states. */
const ledgerUsage = (
  ledger: readonly LedgerEntry[],
  keyOf: (entry: LedgerEntry) => string,
  as: Parts,
): Sums =>
  sumBy(
    ledger.flatMap((entry) => partsOf(entry).map(([part, { quantity }]) => ({ entry, part, quantity }))),
    ({ entry, part }) => `${keyOf(entry)} ${as[part] ?? part}`,
    ({ quantity }) => quantity,
  );
type Parts = { readonly [Part in PricedPart]?: PricedPart };
const billUsage = ({ lines }: Bill, keyOf: (line: BillLine) => string): Sums =>
  sumBy(
    lines.filter(({ part }) => part !== null && part !== 'requests'),
    (line) => `${keyOf(line)} ${line.part}`,
    ({ quantity }) => quantity ?? 0n,
  );
const billCosts = ({ lines }: Bill, keyOf: (line: BillLine) => string): Sums =>
  sumBy(lines, keyOf, ({ cost }) => cost ?? 0n);
const ledgerCosts = (ledger: readonly LedgerEntry[], keyOf: (entry: LedgerEntry) => string): Sums =>
  sumBy(ledger, keyOf, costOf);

const lineDay = ({ from }: Pick<BillLine, 'from'>): string => from.toISOString().slice(0, 10);
const entryDay = ({ at }: LedgerEntry): string => new Date(dayStart(at, 0)).toISOString().slice(0, 10);

const TOKENS = ['input', 'cache_read', 'cache_write_5m', 'output', 'reasoning'] as const;
const RUNS = { numRuns: 25 };

describe('any ledger is fetched through pages to the nano-dollar', () => {
  test('from OpenAI: costs by day and key, usage by day, model, key and tier', async () => {
    await using provider = await startBillingProvider({ ledger: [], bucketsPerPage: 2 });
    const parts = [...TOKENS, 'audio_input', 'audio_output', 'image_input', 'image'] as const;
    await fc.assert(
      fc.asyncProperty(arbitraryLedger(parts, { adjustments: true }), async (ledger) => {
        provider.ledger = ledger;
        const { bill } = await fetched(provider, 'openai');
        expect(billCosts(bill, (line) => `${lineDay(line)} ${line.credential}`)).toEqual(
          ledgerCosts(ledger, (entry) => `${entryDay(entry)} ${entry.credential}`),
        );
        // Images are in a report of their own, which has no tiers.
        const tokens = ledger.filter((entry) => !entry.parts.image);
        const tierOf = ({ serviceTier }: LedgerEntry): string => String(serviceTier);
        expect(
          billUsage(
            { ...bill, lines: bill.lines.filter(({ place }) => place.startsWith('usage/completions')) },
            (line) => `${lineDay(line)} ${line.model} ${line.credential} ${line.serviceTier}`,
          ),
        ).toEqual(
          ledgerUsage(
            tokens,
            (entry) => `${entryDay(entry)} ${entry.model} ${entry.credential} ${tierOf(entry)}`,
            { reasoning: 'output' },
          ),
        );
        expect(bill.lines.reduce((sum, { requests }) => sum + (requests ?? 0n), 0n)).toBe(
          BigInt(ledger.filter(({ requestId }) => requestId !== null).length),
        );
        expect([bill.unsupported, bill.rounded, bill.from, bill.to]).toEqual([[], [], LEDGER_FROM, to]);
      }),
      RUNS,
    );
  });

  test('from Anthropic: costs in cents by day, model and tier, usage by key', async () => {
    await using provider = await startBillingProvider({ ledger: [], bucketsPerPage: 4 });
    const parts = [...TOKENS, 'cache_write_1h', 'web_search'] as const;
    await fc.assert(
      fc.asyncProperty(arbitraryLedger(parts, { adjustments: true }), async (ledger) => {
        provider.ledger = ledger;
        const { bill } = await fetched(provider, 'anthropic');
        expect(billCosts(bill, lineDay)).toEqual(ledgerCosts(ledger, entryDay));
        expect(billCosts(bill, ({ kind }) => kind)).toEqual(
          ledgerCosts(ledger, ({ adjustment }) => adjustment?.kind ?? 'usage'),
        );
        expect(
          billUsage(bill, (line) => `${lineDay(line)} ${line.model} ${line.credential} ${line.serviceTier}`),
        ).toEqual(
          ledgerUsage(
            ledger,
            (entry) => `${entryDay(entry)} ${entry.model} ${entry.credential} ${entry.serviceTier}`,
            { reasoning: 'output' },
          ),
        );
      }),
      RUNS,
    );
  });

  test('from OpenRouter: by day and model, and each generation from its export', async () => {
    await using provider = await startBillingProvider({ ledger: [] });
    await fc.assert(
      fc.asyncProperty(arbitraryLedger(TOKENS, { adjustments: false }), async (ledger) => {
        provider.ledger = ledger;
        const { bill } = await fetched(provider, 'openrouter');
        const input: Parts = { cache_read: 'input', cache_write_5m: 'input' };
        expect(billCosts(bill, (line) => `${lineDay(line)} ${line.model}`)).toEqual(
          ledgerCosts(ledger, (entry) => `${entryDay(entry)} ${entry.model}`),
        );
        expect(billUsage(bill, (line) => `${lineDay(line)} ${line.model}`)).toEqual(
          ledgerUsage(ledger, (entry) => `${entryDay(entry)} ${entry.model}`, input),
        );
        if (ledger.length === 0) return;
        const exported = parseBill(openRouterExport(ledger), 'openrouter-csv');
        expect(billCosts(exported, ({ requestId, from }) => `${requestId} ${+from}`)).toEqual(
          ledgerCosts(ledger, ({ requestId, at }) => `${requestId} ${+at}`),
        );
        expect(billUsage(exported, ({ requestId }) => String(requestId))).toEqual(
          ledgerUsage(ledger, ({ requestId }) => String(requestId), input),
        );
      }),
      RUNS,
    );
  });
});

const ENTRY: LedgerEntry = {
  requestId: 'gen-1',
  at: new Date('2026-10-02T10:00:00Z'),
  model: 'model-a',
  credential: 'key_1',
  serviceTier: null,
  parts: { input: { quantity: 10n, cost: 25n } },
};

describe('a provider that fails', () => {
  test('is retried after 429, server errors and resets, and after as long as it asks for', async () => {
    await using provider = await startBillingProvider({ ledger: [ENTRY] });
    provider.faults.push({ status: 429, retryAfter: '7' }, { status: 529 }, 'reset', { status: 503 });
    const { bill, waited } = await fetched(provider, 'anthropic');
    expect(billCosts(bill, () => 'all')).toEqual({ all: 25n });
    expect(waited).toEqual([7_000, 2_000, 4_000, 8_000]);
  });

  test('is given up after six attempts, or where it asks to wait for hours', async () => {
    await using provider = await startBillingProvider({ ledger: [ENTRY] });
    provider.faults.push(...Array.from({ length: 6 }, () => ({ status: 500 })));
    await expect(fetched(provider, 'openai')).rejects.toThrow(
      'Fetching /organization/costs failed after 6 attempts: The provider answers with a server error (500).',
    );
    provider.faults.push({ status: 429, retryAfter: '3600' });
    await expect(fetched(provider, 'openai')).rejects.toThrow('It asks to wait 3600 s.');
  });

  test('is not retried where the credential is rejected, and its reply is not quoted', async () => {
    await using provider = await startBillingProvider({ ledger: [ENTRY] });
    const secret = 'sk-wrong-canary-91c2';
    const error = await fetched(provider, 'openai', secret).then(
      () => new Error('no error'),
      (fault: unknown) => fault as Error,
    );
    expect(error.message).toContain('rejects the billing credential (401)');
    expect(`${error.message} ${error.stack}`).not.toContain('canary');
    expect(provider.asked).toHaveLength(1);
  });

  test('gives no shorter bill where a page is malformed or repeated', async () => {
    await using provider = await startBillingProvider({ ledger: [ENTRY], bucketsPerPage: 3 });
    provider.faults.push({ text: '{"data": [' });
    await expect(fetched(provider, 'openai')).rejects.toThrow('/organization/costs page 1: It is not JSON');
    const repeated = { text: '{"data": [], "has_more": true, "next_page": "again"}' };
    provider.faults.push(repeated, repeated);
    await expect(fetched(provider, 'openai')).rejects.toThrow('repeats a page');
    provider.faults.push({ text: '{"data": [], "has_more": true, "next_page": null}' });
    await expect(fetched(provider, 'openai')).rejects.toThrow('"has_more" but no "next_page"');
  });

  test('is never connected to in a private network that its upstream does not allow', async () => {
    await using provider = await startBillingProvider({ ledger: [ENTRY] });
    await using client = openBillingClient({
      api: 'openai',
      baseUrl: `${provider.url}/v1`,
      network: 'public',
      secret: 'x',
    });
    await expect(fetchBill(client, { api: 'openai', from: LEDGER_FROM, to })).rejects.toThrow(
      'private network',
    );
    expect(provider.asked).toEqual([]);
  });
});

test('days that begin at another hour are those of the bill', async () => {
  await using provider = await startBillingProvider({ ledger: [ENTRY], dayOffsetMs: 7 * 60 * 60 * 1_000 });
  const { bill } = await fetched(provider, 'openai');
  expect(new Set(bill.lines.map(({ from }) => from.toISOString()))).toEqual(
    new Set(['2026-10-02T07:00:00.000Z']),
  );
});
