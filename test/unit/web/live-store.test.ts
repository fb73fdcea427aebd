import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Frame, FrameOf } from '#server/contract/frames.ts';
import type { RequestPage, RequestRow } from '#server/contract/requests.ts';
import type { UsageFigures, UsageReport } from '#server/contract/usage.ts';
import { type Base, LiveStore, type LiveView } from '../../../web/lib/feed/live-store.ts';
import {
  requestCountOf,
  countEnding,
  type Ending,
  noTally,
  type Tally,
} from '../../../web/lib/feed/tally.ts';

/** Figures from the tables and the live feed together, in whatever order and however often they come. */

const START_MS = Date.parse('2026-05-04T10:00:00Z');
const MINUTE_MS = 60_000;
const BUCKETS = 15;
const NOW_MS = START_MS + (BUCKETS - 0.5) * MINUTE_MS;

const figuresOf = (endings: readonly Ending[]): UsageFigures => {
  const tally = noTally();
  for (const ending of endings) countEnding(tally, ending);
  return {
    requests: tally.successful + tally.failed,
    completed: tally.successful,
    client_disconnected: 0,
    upstream_failed: tally.failed,
    cut_short: 0,
    relay_failed: 0,
    refused: tally.rejected,
    input_tokens: tally.input_tokens,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: tally.output_tokens,
    reasoning_tokens: 0,
    abandoned_tokens: 0,
    cost_nanousd: String(tally.cost_nanousd),
    unpriced: 0,
    estimated: 0,
    estimated_cost_nanousd: '0',
    corrections: 0,
    correction_cost_nanousd: '0',
  };
};
const minuteOf = ({ at }: Ending): number => Math.floor(Date.parse(at) / MINUTE_MS) * MINUTE_MS;
const modelOf = (ending: Ending): string => (ending.type === 'refused' ? '' : ending.model);

/** The report of projections at `position`. */
function reportOf(log: readonly Ending[], position: number): UsageReport {
  const seen = log.filter((ending) => ending.position <= position);
  return {
    as_of: null,
    position,
    behind: 0,
    parked: 0,
    scope: { account: null, key: null },
    from: new Date(START_MS).toISOString(),
    to: new Date(NOW_MS).toISOString(),
    bucket: 'minute',
    group_by: [],
    source: 'usage',
    totals: figuresOf(seen),
    rows: [...Map.groupBy(seen, minuteOf)].map(([atMs, endings]) => ({
      from: new Date(atMs).toISOString(),
      ...figuresOf(endings),
    })),
  };
}
function groupsOf(log: readonly Ending[], position: number): UsageReport {
  const seen = log.filter((ending) => ending.position <= position);
  const groups = Map.groupBy(seen, (ending) => `${ending.key} ${modelOf(ending)}`);
  return {
    ...reportOf(log, position),
    rows: [...groups.values()].map((endings) => ({
      key: endings[0]?.key ?? '',
      model: modelOf(endings[0] as Ending),
      ...figuresOf(endings),
    })),
  };
}
const pageOf = (position: number): RequestPage => ({
  object: 'list',
  data: [],
  next: null,
  from: '',
  to: null,
  scanned_from: '',
  as_of: null,
  position,
  behind: 0,
  parked: 0,
});
const baseOf = (
  log: readonly Ending[],
  positions: { series: number; groups: number; calls: number },
): Base => ({
  series: reportOf(log, positions.series),
  groups: groupsOf(log, positions.groups),
  last: pageOf(positions.calls),
  running: pageOf(positions.calls),
  bucketMs: MINUTE_MS,
  buckets: BUCKETS,
});
const sameBase = (log: readonly Ending[], position: number): Base =>
  baseOf(log, { series: position, groups: position, calls: position });

const idOf = (position: number): string => `01a1fffd-088e-7242-bbde-${String(position).padStart(12, '0')}`;
const started = (position: number, request = idOf(position)): FrameOf<'started'> => ({
  type: 'started',
  route: '/v1/chat/completions',
  position,
  at: new Date(NOW_MS).toISOString(),
  request,
  account: 'Account1',
  key: 'Key00001',
  model: 'm',
  sse: true,
  body_bytes: 1,
  hold_tokens: 1,
});
const runningRow = (position: number): RequestRow => ({
  request: idOf(position),
  position,
  accepted_at: new Date(NOW_MS).toISOString(),
  ended_at: null,
  end_position: null,
  corrected: null,
  account: 'Account1',
  key: 'Key00001',
  model: 'm',
  route: '/v1/chat/completions',
  upstream: null,
  end_user: null,
  session: null,
  tags: [],
  outcome: 'running',
  end_reason: null,
  error_code: null,
  rejected_count: null,
  status: null,
  sse: true,
  input_tokens: null,
  cache_read_tokens: null,
  cache_write_tokens: null,
  output_tokens: null,
  reasoning_tokens: null,
  usage_source: null,
  cost_nanousd: null,
  first_byte_ms: null,
  duration_ms: null,
  attempt_count: null,
  retry_count: null,
  observed: null,
  hold_tokens: 1,
  hold_cost_nanousd: null,
});
const apply = (store: LiveStore, frames: Frame[], nowMs = NOW_MS): void =>
  store.apply({ position: 0, at: new Date(nowMs).toISOString(), frames }, nowMs);

