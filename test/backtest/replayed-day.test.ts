import { env } from 'node:process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Candidate, type Changes } from '#server/backtest/candidate.ts';
import { backtest } from '#server/backtest/run.ts';
import { reprice } from '#server/control/reprice.ts';
import type { BacktestReport, DifferingCall } from '#server/contract/backtest.ts';
import { limitCode } from '#server/limits/limit-error.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { changesOf, dayOf, type DayChanges, MODELS, PLAN } from './day.ts';
import {
  acceptedIn,
  type HoldingUpstream,
  type RealDay,
  runDay,
  settledIn,
  startHoldingUpstream,
  UNCHANGED,
} from './real-day.ts';

/** `npm run backtest` runs the long form: ten seeds, whose days are of two minutes at least. */
const LONG_SEEDS = env['BACKTEST_SEEDS'];
const SEEDS = LONG_SEEDS?.split(',').map(Number) ?? [1, 2];
const CALLS = 60;
const NOTHING: Changes = { plan: null, prices: [], models: new Map() };

let holding: HoldingUpstream;
beforeAll(async () => {
  holding = await startHoldingUpstream();
});
afterAll(() => holding?.[Symbol.asyncDispose]());

async function backtestOf({ fleet }: RealDay, changes: Changes) {
  const client = await connectAs(fleet.store, 'auditor');
  const differences: DifferingCall[] = [];
  try {
    const report = await backtest(client, {
      ...{ changes, from: new Date(0), to: new Date(Date.now() + 60_000), archiveDir: undefined },
      onDifference: (call) => void differences.push(call),
    });
    return { report, differences };
  } finally {
    await client.end();
  }
}

/** The changes as a back-test takes them. */
const changesFor = ({ terms, prices, models }: DayChanges): Changes => ({
  plan: { terms, scope: { plan: PLAN } },
  prices: prices.map(({ plan, ...price }) => ({ ...price, plan: plan ?? undefined, source: 'a test' })),
  models,
});

/** Calls with another outcome on a day on which every call was admitted, in the order of the calls. */
async function differencesOf(
  day: RealDay,
  differences: readonly DifferingCall[],
  wanted: DifferingCall['outcome'],
) {
  const found = new Map(
    differences.filter(({ outcome }) => outcome === wanted).map((call) => [call.request, call]),
  );
  return (await acceptedIn(day)).map(({ request }) => found.get(request) ?? null);
}

/** A limit as its error names it. */
function nameOf(
  account: string,
  { subject, meter, window }: Pick<DifferingCall['limits'][number], 'subject' | 'meter' | 'window'>,
): string {
  const [kind, owner] = subject.split('/');
  const scope = kind === 'account' && owner !== account ? 'parent_account' : kind;
  return `${scope} ${meter} ${window === 'none' ? 'now' : window}`;
}

type Sums = Record<string, { requests: number; charge: string; upstreamCost: string }>;

/** What a server charged, by the number of the account and the model that the client meant. */
async function chargedIn(day: RealDay, { models }: DayChanges): Promise<Sums> {
  const meant = new Map([...models].map(([model, replacement]) => [replacement as string, model as string]));
  const sums = new Map<string, { requests: number; charge: bigint; upstreamCost: bigint }>();
  for (const { account, model, cost_nanousd = 0, upstream_cost_nanousd = cost_nanousd } of await settledIn(
    day,
  )) {
    const name = `${day.accounts.indexOf(account)} ${meant.get(model) ?? model}`;
    const sum = sums.get(name) ?? { requests: 0, charge: 0n, upstreamCost: 0n };
    sum.requests++;
    sum.charge += BigInt(cost_nanousd);
    sum.upstreamCost += BigInt(upstream_cost_nanousd);
    sums.set(name, sum);
  }
  return Object.fromEntries(
    [...sums].map(([name, { requests, charge, upstreamCost }]) => [
      name,
      { requests, charge: String(charge), upstreamCost: String(upstreamCost) },
    ]),
  );
}

