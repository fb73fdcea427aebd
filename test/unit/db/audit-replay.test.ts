import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RecentlyEnded } from '#db/audit/replay/recently-ended.ts';
import { showStatements } from '#db/audit/commands/statement-text.ts';
import { costOf, zeroTotals, totalOf } from '#db/audit/replay/totals.ts';
import { shownWindows, snapshotOf } from '#db/audit/replay/snapshot.ts';
import { ReplayState } from '#db/audit/replay/state.ts';
import type { CallFilter } from '#db/fold/call-filter.ts';
import { parseMonth, Statements } from '#db/audit/replay/statement.ts';
import type { ControlEvent, Event, EventOf, Placed, PlanTerms } from '#db/events/events.ts';
import { uuidv7 } from '#db/ids.ts';
import { WINDOW_KIND_OF } from '#db/limits/limits.ts';
import { METER_OF } from '#db/limits/meters.ts';
import { UnreadableEventError } from '#db/log/read.ts';
import { minuteOf, windowEnd, windowStart } from '#db/limits/windows.ts';
import { LogInMemory } from '../../support/log/log-in-memory.ts';
import { accepted, extended, registered, settled, suspended } from '../../support/log/log-writer.ts';
import { foldRequests, foldUsage } from '../../support/projections/projection-fold.ts';
import { DIGEST, HistoryWriter } from '../../support/projections/arbitrary-history.ts';
import {
  anyHistory,
  END_USERS,
  type HistoryStep,
  MODELS,
  TAGS,
  UPSTREAMS,
} from '../../support/projections/history-steps.ts';
import { foldQuotas } from '../../support/projections/projection-quotas.ts';
import { runs } from '../../fuzz/property-runs.ts';

const HOUR_MS = 3_600_000;

async function historyOf(steps: readonly HistoryStep[], stepMs: number): Promise<Placed[]> {
  const log = new LogInMemory(Date.now(), stepMs);
  await new HistoryWriter(log).write(steps);
  return log.events;
}

function fold(events: readonly Placed[], state = new ReplayState()): ReplayState {
  for (const event of events) state.apply(event);
  return state;
}

/** A log of these events, each in a batch of its own. */
function logOf(...events: readonly Event[]): Placed[] {
  const log = new LogInMemory(Date.now(), 1);
  const versions = new Map<string, number>();
  for (const event of events) {
    if (!('actor' in event)) {
      void log.append([event]);
      continue;
    }
    const about =
      'key' in event && event.key !== undefined
        ? event.key
        : 'account' in event && event.account !== undefined
          ? event.account
          : (event as { plan: string }).plan;
    const version = (versions.get(about) ?? 0) + 1;
    versions.set(about, version);
    void log.control([{ event, version }]);
  }
  return log.events;
}

describe('replay state', () => {
  test('replay: the state equals the reference models of the projections for any history', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyHistory,
        fc.nat(),
        fc.constantFrom(1, 60_000, 20 * HOUR_MS),
        async (steps, cut, stepMs) => {
          const log = await historyOf(steps, stepMs);
          const state = fold(log.slice(0, cut % log.length));
          snapshotOf(state, state.at);
          fold(log.slice(cut % log.length), state);
          const shown = snapshotOf(state, state.at);
          expect(inspect(shown, { depth: null, maxArrayLength: null })).not.toContain(DIGEST);

          const { usage_hour_total: hours } = foldUsage(log);
          const expected = [...hours.values()].map(
            ({ completed, client_disconnected, upstream_failed, cut_short, relay_failed, ...sums }) => ({
              ...zeroTotals(),
              ...sums,
              cost_nanousd: BigInt(sums['cost_nanousd'] as number),
              correction_cost_nanousd: BigInt(sums['correction_cost_nanousd'] as number),
              requests: [
                completed,
                client_disconnected,
                upstream_failed,
                cut_short,
                relay_failed,
              ].reduce<number>((sum, each) => sum + (each as number), 0),
              abandoned: 0,
            }),
          );
          expect({ ...totalOf(shown.usage), abandoned: 0 }).toEqual(totalOf(expected));
          expect(shown.total).toEqual(totalOf(shown.accounts));
          const { running_request: running, request } = foldRequests(log);
          expect(shown.open_requests.map((each) => each.request).toSorted()).toEqual(
            [...running.keys()].toSorted(),
          );
          for (const each of shown.open_requests)
            expect(each.hold_tokens).toBe(request.get(each.request)?.['hold_tokens']);

          const minute = minuteOf(state.at.getTime());
          const windows = [...foldQuotas(log).values()]
            .map(({ subject, meter, window_kind, window_start, reset_position, cap, used, held }) => {
              const window = WINDOW_KIND_OF.get(window_kind as number) ?? 'none';
              return {
                subject,
                meter: METER_OF.get(meter as number),
                window,
                start: window_start as number,
                reset_position,
                limit: cap,
                settled: used,
                held,
              };
            })
            .filter(({ window, start }) => start <= minute && windowEnd(window, start) > minute)
            .map(({ start, ...rest }) => ({ ...rest, starts_at: new Date(start * 60_000).toISOString() }));
          const own = shownWindows(state, state.at).map(
            ({ subject, meter, window, reset_position, limit, settled: used, held, starts_at }) => ({
              subject,
              meter,
              window,
              reset_position,
              limit,
              settled: used,
              held,
              starts_at,
            }),
          );
          expect(own).toEqual(expect.arrayContaining(windows));
          // All other windows are of quotas in force without charges.
          expect(
            own
              .filter(({ settled: used, held }) => used > 0 || held > 0)
              .filter(
                (each) => !windows.some((other) => JSON.stringify(other) === JSON.stringify(ordered(each))),
              ),
          ).toEqual([]);
        },
      ),
      runs(25),
    );
  });
});

