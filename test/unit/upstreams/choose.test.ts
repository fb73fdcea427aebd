import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { choose } from '#server/upstreams/choose.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import { Target } from '#server/upstreams/target.ts';
import { unsent } from '../../support/upstream/dispatched.ts';

const NONE = new Set<never>();
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

function eject({ health }: { health: Target['upstream']['health'] }, forMs: number): void {
  health.failed(0, 0, 'status_503', forMs);
}

describe('among the targets of an order', () => {
  test('each has the share that its weight says', () => {
    expect(shares([target('a', 3), target('b', 1)])).toEqual([0.75, 0.25]);
    fc.assert(
      fc.property(fc.array(fc.nat(1_000), { minLength: 1, maxLength: 6 }), (weights) => {
        const sum = weights.reduce((all, weight) => all + weight, 0);
        const found = shares(weights.map((weight, index) => target(`t${index}`, weight)));
        if (sum > 0)
          for (const [index, weight] of weights.entries())
            expect(Math.abs((found[index] as number) - weight / sum)).toBeLessThan(0.012);
        // All of no weight are there for when the others have failed, and somebody has to be the one.
        else expect(Math.max(...found)).toBe(1);
      }),
      { numRuns: 40 },
    );
  });

  test('one that is twice as slow keeps its share, and a slower one loses of it, but never all', () => {
    expect(shares([target('a', 1, 0, 100), target('b', 1, 0, 200)])).toEqual([0.5, 0.5]);
    expect(shares([target('a', 1, 0, 100), target('b', 1, 0, 800)])).toEqual([0.8, 0.2]);
    const [, slow] = shares([target('a', 1, 0, 1), target('b', 1, 0, 60_000)]) as [number, number];
    expect(slow).toBeGreaterThan(0.05);
    // Nothing is known of the third: it is as good as any.
    expect(shares([target('a', 1, 0, 100), target('b', 1, 0, 100), target('c')])).toEqual([0.33, 0.33, 0.33]);
  });

  test('one of a higher order has none while one before is there', () => {
    expect(shares([target('a', 1, 2), target('b', 1, 1), target('c', 1_000, 2)])).toEqual([0, 1, 0]);
  });

  test('a credential is that with the fewest calls', () => {
    const upstream = unsent('a', { credentials: 3 });
    const [one, two, three] = upstream.lines as [
      UpstreamConnectionPool,
      UpstreamConnectionPool,
      UpstreamConnectionPool,
    ];
    for (const line of [one, one, two, three, three]) line.health.began(0);
    expect(choose([new Target(upstream, null)], NONE, NONE, 0, 0.5)?.line).toBe(two);
  });
});

describe('what is ejected', () => {
  test('is left to the others while there is one, whatever its order or weight', () => {
    const [a, b] = [target('a', 1_000), target('b', 0, 9)];
    eject(a.upstream, 100);
    expect([shares([a, b]), shares([a, b], 100)]).toEqual([
      [0, 1],
      [1, 0],
    ]);
  });

  test('is tried where nothing else is left: first what comes back first', () => {
    const [a, b] = [target('a'), target('b', 1, 5)];
    eject(a.upstream, 300);
    eject(b.upstream, 200);
    expect(choose([a, b], NONE, NONE, 0, 0)?.target).toBe(b);
    expect(choose([a, b], new Set(b.upstream.lines), NONE, 0, 0)?.target).toBe(a);
  });

  test('is no reason to end a call that another upstream failed, though that one has another credential', () => {
    const [a, b] = [new Target(unsent('a', { credentials: 2 }), null), target('b')];
    eject(b.upstream, 300);
    expect(
      choose([a, b], new Set([a.upstream.lines[0] as UpstreamConnectionPool]), new Set(['a']), 0, 0)?.target,
    ).toBe(b);
  });

  test('may be one credential of several', () => {
    const upstream = unsent('a', { credentials: 2 });
    const [one, two] = upstream.lines as [UpstreamConnectionPool, UpstreamConnectionPool];
    eject(one, 100);
    for (let count = 0; count < 5; count++) two.health.began(0);
    expect([0, 100].map((nowMs) => choose([new Target(upstream, null)], NONE, NONE, nowMs, 0)?.line)).toEqual(
      [two, one],
    );
  });
});

test('a call that is always told to go elsewhere is at each line once, in the order of the targets, and then at its end', () => {
  const place = fc.record({
    credentials: fc.integer({ min: 0, max: 3 }),
    weight: fc.nat(3),
    order: fc.nat(3),
    ejectedMs: fc.option(fc.integer({ min: 1, max: 500 })),
    isAvoided: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.array(place, { maxLength: 5 }),
      fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
      (places, random) => {
        const avoided = new Set(places.flatMap(({ isAvoided }, index) => (isAvoided ? [`u${index}`] : [])));
        const targets = places.map(({ credentials, weight, order, ejectedMs }, index) => {
          const upstream = unsent(`u${index}`, { credentials });
          if (ejectedMs !== null) eject(upstream, ejectedMs);
          return new Target(upstream, null, weight, order);
        });
        const tried = new Set<UpstreamConnectionPool>();
        const ranks: [isEjected: number, order: number][] = [];
        for (
          let chosen = choose(targets, tried, avoided, 0, 0.5);
          chosen;
          chosen = choose(targets, tried, avoided, 0, random.next().value)
        ) {
          expect([
            tried.has(chosen.line),
            chosen.target.upstream.lines.includes(chosen.line),
            avoided.has(chosen.target.upstream.name),
          ]).toEqual([false, true, false]);
          tried.add(chosen.line);
          const { health } = chosen.target.upstream;
          ranks.push(health.isOpen(0) ? [0, chosen.target.order] : [1, health.untilMs]);
        }
        expect(ranks).toEqual(ranks.toSorted((one, other) => one[0] - other[0] || one[1] - other[1]));
        expect(tried.size).toBe(
          targets.reduce(
            (sum, { upstream: { name, lines } }) => sum + (avoided.has(name) ? 0 : lines.length),
            0,
          ),
        );
      },
    ),
    { numRuns: 500 },
  );
});