/** The same as a back-test expects it. */
const expectedIn = (day: RealDay, { lines }: BacktestReport): Sums =>
  Object.fromEntries(
    lines
      .filter(({ requests, rejected }) => requests > rejected)
      .map((line) => [
        `${day.accounts.indexOf(line.account)} ${line.model}`,
        {
          requests: line.requests - line.rejected,
          charge: line.after_nanousd,
          upstreamCost: line.upstream_after_nanousd,
        },
      ]),
  );

describe.each(SEEDS)('a day by seed %i', (seed) => {
  const day = dayOf(seed, CALLS);
  const changes = changesOf(seed, CALLS);
  let recorded: RealDay;
  let real: RealDay;
  let tested: { report: BacktestReport; differences: DifferingCall[] };

  beforeAll(async () => {
    const isLong = LONG_SEEDS !== undefined;
    recorded = await runDay(holding, day, UNCHANGED, isLong ? 'record long' : 'record');
    real = await runDay(holding, day, changes, recorded.minutes);
    tested = await backtestOf(recorded, changesFor(changes));
  }, 900_000);
  afterAll(async () => {
    await recorded?.[Symbol.asyncDispose]();
    await real?.[Symbol.asyncDispose]();
  });

  test('decides each call as a server with these terms, prices and models does', async () => {
    const rejections = await differencesOf(recorded, tested.differences, 'rejected');
    expect(
      rejections.map((each, call) => {
        if (each === null) return null;
        const named = real.decisions[call]?.limit;
        // Of several short limits a server names one, and its code is that of this one.
        const limit = each.limits.find((short) => nameOf(each.account, short) === named) ?? each.limits[0];
        return limit === undefined
          ? { code: each.error_code, limit: null }
          : { code: limitCode(limit.window), limit: nameOf(each.account, limit) };
      }),
    ).toEqual(real.decisions);
    const { newly_rejected: rejected, newly_observed: observed } = tested.report.calls;
    expect(rejected).toBe(real.decisions.filter((each) => each !== null).length);
    expect(rejected + observed).toBeGreaterThan(0);
  });

  test('names the observed limits of each call as a server does', async () => {
    const observed = await differencesOf(recorded, tested.differences, 'observed');
    const admitted = (await acceptedIn(real)).values();
    expect(
      observed.map((call) => call?.limits.map((limit) => nameOf(call.account, limit)).toSorted() ?? []),
    ).toEqual(
      real.decisions.map((rejection) => {
        if (rejection !== null) return [];
        const { account, observed: named = [] } = admitted.next().value as NonNullable<
          ReturnType<(typeof admitted)['next']>['value']
        >;
        return named.map((limit) => nameOf(account, limit)).toSorted();
      }),
    );
  });

  test('charges each account and model to the nano-dollar what the server charges', async () => {
    expect(expectedIn(recorded, tested.report)).toEqual(await chargedIn(real, changes));
  });

  test('decides nothing otherwise under the recorded terms', async () => {
    for (const each of [recorded, real]) {
      const { report, differences } = await backtestOf(each, NOTHING);
      expect(differences).toEqual([]);
      expect(report.cost.after_nanousd).toBe(report.cost.before_nanousd);
    }
  });

  test('charges by other prices what a dry run of price reprice charges', async () => {
    const dearer = { base: { input: 700_000, output: 9_000_000, per_request: 5 }, rules: [] };
    const prices = Object.keys(MODELS).map((pattern) => ({ pattern, terms: dearer, source: 'a test' }));
    const { report } = await backtestOf(recorded, { ...NOTHING, prices });
    const table = new Candidate({ ...NOTHING, prices }).prices;
    const client = await connectAs(recorded.fleet.store, 'auditor');
    const part = { from: new Date(0), to: new Date(Date.now() + 60_000), account: null, model: null };
    const { repricing } = await reprice(client, table, part, null);
    await client.end();
    expect(report.lines).toMatchObject(
      repricing.lines.map((line) => ({
        ...{ account: line.account, model: line.model, requests: line.requests, rejected: 0 },
        before_nanousd: String(line.before_nanousd),
        after_nanousd: String(line.after_nanousd),
        upstream_before_nanousd: String(line.upstream_before_nanousd),
        upstream_after_nanousd: String(line.upstream_after_nanousd),
      })),
    );
    expect(report.cost.after_nanousd).not.toBe(report.cost.before_nanousd);
  });
});
