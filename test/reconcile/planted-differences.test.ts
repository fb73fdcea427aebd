import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { BillLine } from '#db/reconcile/bill/line.ts';
import { divideRound } from '#db/reconcile/compare/exact.ts';
import type { Report } from '#db/reconcile/report/report.ts';
import { seededRandom } from '../support/upstream/split.ts';
import { type Booked, linesOf } from '../support/providers/billing-provider.ts';
import { EURO, PLANTS, type Plant, STANDARD } from './plants.ts';
import { someParts, startWorld, type World } from './world.ts';

/**
 * Bills of a provider that keeps its own ledger, with differences planted into them: each is found and
 * classed, nothing else is, and the reconciled total is the bill's. `npm run reconcile` runs 20 seeds.
 */

const SEEDS = Number(process.env['RECONCILE_SEEDS'] ?? 2);
const CLEAN_CALLS = 12;

/** What the bill comes to by the provider's own arithmetic, in nano-dollars. */
const totalOf = (lines: readonly BillLine[]): bigint =>
  lines.reduce((sum, { cost, currency }) => {
    const amount = cost ?? 0n;
    return sum + (currency === 'EUR' ? divideRound(amount * EURO, 1_000_000_000n) : amount);
  }, 0n);

/** The findings of a report: the class, and the request or the line. */
const findingsOf = ({ differences }: Report): string[] =>
  differences.flatMap(({ class: name, requests, places }) =>
    requests.length === 0
      ? places.map((place) => `${name} ${place.split(' ')[0]}`)
      : requests.map(({ provider_request }) => `${name} ${provider_request}`),
  );

async function play(
  world: World,
  { model = 'chat', ending = 'whole', parts, expected, bill }: Plant,
  random: (below: number) => number,
): Promise<{ lines: BillLine[]; finding: string }> {
  const own = someParts(random, { cache_read: 0, reasoning: 0, ...parts });
  const used = Object.fromEntries(Object.entries(own).filter(([, quantity]) => quantity > 0));
  if (ending === null) {
    // At a moment at which no call runs.
    await wait(5);
    const booked: Booked = {
      id: `direct-${random(1_000_000)}`,
      at: new Date(),
      model,
      credential: 'main',
      tier: 'default',
      parts: used,
    };
    await wait(5);
    return { lines: bill(booked), finding: `${expected} ${booked.id}` };
  }
  const [booked, ...further] = (await world.call(model, { parts: used, ending })) as [Booked, ...Booked[]];
  return {
    lines: [...bill(booked), ...further.flatMap((each) => linesOf(each, STANDARD))],
    finding: `${expected} ${booked.id}`,
  };
}

test(`${PLANTS.length} kinds of planted differences are found and classed, and nothing else is`, async () => {
  expect(PLANTS.length).toBeGreaterThanOrEqual(24);
  for (let seed = 1; seed <= SEEDS; seed++) {
    const next = seededRandom(seed);
    const random = (below: number): number => Math.floor(next() * below);
    await using world = await startWorld(`chatcmpl-${seed}`);
    const lines = world.provider.ledger.flatMap((booked) => linesOf(booked, STANDARD));
    const expected: string[] = [];
    const plants: (Plant | null)[] = [...PLANTS, ...Array.from({ length: CLEAN_CALLS }, () => null)];
    const order = plants.map((plant) => ({ plant, at: random(1_000_000) })).toSorted((a, b) => a.at - b.at);
    for (const { plant } of order) {
      if (plant !== null) {
        const played = await play(world, plant, random);
        lines.push(...played.lines);
        expected.push(played.finding);
      } else {
        const booked = await world.call('chat', {
          parts: someParts(random),
          tier: random(2) === 0 ? 'default' : 'standard',
        });
        lines.push(...booked.flatMap((each) => linesOf(each, STANDARD)));
      }
    }
    const report = await world.compare(lines);
    expect([seed, findingsOf(report).toSorted()]).toEqual([seed, expected.toSorted()]);
    expect(BigInt(report.totals.bill_nanousd)).toBe(totalOf(lines));
    expect(BigInt(report.totals.reconciled_nanousd)).toBe(totalOf(lines));
    expect(report.totals.unexplained_nanousd).toBe('0');
    const versioned = report.differences.find(({ detail }) => detail?.includes('version 1'));
    expect(versioned).toMatchObject({ class: 'price', model: 'repriced' });
  }
}, 600_000);