/** A log of endings, whose positions have gaps, as a viewer sees it. */
const logs = fc
  .array(
    fc.record({
      gap: fc.integer({ min: 1, max: 3 }),
      key: fc.constantFrom('Key00001', 'Key00002', 'Key00003'),
      model: fc.constantFrom('m', 'n'),
      outcome: fc.constantFrom('completed', 'client_disconnected', 'upstream_failed', 'cut_short', 'refused'),
      tokens: fc.integer({ min: 0, max: 1_000 }),
      afterMs: fc.integer({ min: 0, max: NOW_MS - START_MS }),
    }),
    { maxLength: 40 },
  )
  .map((parts): Ending[] => {
    let position = 0;
    return parts
      .toSorted((one, other) => one.afterMs - other.afterMs)
      .map(({ gap, key, model, outcome, tokens, afterMs }): Ending => {
        position += gap;
        const placed = {
          position,
          at: new Date(START_MS + afterMs).toISOString(),
          request: idOf(position),
          account: 'Account1',
          key,
        };
        if (outcome === 'refused')
          return {
            type: 'refused',
            route: '/v1/chat/completions',
            ...placed,
            error_code: 'rate_limit_exceeded',
            status: 429,
            rejected_count: 1 + (tokens % 3),
          };
        return {
          type: 'settled',
          ...placed,
          model,
          outcome,
          end_reason: 'completed',
          usage_source: 'provider',
          input_tokens: tokens,
          output_tokens: tokens,
          cost_nanousd: tokens,
        };
      });
  });

const totalOf = (log: readonly Ending[]): Tally => {
  const tally = noTally();
  for (const ending of log) countEnding(tally, ending);
  return tally;
};
const callsIn = (rows: readonly { tally: Tally }[]): number =>
  rows.reduce((sum, { tally }) => sum + requestCountOf(tally), 0);

function expectWhole(view: LiveView, log: readonly Ending[]): void {
  const total = totalOf(log);
  expect(view.total).toEqual(total);
  expect(callsIn(view.byKey.first)).toBe(requestCountOf(total));
  expect(callsIn(view.byModel.first)).toBe(requestCountOf(total));
  expect(callsIn(view.buckets)).toBe(requestCountOf(total));
}

test('every ended request is counted once, at any position of the projections', () => {
  const cut = fc.integer({ min: 0, max: 120 });
  fc.assert(
    fc.property(logs, cut, cut, cut, (log, series, groups, calls) => {
      const store = new LiveStore(baseOf(log, { series, groups, calls }));
      apply(
        store,
        log.filter(({ position }) => position > Math.min(series, groups, calls)),
      );
      expectWhole(store.view(NOW_MS), log);
    }),
  );
});

test('a frame received twice is counted once', () => {
  fc.assert(
    fc.property(logs, fc.integer({ min: 0, max: 120 }), (log, again) => {
      const store = new LiveStore(sameBase(log, 0));
      apply(store, log);
      apply(
        store,
        log.filter(({ position }) => position > again),
      );
      expectWhole(store.view(NOW_MS), log);
    }),
  );
});

test('a newer base replaces an older one without losing or double-counting frames', () => {
  const cut = fc.integer({ min: 0, max: 120 });
  fc.assert(
    fc.property(logs, cut, cut, (log, first, second) => {
      const [early, late] = [Math.min(first, second), Math.max(first, second)];
      const store = new LiveStore(sameBase(log, early));
      apply(
        store,
        log.filter(({ position }) => position > early),
      );
      expect(store.rebase(sameBase(log, late))).toBe(true);
      expectWhole(store.view(NOW_MS), log);
    }),
  );
});

test('the newest requests are listed completely, at any position of the projections', () => {
  const cut = fc.integer({ min: 0, max: 120 });
  fc.assert(
    fc.property(logs, cut, cut, (log, seen, rebased) => {
      const store = new LiveStore(sameBase([], 0));
      apply(
        store,
        log.filter(({ position }) => position <= seen),
      );
      store.rebase(sameBase(log, rebased));
      apply(
        store,
        log.filter(({ position }) => position > seen),
      );
      expect(store.view(NOW_MS).last.map(({ request }) => request)).toEqual(
        log
          .slice(-10)
          .map(({ request }) => request)
          .toReversed(),
      );
    }),
  );
});

test('the count is marked as partial until a list includes all running requests', () => {
  const rows = [runningRow(1), runningRow(2)];
  const base = sameBase([], 5);
  const store = new LiveStore({
    ...base,
    running: { ...base.running, data: rows.slice(0, 1), next: 'more' },
  });
  expect(store.view(NOW_MS)).toMatchObject({ runningCount: 1, hasMoreRunning: true });
  store.rebase({ ...base, running: { ...base.running, data: rows } });
  expect(store.view(NOW_MS)).toMatchObject({ runningCount: 2, hasMoreRunning: false });
});

