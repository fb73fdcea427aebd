import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Model } from '#db/fold/model.ts';
import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import type { ModelTerms } from '#db/events/upstream-events.ts';
import { matches } from '#db/limits/permissions.ts';
import { ModelTable } from '#server/upstreams/model-table.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import { unsent } from '../../support/upstream/dispatched.ts';

const model = (name: string, terms: ModelTerms, state: Model['state'] = 'active'): Model => ({
  name,
  terms,
  state,
  position: 1,
  version: 1,
});
const to = (
  ...targets: { upstream: string; model?: string; weight?: number; order?: number }[]
): ModelTerms => ({ targets: targets.map((target) => ({ weight: 1, order: 0, ...target })) });

/** Where its calls may go: `upstream/model` of each target, or the word that says why nowhere. */
const found = (
  table: ModelTable,
  name: string,
  route: Parameters<ModelTable['find']>[1] = CHAT_COMPLETIONS,
): string[] | string => {
  const targets = table.find(table.resolve(name), route);
  return typeof targets === 'string'
    ? targets
    : targets.map(({ upstream, model: its, weight, order }) => `${upstream.name}/${its} ${weight}@${order}`);
};

describe('a model', () => {
  const [a, b] = [
    unsent('a', { models: ['gpt-*', 'shared'] }),
    unsent('b', { models: ['*', 'shared', 'exact'] }),
  ];

  test('goes where its definition says, before what any upstream lists', () => {
    const table = new ModelTable(
      [model('exact', to({ upstream: 'a', model: 'gpt-4o', weight: 3 }, { upstream: 'b', order: 1 }))],
      [a, b],
    );
    expect(found(table, 'exact')).toEqual(['a/gpt-4o 3@0', 'b/exact 1@1']);
    expect(found(table, 'shared')).toEqual(['a/null 1@0']);
    expect(found(table, 'gpt-5')).toEqual(['a/null 1@0']);
    expect(found(table, 'anything')).toEqual(['b/null 1@0']);
  });

  test('goes where its upstreams list it once it is retired', () => {
    const table = new ModelTable(
      [model('exact', to({ upstream: 'a' }), 'retired'), model('gone', { alias_of: 'exact' }, 'retired')],
      [a, b],
    );
    expect([found(table, 'exact'), table.resolve('gone')]).toEqual([['b/null 1@0'], 'gone']);
  });

  test('that stands for another is that one, defined, listed or fitting a pattern', () => {
    const table = new ModelTable(
      [
        model('one', to({ upstream: 'b', model: 'x' })),
        model('first', { alias_of: 'one' }),
        model('second', { alias_of: 'exact' }),
        model('third', { alias_of: 'gpt-9' }),
      ],
      [a, b],
    );
    expect(['first', 'second', 'third'].map((name) => [table.resolve(name), found(table, name)])).toEqual([
      ['one', ['b/x 1@0']],
      ['exact', ['b/null 1@0']],
      ['gpt-9', ['a/null 1@0']],
    ]);
    expect(table.names).toEqual(['first', 'second', 'third', 'one', 'shared', 'exact']);
  });

  test("whose upstreams are all gone is nobody's, and one of two is the other's", () => {
    const table = new ModelTable(
      [model('one', to({ upstream: 'gone' })), model('two', to({ upstream: 'gone' }, { upstream: 'a' }))],
      [a],
    );
    expect([found(table, 'one'), found(table, 'two')]).toEqual(['unknown', ['a/two 1@0']]);
  });
});

describe('an upstream that can not be called', () => {
  const running = unsent('running', { models: ['x'] });
  const both = [
    model('both', to({ upstream: 'stopped' }, { upstream: 'running', order: 1 })),
    model('alone', to({ upstream: 'stopped' })),
  ];
  test.each<[string, Upstream]>([
    ['is paused', unsent('stopped', { models: ['x', 'own'], paused: true })],
    ['lacks its credential', unsent('stopped', { models: ['x', 'own'], credentials: 0 })],
  ])('because it %s leaves its models to the others, and says so of those it has alone', (_, stopped) => {
    const table = new ModelTable(both, [stopped, running]);
    expect([found(table, 'both'), found(table, 'alone'), found(table, 'own')]).toEqual([
      ['running/both 1@1'],
      'paused',
      'paused',
    ]);
    // Who lists the name first has it, paused or not: another may mean another model by it.
    expect(found(table, 'x')).toBe('paused');
  });

  test('by a route leaves the route to the others', () => {
    const table = new ModelTable(both, [unsent('stopped', { routes: ['/v1/rerank'] }), running]);
    expect([
      found(table, 'both'),
      found(table, 'alone'),
      found(table, 'alone', '/v1/rerank'),
      found(table, 'both', '/v1/rerank'),
    ]).toEqual([['running/both 1@1'], 'route', ['stopped/alone 1@0'], ['stopped/both 1@0']]);
    const paused = new ModelTable(both, [unsent('stopped', { routes: ['/v1/rerank'], paused: true })]);
    expect([found(paused, 'alone'), found(paused, 'alone', '/v1/rerank')]).toEqual(['route', 'paused']);
  });
});

test('a name resolves to the targets of its definition, or else to the first upstream that lists it', () => {
  const name = fc.constantFrom('a', 'b', 'ab', 'abc', 'a-b');
  const pattern = fc.oneof(name, fc.constantFrom('*', 'a*', '*b', 'a*b'));
  const upstreams = fc.array(
    fc.record({ models: fc.array(pattern, { maxLength: 4 }), isPaused: fc.boolean() }),
    { maxLength: 4 },
  );
  const defined = fc.dictionary(
    name,
    fc.oneof(fc.array(fc.nat(5), { minLength: 1, maxLength: 4 }), fc.record({ alias_of: name })),
    { maxKeys: 4, noNullPrototype: true },
  );
  fc.assert(
    fc.property(upstreams, defined, name, (places, definitions, asked) => {
      const open = places.map(({ models, isPaused }, index) =>
        unsent(`u${index}`, { models, paused: isPaused }),
      );
      const models = Object.entries(definitions).map(([each, terms]) =>
        model(each, Array.isArray(terms) ? to(...terms.map((index) => ({ upstream: `u${index}` }))) : terms),
      );
      const table = new ModelTable(models, open);

      const terms = definitions[asked];
      const resolved = terms && !Array.isArray(terms) ? terms.alias_of : asked;
      expect(table.resolve(asked)).toBe(resolved);
      const own = definitions[resolved];
      const listing =
        open.find((each) => each.terms.models.includes(resolved)) ??
        open.find((each) =>
          each.terms.models.some((its) => its.includes('*') && matches(its.split('*'), resolved)),
        );
      const expected = Array.isArray(own)
        ? own.flatMap((index) => open[index] ?? [])
        : listing
          ? [listing]
          : [];
      const willing = expected.filter((each) => !each.terms.paused);
      const targets = table.find(resolved, CHAT_COMPLETIONS);
      if (expected.length === 0) expect(targets).toBe('unknown');
      else if (willing.length === 0) expect(targets).toBe('paused');
      else
        expect(
          Array.isArray(targets) && targets.map(({ upstream }: { upstream: Upstream }) => upstream.name),
        ).toEqual(willing.map((each) => each.name));
    }),
    { numRuns: 1_000 },
  );
});