const ordered = ({
  subject,
  meter,
  window,
  reset_position,
  limit,
  settled: used,
  held,
  starts_at,
}: Record<string, unknown>): object => ({
  subject,
  meter,
  window,
  reset_position,
  limit,
  settled: used,
  held,
  starts_at,
});

describe('statements', () => {
  test('statements: all months add up to the log to the nano-dollar', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, async (steps) => {
        const log = await historyOf(steps, 100 * HOUR_MS);
        const months = [...new Set(log.map(({ at }) => at.toISOString().slice(0, 7)))].map((name) => {
          const statements = new Statements(parseMonth(name) as NonNullable<ReturnType<typeof parseMonth>>);
          for (const event of log) statements.add(event);
          return { statements, own: statements.accounts.map((account) => statements.of(account)) };
        });
        const { total } = snapshotOf(fold(log), new Date());
        const sum = (of: (statement: ReturnType<Statements['of']>) => number | bigint): bigint =>
          months.flatMap(({ own }) => own).reduce((all, each) => all + BigInt(of(each)), 0n);
        expect(sum((each) => each.cost_nanousd)).toBe(total.cost_nanousd);
        expect(sum((each) => each.requests)).toBe(BigInt(total.requests));
        expect(sum((each) => each.refused)).toBe(BigInt(total.refused));
        for (const name of ['input_tokens', 'output_tokens', 'abandoned_tokens', 'cost_nanousd'] as const) {
          expect(sum(({ lines }) => lines.reduce((all, line) => all + BigInt(line[name]), 0n))).toBe(
            BigInt(total[name]),
          );
        }
        const adjusted = months.flatMap(({ own }) => own).flatMap(({ adjustments }) => adjustments);
        expect(adjusted.map(({ position, amount }) => [position, amount])).toEqual(
          expect.arrayContaining(
            log.flatMap(({ event, position }) =>
              event.type === 'quota.adjusted' ? [[position, event.amount]] : [],
            ),
          ),
        );
        for (const { statements, own } of months) {
          expect(statements.totalNanousd).toBe(own.reduce((all, each) => all + each.cost_nanousd, 0n));
          expect(statements.endings).toBe(own.reduce((all, each) => all + each.requests, 0));
        }
      }),
      runs(16),
    );
  });

  test('statements: a filter selects requests, and estimates are counted apart', async () => {
    const anyFilter = fc.constantFrom<CallFilter>(
      ...TAGS.map((tag) => ({ tag })),
      ...END_USERS.map((end_user) => ({ end_user })),
      ...UPSTREAMS.map((upstream) => ({ upstream, model: MODELS[0] })),
      { route: '/v1/messages' },
      {},
    );
    await fc.assert(
      fc.asyncProperty(anyHistory, anyFilter, async (steps, filter) => {
        const log = await historyOf(steps, 0);
        const month = parseMonth(log[0]?.at.toISOString().slice(0, 7) as string);
        const statements = new Statements(month as NonNullable<typeof month>, filter);
        for (const event of log) statements.add(event);
        const own = statements.accounts.map((account) => statements.of(account));
        const { tag, ...equal } = filter;
        const counted = log.flatMap(({ event }) =>
          (event.type === 'request.settled' ||
            event.type === 'request.abandoned' ||
            event.type === 'usage.adjusted') &&
          (tag === undefined || event.tags?.includes(tag) === true) &&
          Object.entries(equal).every(([name, value]) => event[name as keyof typeof event] === value)
            ? [event]
            : [],
        );
        const ended = counted.filter((event) => event.type !== 'usage.adjusted');
        const estimated = ended.filter(({ usage_source: source }) => !['provider', 'none'].includes(source));
        const costs = (events: typeof counted): bigint =>
          events.reduce(
            (all, event) =>
              all + BigInt((event.type === 'usage.adjusted' ? event.cost_nanousd : costOf(event)) ?? 0),
            0n,
          );
        const sum = (name: 'cost_nanousd' | 'estimated_cost_nanousd'): bigint =>
          own.reduce((all, each) => all + each[name], 0n);
        expect(own.reduce((all, each) => all + each.requests, 0)).toBe(ended.length);
        expect(own.reduce((all, each) => all + each.estimated, 0)).toBe(estimated.length);
        expect(sum('cost_nanousd')).toBe(costs(counted));
        expect(own.reduce((all, each) => all + each.corrections, 0)).toBe(counted.length - ended.length);
        expect(sum('estimated_cost_nanousd')).toBe(costs(estimated));
        if (tag !== undefined) expect(own.flatMap(({ adjustments }) => adjustments)).toEqual([]);
      }),
      runs(16),
    );
  });

  test('statements: adjustments are listed and change no amount', () => {
    const call = accepted();
    const { account, key } = call;
    const log = logOf(registered(account), call, settled(call), {
      type: 'quota.adjusted',
      account,
      key,
      meter: 'tokens',
      amount: -7,
      window: 'day',
      window_start: windowStart('day', minuteOf(Date.now())),
      reset_position: 0,
      reason: 'a "killed"\nserver',
      actor: 'test',
    });
    const at = log[0]?.at.toISOString() as string;
    const month = parseMonth(at.slice(0, 7)) as NonNullable<ReturnType<typeof parseMonth>>;
    const [plain, all] = [new Statements(month), new Statements(month)];
    for (const event of log) all.add(event);
    for (const event of log.slice(0, -1)) plain.add(event);
    const adjustments = [
      {
        position: 4,
        key,
        meter: 'tokens',
        amount: -7,
        window: 'day',
        reason: 'a "killed"\nserver',
      },
    ];
    expect(all.of(account)).toEqual({ ...plain.of(account), adjustments });
    const text = showStatements({
      month: month.name,
      from: at,
      until: at,
      filter: { tag: 'Tag0000000000001' },
      is_complete: true,
      first_position: 1,
      last_position: 4,
      statements: [{ ...all.of(account), name: 'acme', keys: {} }],
      total: null,
    });
    expect(text).toContain('Only requests with tag Tag0000000000001');
    expect(text).toContain(`4         ${key}  tokens  -7     day     "a \\"killed\\"\\nserver"`);
  });

  test(
    'statements: unpriced and abandoned requests have lines of their own, and a month starts at midnight ' +
      'UTC',
    () => {
      const [one, two, three] = [accepted(), accepted(), accepted()];
      const { request, account, key, model } = three;
      const abandoned: EventOf<'request.abandoned'> = {
        type: 'request.abandoned',
        request,
        account,
        key,
        model,
        end_reason: 'abandoned',
        usage_source: 'estimated',
        hold_tokens: 500,
        hold_cost_nanousd: 70,
      };
      const statements = new Statements(parseMonth('2026-12') as NonNullable<ReturnType<typeof parseMonth>>);
      const place = (event: Event, at: string): void =>
        statements.add({
          shard: 0,
          position: 1,
          at: new Date(at),
          instance: 1,
          stream: null,
          version: null,
          event,
        });
      place(settled(one, { cost_nanousd: 5 }), '2026-11-30T23:59:59.999Z');
      place(settled(one, { cost_nanousd: 11 }), '2026-12-01T00:00:00.000Z');
      place(settled(two), '2026-12-31T23:59:59.999Z');
      place(abandoned, '2026-12-31T23:59:59.999Z');
      place(settled(one, { cost_nanousd: 7 }), '2027-01-01T00:00:00.000Z');
      const { lines, cost_nanousd, requests } = statements.of('Account1');
      expect(
        lines.map(({ kind, requests: count, input_tokens, abandoned_tokens, cost_nanousd: cost }) => [
          kind,
          count,
          input_tokens,
          abandoned_tokens,
          cost,
        ]),
      ).toEqual([
        ['priced', 1, 10, 0, 11n],
        ['abandoned', 1, 0, 500, 70n],
        ['unpriced', 1, 10, 0, 0n],
      ]);
      expect([requests, cost_nanousd]).toEqual([3, 81n]);
    },
  );

  test.each(['2026-13', '2026-1', '2026', 'November', '2026-11-01'])(
    'statements: "%s" is not a month',
    (text) => expect(parseMonth(text)).toBeNull(),
  );
});