test('after a gap only a newer base is accepted, and the view is marked as incomplete until then', () => {
  const log: Ending[] = [1, 2, 3, 4].map((position) => ({
    type: 'refused',
    route: '/v1/chat/completions',
    position,
    at: new Date(NOW_MS).toISOString(),
    request: idOf(position),
    account: 'Account1',
    key: 'Key00001',
    error_code: 'x',
    status: 429,
    rejected_count: 1,
  }));
  const store = new LiveStore(sameBase(log, 0));
  apply(store, [log[0] as Ending, { type: 'gap', position: 3 }, log[3] as Ending]);
  expect(store.view(NOW_MS).isMissing).toBe(true);
  expect(store.rebase(sameBase(log, 2))).toBe(false);
  expect(store.view(NOW_MS).isMissing).toBe(true);
  expect(store.rebase(sameBase(log, 3))).toBe(true);
  expect(store.view(NOW_MS).isMissing).toBe(false);
  expectWhole(store.view(NOW_MS), log);
});

test('a request runs from start to end, with its tokens so far', () => {
  const store = new LiveStore(sameBase([], 10));
  const [one, two] = [idOf(11), idOf(12)];
  const call = { account: 'Account1', key: 'Key00001', model: 'm' };
  apply(store, [
    { type: 'progress', request: one, ...call, output_tokens: 3 },
    started(11, one),
    started(12, two),
    { type: 'progress', request: one, ...call, output_tokens: 7 },
  ]);
  expect(
    Object.fromEntries(
      store.view(NOW_MS).running.map(({ request, outputTokens }) => [request, outputTokens]),
    ),
  ).toEqual({ [one]: 7, [two]: null });
  apply(store, [
    {
      type: 'settled',
      position: 13,
      at: new Date(NOW_MS).toISOString(),
      request: one,
      ...call,
      outcome: 'completed',
      end_reason: 'completed',
      usage_source: 'provider',
    },
  ]);
  apply(store, [started(11, one), { type: 'progress', request: one, ...call, output_tokens: 9 }]);
  expect(store.view(NOW_MS)).toMatchObject({
    runningCount: 1,
    running: [{ request: two }],
    last: [{ request: one }],
  });
});

test('state stays bounded and sums stay exact at any volume', () => {
  const store = new LiveStore(sameBase([], 0));
  const count = 30_000;
  for (let from = 0; from < count; from += 250) {
    apply(
      store,
      Array.from({ length: 250 }, (_, index) => 2 * (from + index)).flatMap((position): Frame[] => [
        started(position + 1),
        {
          type: 'refused',
          route: '/v1/chat/completions',
          position: position + 2,
          at: new Date(NOW_MS).toISOString(),
          request: idOf(position + 2),
          account: 'Account1',
          key: `Key${position}`,
          error_code: 'x',
          status: 429,
          rejected_count: 1,
        },
      ]),
    );
  }
  const view = store.view(NOW_MS);
  expect(requestCountOf(view.total)).toBe(count);
  expect(view.runningCount).toBeLessThanOrEqual(2_000);
  expect(view.running.length).toBeLessThanOrEqual(100);
  expect(view.byKey.count).toBeLessThanOrEqual(4_000);
  expect(view.byKey.first).toHaveLength(6);
  expect(view.last).toHaveLength(10);
  // Figures from before the oldest ending that is kept can't be brought on.
  expect(store.rebase(sameBase([], 0))).toBe(false);
  expect(store.view(NOW_MS).total).toEqual(view.total);
});

test('requests per second cover the last ten full seconds of the server clock', () => {
  const store = new LiveStore(sameBase([], 0));
  const aheadMs = 3_600_000;
  const nowMs = NOW_MS + aheadMs;
  store.apply({ position: 0, at: new Date(NOW_MS).toISOString(), frames: [] }, nowMs);
  expect(store.view(nowMs).perSecond).toBeNull();
  const frames = Array.from({ length: 100 }, (_, index): Frame => ({
    type: 'refused',
    route: '/v1/chat/completions',
    position: index + 1,
    at: new Date(NOW_MS + index * 100).toISOString(),
    request: idOf(index),
    account: 'Account1',
    key: 'Key00001',
    error_code: 'x',
    status: 429,
    rejected_count: 2,
  }));
  store.apply({ position: 100, at: new Date(NOW_MS + 10_000).toISOString(), frames }, nowMs + 10_000);
  expect(store.view(nowMs + 10_000).perSecond).toBe(20);
  expect(store.view(nowMs + 60_000).perSecond).toBe(0);
  expect(store.isMoving(nowMs + 10_000)).toBe(true);
  expect(store.isMoving(nowMs + 120_000)).toBe(false);
});
