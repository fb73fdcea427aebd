import { expect, test } from 'vitest';
import type { PlanTerms } from '#db/events/events.ts';
import type { Changes } from '#server/backtest/candidate.ts';
import { Backtest } from '#server/backtest/replay.ts';
import type { DifferingCall } from '#server/contract/backtest.ts';
import { ACCOUNT, RecordedLog } from './history.ts';

/** What a back-test decides, on logs in memory. */

const NOTHING: Changes = { plan: null, prices: [], models: new Map() };
const PRICE = { base: { input: 1_000_000, output: 4_000_000 } };
const limited = (terms: PlanTerms): Changes => ({ ...NOTHING, plan: { terms, scope: 'all' } });

function replay({ events }: RecordedLog, changes: Changes, from = '2026-01-01', to = '2027-01-01') {
  const differences: DifferingCall[] = [];
  const backtest = new Backtest({
    ...{ changes, fromMs: Date.parse(from), toMs: Date.parse(to), corrections: new Map() },
    onDifference: (call) => void differences.push(call),
  });
  for (const event of events) backtest.apply(event);
  const range = { from, to, first_position: 1, period_position: 1, last_position: events.length };
  return { report: backtest.tally.report(backtest.candidate.recorded, range), differences };
}

/** Calls that end one after the other. */
function calls(
  log: RecordedLog,
  count: number,
  changes: Parameters<RecordedLog['accept']>[0] = {},
): string[] {
  return Array.from({ length: count }, () => {
    const request = log.accept(changes);
    log.settle(request, { cost_nanousd: 280 });
    return request;
  });
}

test('rejects the calls beyond a quota, and names limit, need and free units', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  const [, , third, fourth] = calls(log, 4);
  const terms: PlanTerms = { quotas: [{ meter: 'tokens', window: 'day', limit: 250, enforcement: 'soft' }] };
  const { report, differences } = replay(log, limited(terms));
  expect(differences.map(({ request }) => request)).toEqual([third, fourth]);
  expect(differences[0]?.limits).toEqual([
    {
      ...{ subject: `account/${ACCOUNT}`, meter: 'tokens', window: 'day', cap: 250, enforcement: 'soft' },
      ...{ needed: 150, free: 50 },
    },
  ]);
  expect(report.limits).toMatchObject([{ rejected: 2, subjects: 1, first: { position: 7 } }]);
});

test('gives later calls the units that a rejected call would have used', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  const large = log.accept({ hold_tokens: 900 });
  log.settle(large, { output_tokens: 800 });
  calls(log, 2);
  const terms: PlanTerms = { quotas: [{ meter: 'tokens', window: 'day', limit: 700, enforcement: 'soft' }] };
  expect(replay(log, limited(terms)).differences.map(({ request }) => request)).toEqual([large]);
});

test('counts usage before the period in the windows that the period begins in', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  calls(log, 2);
  log.setTime('2026-10-15T00:00:00Z');
  calls(log, 2);
  const terms: PlanTerms = {
    quotas: [{ meter: 'requests', window: 'month', limit: 3, enforcement: 'soft' }],
  };
  const { report } = replay(log, limited(terms), '2026-10-15', '2026-11-01');
  expect(report.calls).toMatchObject({ admitted: 2, newly_rejected: 1 });
});

const tokensOf = (limit: number, enforcement: 'soft' | 'observe'): PlanTerms => ({
  quotas: [{ meter: 'tokens', window: 'day', limit, enforcement }],
});

test('rejects nothing by an observed limit, and names the calls that it would have rejected', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  const [, , third, fourth] = calls(log, 4);
  const { report, differences } = replay(log, limited(tokensOf(250, 'observe')));
  expect(differences.map(({ request, outcome }) => [request, outcome])).toEqual([
    [third, 'observed'],
    [fourth, 'observed'],
  ]);
  expect(report.calls).toMatchObject({ newly_rejected: 0, newly_observed: 2 });
  expect(report.cost).toMatchObject({ rejected: 0, after_nanousd: '1120' });
  expect(report.limits).toMatchObject([{ enforcement: 'observe', rejected: 2 }]);
});

test('decides observed limits beside enforced ones, each on its own', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  const [, , third, fourth] = calls(log, 4);
  const [observed] = tokensOf(250, 'observe').quotas ?? [];
  const hit = replay(log, limited({ requests_per_minute: 3, quotas: observed ? [observed] : [] }));
  expect(hit.differences.map(({ request, outcome }) => [request, outcome])).toEqual([
    [third, 'observed'],
    [fourth, 'rejected'],
  ]);
});