describe('replay faults are reported with their position', () => {
  const plan = (quotas: PlanTerms['quotas']): ControlEvent[] => [
    { type: 'plan.defined', plan: 'p', terms: { quotas }, actor: 'test' },
    registered('Account1'),
    { type: 'account.plan_changed', account: 'Account1', plan: 'p', windows: 'keep', actor: 'test' },
  ];
  const admitted = (hold_tokens: number, terms_position = 3): EventOf<'request.accepted'> =>
    accepted({ hold_tokens, terms_position, admitted_minute: minuteOf(Date.now()) });
  const tokens = (limit: number, enforcement: 'hard' | 'soft'): PlanTerms['quotas'] => [
    { meter: 'tokens', window: 'month', limit, enforcement },
  ];
  const call = accepted();
  const other = { ...call, request: uuidv7() };

  test.each<[string, Placed[], [number, RegExp][]]>([
    ['nothing', logOf(call, extended(call), settled(call)), []],
    ['a second acceptance', logOf(call, call, settled(call)), [[2, /was accepted twice/]]],
    ['an acceptance after the end', logOf(call, settled(call), call), [[3, /accepted again after its end/]]],
    ['a second ending', logOf(call, settled(call), settled(call)), [[3, /ended twice/]]],
    ['an ending without a beginning', logOf(call, settled(other)), [[2, /ended without being accepted/]]],
    [
      'an extension after the end',
      logOf(call, settled(call), extended(call)),
      [[3, /was extended after its end/]],
    ],
    [
      'an ending for another account',
      logOf(call, { ...settled(call), account: 'Account2' }),
      [[2, /with another account/]],
    ],
    [
      'terms from a later position',
      logOf(accepted({ terms_position: 9, admitted_minute: 1 })),
      [[1, /terms of position 9, which came later/]],
    ],
    [
      'a request beyond a hard limit',
      logOf(...plan(tokens(100, 'hard')), admitted(60), admitted(41)),
      [[5, /tokens of account\/Account1 in its month: 0 settled and 101 held exceed 100/]],
    ],
    [
      'more settled than a hard limit allows',
      logOf(...plan(tokens(25, 'hard')), ...[admitted(20)].flatMap((begun) => [begun, settled(begun)])),
      [[5, /30 settled and 0 held exceed 25/]],
    ],
    [
      'no fault: a response that a soft limit lets finish',
      logOf(...plan(tokens(25, 'soft')), ...[admitted(20)].flatMap((begun) => [begun, settled(begun)])),
      [],
    ],
    [
      'no fault: a response that continues after its window',
      logOf(
        ...plan(tokens(100, 'hard')),
        ...[{ ...admitted(60), admitted_minute: 1 }].flatMap((begun) => [begun, extended(begun)]),
      ),
      [],
    ],
    [
      'no fault: a raised cap that had not reached the server yet',
      logOf(
        ...plan(tokens(10, 'hard')),
        {
          type: 'plan.changed',
          plan: 'p',
          terms: { quotas: tokens(50, 'hard') },
          windows: 'keep',
          actor: 'test',
        },
        admitted(50),
      ),
      [],
    ],
  ])('%s', (_name, log, faults) => {
    const state = fold(log);
    expect(state.faults).toEqual(
      faults.map(([position, problem]) => ({ position, problem: expect.stringMatching(problem) as string })),
    );
    expect(state.faultCount).toBe(faults.length);
  });

  test("a skipped stream version, and an event that can't be read", () => {
    const log = logOf(registered('Account1'), suspended('Account1'));
    const state = fold([log[0] as Placed, { ...(log[1] as Placed<ControlEvent>), version: 3 }]);
    state.apply(new UnreadableEventError(3, null));
    expect(state.faults).toEqual([
      { position: 2, problem: 'stream account/Account1 continues with version 3 after 1' },
      { position: 3, problem: expect.stringContaining("can't be read") as string },
    ]);
  });

  test('no fault: the ending of a request accepted before the first position read', () => {
    const state = new ReplayState(7);
    state.apply({ ...(logOf(settled(call))[0] as Placed), position: 8 });
    expect([state.faultCount, state.acceptedBefore, state.usage.rows()[0]?.requests]).toEqual([0, 1, 1]);
  });
});

test('recently ended requests: each is recognized until its slot is taken, no other id is', () => {
  const ended = new RecentlyEnded();
  const inSlot = (slot: number): string => {
    const id = uuidv7();
    return id.slice(0, 24) + slot.toString(16).padStart(5, '0') + id.slice(29);
  };
  const ids = Array.from({ length: 1_000 }, (_, index) => inSlot(index * 1_000));
  expect(ids.some((id) => ended.has(id))).toBe(false);
  expect(ended.has('00000000-0000-7000-8000-000000000000')).toBe(false);
  for (const id of ids) ended.add(id);
  expect(ids.filter((id) => !ended.has(id))).toEqual([]);
  expect(Array.from({ length: 10_000 }, () => uuidv7()).some((id) => ended.has(id))).toBe(false);
  const later = inSlot(0);
  ended.add(later);
  expect([ended.has(ids[0] as string), ended.has(later)]).toEqual([false, true]);
});
