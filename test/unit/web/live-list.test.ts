import { describe, expect, it } from 'vitest';
import { uuidv7 } from '#db/ids.ts';
import type { Frame } from '#server/contract/frames.ts';
import type { RequestFilter, RequestRow } from '#server/contract/requests.ts';
import { LIVE_ROWS_MAX, LiveList } from '../../../web/features/requests/live-list.ts';

const NOW_MS = Date.parse('2026-05-04T10:00:00.000Z');
const call = { account: 'aaaaaaaa', key: 'kkkkkkkk', model: 'm' };

/** The request that was made so many milliseconds after the beginning. */
const made = (ms: number): { request: string; at: string; ms: number } => ({
  request: uuidv7(NOW_MS + ms),
  at: new Date(NOW_MS + ms).toISOString(),
  ms,
});
type Made = ReturnType<typeof made>;

const started = ({ request, at, ms }: Made): Frame => ({
  type: 'started',
  route: '/v1/chat/completions',
  ...call,
  request,
  at,
  position: 1_000 + ms,
  sse: true,
  body_bytes: 1,
  hold_tokens: 9,
});
const settled = ({ request, at, ms }: Made): Frame => ({
  type: 'settled',
  ...call,
  request,
  at,
  position: 900_000 + ms,
  outcome: 'completed',
  end_reason: 'completed',
  usage_source: 'provider',
  status: 200,
  input_tokens: 3,
  output_tokens: 5,
});
const row = ({ request, at, ms }: Made, more: Partial<RequestRow> = {}): RequestRow => ({
  ...call,
  request,
  accepted_at: at,
  ended_at: at,
  corrected: null,
  route: '/v1/chat/completions',
  upstream: null,
  end_user: null,
  session: null,
  tags: [],
  outcome: 'completed',
  end_reason: 'completed',
  error_code: null,
  rejected_count: null,
  status: 200,
  sse: true,
  input_tokens: 1,
  cache_read_tokens: 0,
  cache_write_tokens: null,
  output_tokens: 1,
  reasoning_tokens: 0,
  usage_source: 'provider',
  cost_nanousd: null,
  first_byte_ms: 1,
  duration_ms: 1,
  attempt_count: 1,
  retry_count: null,
  observed: null,
  hold_tokens: 1,
  hold_cost_nanousd: null,
  position: 1_000 + ms,
  end_position: 2,
  ...more,
});

/** A list with a subscriber. `shown` returns the next paint. */
function open(filter: RequestFilter = {}, isOpen = true) {
  const list = new LiveList(filter, isOpen);
  list.subscribe(() => {});
  let fetched: Parameters<typeof list.setFetched>[0] = { rows: [], reachesTo: null };
  const paint = () => {
    list.setFetched(fetched);
    return list.shown;
  };
  return {
    list,
    fetch: (rows: readonly RequestRow[], reachesTo: string | null = null) => {
      fetched = { rows, reachesTo };
      paint();
    },
    shown: () => paint().rows.map(({ request }) => request),
    outcomes: () => paint().rows.map(({ outcome }) => outcome),
    newCount: () => paint().newCount,
    isCut: () => paint().isCut,
  };
}

describe('the list of requests', () => {
  it('shows fetched rows once, with newer live rows above, newest first', () => {
    const { list, fetch, shown } = open();
    const [old, both, fresh] = [made(0), made(1), made(2)];
    list.apply([started(both), started(fresh)]);
    fetch([row(both), row(old)]);
    expect(shown()).toEqual([fresh.request, both.request, old.request]);
  });

  it('takes the end of a request from the feed or the fetch, whichever has it', () => {
    const { list, fetch, outcomes } = open();
    const [first, second] = [made(1), made(0)];
    fetch([row(first, { outcome: 'running', end_position: null }), row(second)]);
    list.apply([settled(first), started(second)]);
    expect(outcomes()).toEqual(['completed', 'completed']);
  });

  it('shows only rows that match the filter, and drops those that no longer do', () => {
    const { list, shown } = open({ outcome: 'running' });
    const [one, other] = [made(0), made(1)];
    list.apply([started(one), started(other)]);
    expect(shown()).toHaveLength(2);
    list.apply([settled(one)]);
    expect(shown()).toEqual([other.request]);
  });

  it('skips rows of pages that are not fetched yet, so that there is no gap', () => {
    const { list, fetch, shown } = open();
    const [newer, edge, older] = [made(20), made(10), made(0)];
    fetch([row(newer), row(edge)], edge.at);
    list.apply([settled(older)]);
    expect(shown()).toEqual([newer.request, edge.request]);
    fetch([row(newer), row(edge)]);
    expect(shown()).toHaveLength(3);
  });

  it('paused: no row is added, removed or moved, ends are still shown, and new requests are counted', () => {
    const { list, shown, outcomes, newCount } = open({ outcome: 'running' });
    const [one, other, late] = [made(0), made(1), made(2)];
    list.apply([started(one), started(other)]);
    const before = shown();
    list.setPaused(true);
    list.apply([started(late), settled(other)]);
    expect(shown()).toEqual(before);
    expect(outcomes()).toEqual(['completed', 'running']);
    expect(newCount()).toBe(1);
    list.setPaused(false);
    expect(shown()).toEqual([late.request, one.request]);
    expect(newCount()).toBe(0);
  });

  it('bounds the number of live rows, and reports where rows are missing', () => {
    const { list, fetch, shown, isCut } = open();
    const fetchedBefore = made(-1);
    fetch([row(fetchedBefore)]);
    const many = Array.from({ length: LIVE_ROWS_MAX + 5 }, (_, ms) => made(ms));
    list.apply(many.map(started));
    expect(isCut()).toBe(true);
    expect(shown()).toEqual(
      many
        .slice(5)
        .map(({ request }) => request)
        .toReversed(),
    );
    list.closeGap();
    fetch([
      ...many
        .slice(0, 5)
        .toReversed()
        .map((each) => row(each)),
      row(fetchedBefore),
    ]);
    expect(shown()).toHaveLength(LIVE_ROWS_MAX + 6);
  });

  it('keeps the rows of a paused list while the bound is exceeded', () => {
    const { list, shown, isCut } = open();
    const held = made(0);
    list.apply([started(held)]);
    expect(shown()).toEqual([held.request]);
    list.setPaused(true);
    list.apply(Array.from({ length: LIVE_ROWS_MAX * 2 }, (_, ms) => started(made(ms + 1))));
    expect(shown()).toEqual([held.request]);
    expect(isCut()).toBe(false);
    list.setPaused(false);
    expect(isCut()).toBe(true);
  });

  it('drops running rows after a gap, since their end may have been missed', () => {
    const { list, fetch, shown, outcomes } = open();
    const [running, ended] = [made(1), made(0)];
    list.apply([started(running), started(ended), settled(ended)]);
    list.apply([{ type: 'gap', position: 2_000_000 }]);
    expect(shown()).toEqual([ended.request]);
    fetch([row(running), row(ended)]);
    expect(outcomes()).toEqual(['completed', 'completed']);
  });

  it('adds no new rows to a range with an end', () => {
    const { list, fetch, outcomes } = open({}, false);
    const known = made(0);
    fetch([row(known, { outcome: 'running', end_position: null })]);
    list.apply([started(made(5)), settled(known)]);
    expect(outcomes()).toEqual(['completed']);
  });
});
