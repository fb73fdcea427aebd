import { env } from 'node:process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ObservedRejection } from '#db/events/admission.ts';
import type { EventOf, PlanTerms } from '#db/events/events.ts';
import { Candidate, type Changes } from '#server/backtest/candidate.ts';
import { backtest } from '#server/backtest/run.ts';
import { reprice } from '#server/control/reprice.ts';
import type { BacktestReport, DifferingCall } from '#server/contract/backtest.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet, type Tenant } from '../support/fleet.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { callsOf, type DayCall, MODELS, termsOf, TENANTS } from './day.ts';

/** `BACKTEST_SEEDS=10` runs the long form. */
const SEEDS = Array.from({ length: Number(env['BACKTEST_SEEDS'] ?? 2) }, (_, index) => index + 1);
const CALLS = 60;
const PRICES = { base: { input: 1_000_000, cache_read: 500_000, output: 4_000_000 } };
const NOTHING: Changes = { plan: null, prices: [], models: new Map() };

let upstream: ScriptedUpstream;
beforeAll(async () => {
  upstream = await startUpstream();
  // It would count the limit on the reply that the relay adds under a hard quota as part of the prompt.
  for (const [name, tokens] of Object.entries(MODELS))
    upstream.script(name, `tokens=${tokens},prompt=90,obey=yes`);
});
afterAll(() => upstream?.close());

/** The code of the error of a call, and the limit that was short; null: it was admitted. */
type Rejection = { code: string | null; limit: string | null } | null;

/** A day as it ran on a server, and the log that it left. */
type RealDay = AsyncDisposable & { fleet: Fleet; decisions: Rejection[]; hours: Set<number> };

const hour = (): number => Math.floor(Date.now() / 3_600_000);

/** Runs the calls one after the other under the terms. */
async function runDay(calls: readonly DayCall[], terms: PlanTerms): Promise<RealDay> {
  const fleet = await startFleet({ instances: 1, upstreams: [upstream] });
  const hours = new Set([hour()]);
  for (const model of Object.keys(MODELS)) await fleet.control((control) => control.setPrice(model, PRICES));
  const tenants: Tenant[] = [];
  for (let number = 0; number < TENANTS; number++)
    tenants.push(await fleet.tenant(`tenant-${number}`, terms));
  const decisions: Rejection[] = [];
  for (const { tenant, body } of calls) {
    const reply = await fleet.chat(0, { key: (tenants[tenant] as Tenant).secret, body });
    const { error } = (reply.json ?? {}) as {
      error?: { limit?: { scope: string; meter: string; window: string } };
    };
    const limit = error?.limit;
    decisions.push(
      reply.status === 200
        ? null
        : { code: errorCodeOf(reply), limit: limit ? `${limit.scope} ${limit.meter} ${limit.window}` : null },
    );
    await fleet.settledLog();
  }
  hours.add(hour());
  return { fleet, decisions, hours, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

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

const acceptedIn = async ({ fleet }: RealDay): Promise<EventOf<'request.accepted'>[]> =>
  (await fleet.readLog()).flatMap(({ event }) => (event.type === 'request.accepted' ? [event] : []));

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

const nameOf = ({
  subject,
  meter,
  window,
}: Pick<ObservedRejection, 'subject' | 'meter' | 'window'>): string =>
  `${subject.split('/')[0]} ${meter} ${window}`;

/** The sum of the charges, and the tokens of replies, as the log has them. */
async function chargedIn({ fleet }: RealDay): Promise<{ cost: string; requests: number }> {
  const settled = (await fleet.readLog()).flatMap(({ event }) =>
    event.type === 'request.settled' ? [BigInt(event.cost_nanousd ?? 0)] : [],
  );
  return { cost: String(settled.reduce((sum, cost) => sum + cost, 0n)), requests: settled.length };
}

describe.each(SEEDS)('a day by seed %i', (seed) => {
  const calls = callsOf(seed, CALLS);
  const terms = termsOf(seed, CALLS);
  let unlimited: RealDay;
  let limited: RealDay;
  let tested: { report: BacktestReport; differences: DifferingCall[] };

  beforeAll(async () => {
    // Both runs and their windows are within one hour, or they are repeated in the next one.
    for (;;) {
      unlimited = await runDay(calls, {});
      limited = await runDay(calls, terms);
      if (new Set([...unlimited.hours, ...limited.hours]).size === 1) break;
      await unlimited[Symbol.asyncDispose]();
      await limited[Symbol.asyncDispose]();
    }
    tested = await backtestOf(unlimited, { ...NOTHING, plan: { terms, scope: 'all' } });
  }, 300_000);
  afterAll(async () => {
    await unlimited?.[Symbol.asyncDispose]();
    await limited?.[Symbol.asyncDispose]();
  });

  test('decides each call as a server with these terms does', async () => {
    const rejections = await differencesOf(unlimited, tested.differences, 'rejected');
    expect(rejections.map((each) => each?.error_code ?? null)).toEqual(
      limited.decisions.map((each) => each?.code ?? null),
    );
    // Of several short limits a server names one.
    for (const [index, real] of limited.decisions.entries())
      if (real?.limit) expect(rejections[index]?.limits.map(nameOf)).toContain(real.limit);
    expect(tested.report.calls.newly_rejected).toBe(limited.decisions.filter((each) => each !== null).length);
    const { newly_rejected: rejected, newly_observed: observed } = tested.report.calls;
    expect(rejected + observed).toBeGreaterThan(0);
  });

  test('names the observed limits of each call as a server does', async () => {
    const observed = await differencesOf(unlimited, tested.differences, 'observed');
    const admitted = await acceptedIn(limited);
    expect(observed.map((call) => call?.limits.map(nameOf).toSorted() ?? [])).toEqual(
      limited.decisions.map((rejection) =>
        rejection === null ? (admitted.shift()?.observed ?? []).map(nameOf).toSorted() : [],
      ),
    );
  });

  test('charges to the nano-dollar what the server charges', async () => {
    const { cost } = tested.report;
    const real = await chargedIn(limited);
    expect({ cost: cost.after_nanousd, requests: cost.requests - cost.rejected }).toEqual(real);
    expect(cost.before_nanousd).toBe((await chargedIn(unlimited)).cost);
  });

  test('decides nothing otherwise under the recorded terms', async () => {
    for (const day of [unlimited, limited]) {
      const { report, differences } = await backtestOf(day, NOTHING);
      expect(differences).toEqual([]);
      expect(report.cost.after_nanousd).toBe(report.cost.before_nanousd);
    }
  });

  test('charges by other prices what a dry run of price reprice charges', async () => {
    const dearer = { base: { input: 700_000, output: 9_000_000, per_request: 5 }, rules: [] };
    const prices = Object.keys(MODELS).map((pattern) => ({ pattern, terms: dearer, source: 'a test' }));
    const { report } = await backtestOf(unlimited, { ...NOTHING, prices });
    const table = new Candidate({ ...NOTHING, prices }).prices;
    const client = await connectAs(unlimited.fleet.store, 'auditor');
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
