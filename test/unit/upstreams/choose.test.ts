import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { choose } from '#server/upstreams/choose.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import { Target } from '#server/upstreams/target.ts';
import { unsent } from '../../support/upstream/dispatched.ts';
import { runs } from '../../fuzz/property-runs.ts';

const NONE: readonly never[] = [];
/** Evenly over what dispatch asks of chance. */
const chances = Array.from({ length: 1_000 }, (_, index) => index / 1_000);

function shares(targets: readonly Target[], nowMs = 0): number[] {
  const counts = new Map(targets.map((target) => [target, 0]));
  for (const random of chances) {
    const chosen = choose(targets, NONE, NONE, nowMs, random);
    if (chosen) counts.set(chosen.target, (counts.get(chosen.target) ?? 0) + 1 / chances.length);
  }
  return [...counts.values()].map((share) => Math.round(share * 100) / 100);
}

const target = (name: string, weight = 1, order = 0, latencyMs: number | null = null): Target => {
  const made = new Target(unsent(name), null, weight, order);
  if (latencyMs !== null) made.answered(latencyMs);
  return made;
};

function openCircuit({ circuit }: { circuit: Target['upstream']['circuit'] }, forMs: number): void {
  circuit.failed(0, 0, 'status_503', forMs);
}

describe('among the targets of an order', () => {
  test('each has a share in proportion to its weight', () => {
    expect(shares([target('a', 3), target('b', 1)])).toEqual([0.75, 0.25]);
    fc.assert(
      fc.property(fc.array(fc.nat(1_000), { minLength: 1, maxLength: 6 }), (weights) => {
        const sum = weights.reduce((all, weight) => all + weight, 0);
        const found = shares(weights.map((weight, index) => target(`t${index}`, weight)));
        if (sum > 0)
          for (const [index, weight] of weights.entries())
            expect(Math.abs((found[index] as number) - weight / sum)).toBeLessThan(0.012);
        // Targets without weight are used when the others have failed, and one of them is chosen.
        else expect(Math.max(...found)).toBe(1);
      }),
      runs(16),
    );
  });

  test('a target more than twice as slow loses a part of its share, never all of it', () => {
    expect(shares([target('a', 1, 0, 100), target('b', 1, 0, 200)])).toEqual([0.5, 0.5]);
    expect(shares([target('a', 1, 0, 100), target('b', 1, 0, 800)])).toEqual([0.8, 0.2]);
    const [, slow] = shares([target('a', 1, 0, 1), target('b', 1, 0, 60_000)]) as [number, number];
    expect(slow).toBeGreaterThan(0.05);
    // Nothing is known of the third: it is as good as any.
    expect(shares([target('a', 1, 0, 100), target('b', 1, 0, 100), target('c')])).toEqual([0.33, 0.33, 0.33]);
  });

  test('a target of a higher order gets no call while one of a lower order allows calls', () => {
    expect(shares([target('a', 1, 2), target('b', 1, 1), target('c', 1_000, 2)])).toEqual([0, 1, 0]);
  });

  test('chooses the credential with the fewest running calls', () => {
    const upstream = unsent('a', { credentials: 3 });
    const [one, two, three] = upstream.pools as [
      UpstreamConnectionPool,
      UpstreamConnectionPool,
      UpstreamConnectionPool,
    ];
    for (const pool of [one, one, two, three, three]) pool.circuit.began(0);
    expect(choose([new Target(upstream, null)], NONE, NONE, 0, 0.5)?.pool).toBe(two);
  });
});

describe('a target with an open circuit', () => {
  test('gets no call while another target allows one, whatever the order or weight', () => {
    const [a, b] = [target('a', 1_000), target('b', 0, 9)];
    openCircuit(a.upstream, 100);
    expect([shares([a, b]), shares([a, b], 100)]).toEqual([
      [0, 1],
      [1, 0],
    ]);
  });

  test('gets a call where every circuit is open: first the circuit that closes first', () => {
    const [a, b] = [target('a'), target('b', 1, 5)];
    openCircuit(a.upstream, 300);
    openCircuit(b.upstream, 200);
    expect(choose([a, b], NONE, NONE, 0, 0)?.target).toBe(b);
    expect(choose([a, b], b.upstream.pools, NONE, 0, 0)?.target).toBe(a);
  });

  test('gets the retry of a call that another upstream failed, even if that has a second credential', () => {
    const [a, b] = [new Target(unsent('a', { credentials: 2 }), null), target('b')];
    openCircuit(b.upstream, 300);
    expect(choose([a, b], [a.upstream.pools[0] as UpstreamConnectionPool], ['a'], 0, 0)?.target).toBe(b);
  });

  test('may be one credential of several', () => {
    const upstream = unsent('a', { credentials: 2 });
    const [one, two] = upstream.pools as [UpstreamConnectionPool, UpstreamConnectionPool];
    openCircuit(one, 100);
    for (let count = 0; count < 5; count++) two.circuit.began(0);
    expect([0, 100].map((nowMs) => choose([new Target(upstream, null)], NONE, NONE, nowMs, 0)?.pool)).toEqual(
      [two, one],
    );
  });
});

