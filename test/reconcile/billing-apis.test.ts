import path from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readBillFile } from '#db/reconcile/bill/read-file.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import type { Report } from '#db/reconcile/report/report.ts';
import { BILLING_APIS, type BillingApiName } from '#server/billing-api/reports.ts';
import { costOf, DAY_MS, dayStart, type LedgerEntry } from '../support/billing/ledger.ts';
import type { TestDatabase } from '../support/database.ts';
import type { Booked } from '../support/providers/billing-provider.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { seededRandom } from '../support/upstream/split.ts';
import { ADJUSTMENTS, API_PLANTS, type ApiPlant, entryOf } from './api-plants.ts';
import { someParts, startWorld, type World } from './world.ts';

/**
 * A provider with books of its own, which serves its billing APIs in pages beside its calls: each bill is
 * imported with a sealed admin key. `npm run reconcile` runs 20 seeds.
 */

const SEEDS = Number(process.env['RECONCILE_SEEDS'] ?? 1);
const CLEAN_CALLS = 12;
/** Parts that an API bills for, and so has the same cost for as the log. */
const PARTS: Record<BillingApiName, readonly string[]> = {
  openai: ['input', 'cache_read', 'output', 'reasoning', 'audio_input'],
  anthropic: ['input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'output', 'reasoning', 'web_search'],
  openrouter: ['input', 'cache_read', 'output', 'reasoning'],
};

/** The class and the model of each difference; of adjustments the class alone. */
const findingsOf = ({ differences }: Report): string[] =>
  differences.map(({ class: name, model }) => (model === null ? name : `${name} ${model}`)).toSorted();

/** Plays the plant. @returns its place in the provider's books. */
async function play(
  world: World,
  { model, ending = 'whole', parts, book }: ApiPlant,
  api: BillingApiName,
  random: (below: number) => number,
): Promise<LedgerEntry[]> {
  const own = someParts(random, { cache_read: 0, reasoning: 0, ...parts });
  const used = Object.fromEntries(Object.entries(own).filter(([, quantity]) => quantity > 0));
  if (ending !== null) {
    const [booked, ...further] = (await world.call(model, { parts: used, ending })) as [Booked, ...Booked[]];
    return [...book(booked, api), ...further.map((each) => entryOf(each))];
  }
  await wait(5);
  const id = `direct-${random(1_000_000)}`;
  return book({ id, at: new Date(), model, credential: 'main', tier: 'default', parts: used }, api);
}

/** Imports the bill by command, with the admin key that is sealed in the relay's database. */
async function importBill({ relay, provider }: World, api: BillingApiName, days: number): Promise<Bill> {
  const { text } = commandLine(
    () => ({ DAYBOOK_DATA: relay.dataDir, DATABASE_URL: (relay.store as TestDatabase).url }),
    () => Readable.from([`${provider.books.adminKey}\n`]),
  );
  await text('credential', 'add', 'provider', '--label', 'billing', '--billing');
  const today = dayStart(new Date(), 0);
  const day = (offset: number): string => new Date(today + offset * DAY_MS).toISOString().slice(0, 10);
  const file = path.join(relay.dataDir, `${api}.ndjson`);
  const interval = ['--since', day(-1), '--until', day(days)];
  await text('reconcile', 'import', '--upstream', 'provider', '--from', api, ...interval, '--out', file);
  return readBillFile(file, 'bill', {});
}

test.each(BILLING_APIS)(
  'differences planted behind the billing API of %s are found and classed, and nothing else is',
  async (api) => {
    const plants = API_PLANTS.filter(({ expected }) => expected[api] !== undefined);
    const adjustments = api === 'openrouter' ? [] : ADJUSTMENTS;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const next = seededRandom(seed);
      const random = (below: number): number => Math.floor(next() * below);
      await using world = await startWorld(`chatcmpl-${api}-${seed}`);
      const { books } = world.provider;
      books.bucketsPerPage = 1 + random(3);
      // The calls that were made while the relay started.
      books.ledger.push(...world.provider.ledger.map((booked) => entryOf(booked)));
      const order = [...plants, ...Array.from({ length: CLEAN_CALLS }, () => null)]
        .map((plant) => ({ plant, at: random(1_000_000) }))
        .toSorted((a, b) => a.at - b.at);
      for (const { plant } of order) {
        if (plant !== null) books.ledger.push(...(await play(world, plant, api, random)));
        else {
          const parts = Object.fromEntries(
            Object.entries(someParts(random)).filter(([part]) => PARTS[api].includes(part)),
          );
          const booked = await world.call('chat', { parts, tier: random(2) === 0 ? 'default' : 'standard' });
          books.ledger.push(...booked.map((each) => entryOf(each)));
        }
      }
      for (const adjustment of adjustments)
        books.ledger.push({
          ...{ requestId: null, at: new Date(), model: '', credential: 'main', serviceTier: null },
          parts: {},
          adjustment,
        });
      const report = await world.compareBill(await importBill(world, api, 5));
      const total = books.ledger.reduce((sum, entry) => sum + costOf(entry), 0n);
      expect([seed, findingsOf(report)]).toEqual([
        seed,
        [
          ...plants.map(({ expected, model, billedModel }) => `${expected[api]} ${billedModel ?? model}`),
          ...adjustments.map(({ kind }) => kind),
        ].toSorted(),
      ]);
      expect(BigInt(report.totals.bill_nanousd)).toBe(total);
      expect(BigInt(report.totals.reconciled_nanousd)).toBe(total);
      expect(report.totals.unexplained_nanousd).toBe('0');
      // Only the admin key reads the reports, in more than one page.
      expect(new Set(books.asked.map(({ key }) => key))).toEqual(new Set([books.adminKey]));
      expect(books.asked.length).toBeGreaterThan(3);
    }
  },
  1_800_000,
);