test('counts no call in an observed limit that is recorded as exceeded by it', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  log.plan('watched', tokensOf(250, 'observe'));
  const rejection = { subject: `account/${ACCOUNT}`, meter: 'tokens', window: 'day', limit: 250 } as const;
  calls(log, 2);
  const large = log.accept({ hold_tokens: 900, observed: [{ ...rejection, needed: 900, free: 50 }] });
  log.settle(large, { output_tokens: 800 });
  log.adjust(large, { output_tokens: 40 });
  log.setTime('2026-10-01T11:00:00Z');
  log.settle(log.accept({ hold_tokens: 51, prompt_estimate: 1 }));
  const from = '2026-10-01T11:00:00Z';
  const soft = limited(tokensOf(251, 'soft'));
  expect(replay(log, NOTHING).differences.map(({ outcome }) => outcome)).toEqual(['observed']);
  expect(replay(log, soft, from).differences).toEqual([]);
  expect(replay(log, limited(tokensOf(250, 'soft')), from).differences).toHaveLength(1);
});

test('needs no price for an observed limit of cost', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  calls(log, 1);
  const quotas = [{ meter: 'cost_nanousd', window: 'day', limit: 1_000, enforcement: 'observe' }] as const;
  expect(replay(log, limited({ quotas: [...quotas] })).differences).toEqual([]);
});

test('begins each window with no usage', () => {
  const log = new RecordedLog('2026-10-01T10:00:59Z');
  calls(log, 2);
  log.setTime('2026-10-01T10:01:00Z');
  calls(log, 2);
  expect(replay(log, limited({ requests_per_minute: 2 })).differences).toEqual([]);
  expect(replay(log, limited({ requests_per_minute: 1 })).differences).toHaveLength(2);
});

test('counts concurrent calls from their acceptance to their end', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  const first = log.accept();
  const second = log.accept();
  log.settle(first);
  log.settle(second);
  calls(log, 1);
  const { differences } = replay(log, limited({ concurrent_requests: 1 }));
  expect(differences.map(({ request, error_code }) => [request, error_code])).toEqual([
    [second, 'rate_limit_exceeded'],
  ]);
});

test('rejects models and routes that the terms do not permit', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  calls(log, 1);
  const codeOf = (terms: PlanTerms): unknown => replay(log, limited(terms)).differences[0]?.error_code;
  expect(codeOf({ models: ['gpt-4*'] })).toBe('model_not_permitted');
  expect(codeOf({ routes: ['/v1/embeddings'] })).toBe('route_not_permitted');
  expect(codeOf({ models: ['gpt-5*'], routes: ['/v1/chat/completions'] })).toBeUndefined();
});

test('rejects models without a price under a cost quota', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  calls(log, 1);
  const quotas = [{ meter: 'cost_nanousd', window: 'day', limit: 1_000, enforcement: 'soft' }] as const;
  expect(replay(log, limited({ quotas: [...quotas] })).differences[0]?.error_code).toBe('model_not_priced');
  expect(replay(log, limited({ quotas: [...quotas], unpriced_models: 'free' })).differences).toEqual([]);
});

test('charges calls of a replaced model by the price of the other one', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  log.price('gpt-5', PRICE);
  log.price('gpt-5-mini', { base: { input: 500_000, output: 2_000_000 } });
  calls(log, 3);
  const { report } = replay(log, { ...NOTHING, models: new Map([['gpt-5', 'gpt-5-mini']]) });
  expect(report.cost).toMatchObject({ before_nanousd: '840', after_nanousd: '420' });
});

test('decides rejected calls again, with the usage of an average call', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  log.price('gpt-5', PRICE);
  log.plan('tight', { quotas: [{ meter: 'requests', window: 'day', limit: 2, enforcement: 'soft' }] });
  calls(log, 2);
  log.reject({ rejected_count: 3 });
  log.reject({ error_code: 'network_not_allowed', status: 403 });
  const terms: PlanTerms = { quotas: [{ meter: 'requests', window: 'day', limit: 4, enforcement: 'soft' }] };
  const { report } = replay(log, limited(terms));
  expect(report.calls).toMatchObject({ rejected: 4, newly_admitted: 2, not_evaluated: 1 });
  expect(report.cost).toMatchObject({ after_nanousd: '560', newly_admitted_nanousd: '560' });
  expect(replay(log, NOTHING).report.calls).toMatchObject({ newly_admitted: 0, newly_rejected: 0 });
});

test('replaces the terms of accounts on the named plan only', () => {
  const log = new RecordedLog('2026-10-01T10:00:00Z');
  log.plan('free', {});
  calls(log, 2);
  const terms: PlanTerms = { models: [] };
  const rejected = (scope: NonNullable<Changes['plan']>['scope']): number =>
    replay(log, { ...NOTHING, plan: { terms, scope } }).differences.length;
  expect(rejected({ plan: 'free' })).toBe(2);
  expect(rejected({ plan: 'team' })).toBe(0);
  expect(rejected({ accounts: new Set([ACCOUNT]) })).toBe(2);
  expect(rejected({ accounts: new Set() })).toBe(0);
});