test('a call that fails everywhere is sent to each pool once, in the order of the targets', () => {
  const place = fc.record({
    credentials: fc.integer({ min: 0, max: 3 }),
    weight: fc.nat(3),
    order: fc.nat(3),
    openMs: fc.option(fc.integer({ min: 1, max: 500 })),
    isAvoided: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.array(place, { maxLength: 5 }),
      fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
      (places, random) => {
        const avoided = places.flatMap(({ isAvoided }, index) => (isAvoided ? [`u${index}`] : []));
        const targets = places.map(({ credentials, weight, order, openMs }, index) => {
          const upstream = unsent(`u${index}`, { credentials });
          if (openMs !== null) openCircuit(upstream, openMs);
          return new Target(upstream, null, weight, order);
        });
        const tried: UpstreamConnectionPool[] = [];
        const ranks: [isEjected: number, order: number][] = [];
        for (
          let chosen = choose(targets, tried, avoided, 0, 0.5);
          chosen;
          chosen = choose(targets, tried, avoided, 0, random.next().value)
        ) {
          expect([
            tried.includes(chosen.pool),
            chosen.target.upstream.pools.includes(chosen.pool),
            avoided.includes(chosen.target.upstream.name),
          ]).toEqual([false, true, false]);
          tried.push(chosen.pool);
          const { circuit } = chosen.target.upstream;
          ranks.push(circuit.allows(0) ? [0, chosen.target.order] : [1, circuit.openUntilMs]);
        }
        expect(ranks).toEqual(ranks.toSorted((one, other) => one[0] - other[0] || one[1] - other[1]));
        expect(tried.length).toBe(
          targets.reduce(
            (sum, { upstream: { name, pools: lines } }) => sum + (avoided.includes(name) ? 0 : lines.length),
            0,
          ),
        );
      },
    ),
    runs(175),
  );
});

describe('for a name', () => {
  const names = Array.from({ length: 2_000 }, (_, index) => `name-${index}`);
  const chosen = (targets: readonly Target[], name: string): string | undefined =>
    choose(targets, NONE, NONE, 0, name)?.target.upstream.name;

  test('the choice is always the same, in proportion to the weights over all names', () => {
    const [a, b, none] = [target('a', 3), target('b', 1), target('c', 0)];
    const counts = Map.groupBy(names, (name) => chosen([a, b, none], name));
    expect((counts.get('a')?.length ?? 0) / names.length).toBeCloseTo(0.75, 1);
    expect((counts.get('b')?.length ?? 0) / names.length).toBeCloseTo(0.25, 1);
    for (const name of names.slice(0, 50)) {
      // Neither the order of the targets nor running calls, latency or a target of a higher order count.
      a.answered(60_000);
      a.upstream.pools[0]?.circuit.began(0);
      expect(chosen([b, none, a, target('d', 9, 1)], name)).toBe(chosen([a, b, none], name));
    }
  });

  test('a target that is added takes its share, and moves no other name', () => {
    const [a, b, added] = [target('a'), target('b'), target('added')];
    const moved = names.filter((name) => chosen([a, b, added], name) !== chosen([a, b], name));
    expect(moved.length / names.length).toBeCloseTo(1 / 3, 1);
    expect(new Set(moved.map((name) => chosen([a, b, added], name)))).toEqual(new Set(['added']));
  });

  test('pools that were tried are not chosen again, and those whose circuit is open are passed over', () => {
    const two = new Target(unsent('a', { credentials: 2 }), null);
    const first = choose([two], NONE, NONE, 0, 'n')?.pool as UpstreamConnectionPool;
    const second = choose([two], [first], NONE, 0, 'n')?.pool;
    expect(new Set([first, second])).toEqual(new Set(two.upstream.pools));
    openCircuit(first, 1_000);
    expect(choose([two], NONE, NONE, 1, 'n')?.pool).toBe(second);
  });
});
