import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { matches } from '#db/limits/permissions.ts';
import { ModelTable } from '#server/upstreams/model-table.ts';
import { openUpstream, type Upstream } from '#server/upstreams/upstream.ts';

/** None of them is connected to, so that nothing has to be closed. */
const upstream = (name: string, ...models: string[]): Upstream =>
  openUpstream(
    {
      name,
      terms: {
        provider: 'openai',
        base_url: `https://${name}.example/v1`,
        models,
        network: 'public',
        on_client_disconnect: 'cancel',
        retries: 0,
        paused: false,
      },
      credentials: [],
    },
    () => ({}),
  );

const matchesPattern = (pattern: string, name: string): boolean => matches(pattern.split('*'), name);

describe('a pattern', () => {
  test('matches what the same regular expression matches', () => {
    const text = (characters: string): fc.Arbitrary<string> =>
      fc.string({ unit: fc.constantFrom(...characters.split('')), maxLength: 10 });
    let matched = 0;
    fc.assert(
      fc.property(
        text('ab.**').filter((each) => each.includes('*')),
        text('ab.c'),
        (pattern, name) => {
          const expected = new RegExp(
            `^${pattern
              .split('*')
              .map((part) => RegExp.escape(part))
              .join('.*')}$`,
            's',
          ).test(name);
          if (expected && pattern !== '*') matched++;
          expect(matchesPattern(pattern, name)).toBe(expected);
        },
      ),
      { numRuns: 10_000 },
    );
    expect(matched).toBeGreaterThan(200);
  });

  test('matches every name that is made from it', () => {
    const part = fc.string({ maxLength: 5 }).map((text) => text.replaceAll('*', ''));
    fc.assert(
      fc.property(fc.array(part, { minLength: 2, maxLength: 5 }), fc.infiniteStream(part), (parts, fill) => {
        const name = parts.reduce((before, after) => before + fill.next().value + after);
        expect(matches(parts, name)).toBe(true);
      }),
    );
  });

  test.each([
    ['*', '', true],
    ['gpt-*', 'gpt-', true],
    ['gpt-*', 'gpt', false],
    ['*-mini', 'gpt-4o-mini', true],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['ab*ba', 'aba', false],
    ['a*b*a', 'aba', true],
    ['a*b*a', 'aa', false],
    ['gpt.4*', 'gpt-4o', false],
    ['GPT-*', 'gpt-4o', false],
  ])('%j on %j is %s', (pattern, name, expected) => {
    expect(matchesPattern(pattern, name)).toBe(expected);
  });

  test('with a hundred wildcards does not make a long name expensive', () => {
    // A backtracking matcher would try the places of all hundred before it said no.
    const parts = ['', ...Array.from({ length: 100 }, () => 'a'), 'c', 'b'];
    expect(matches(parts, `${'a'.repeat(100_000)}b`)).toBe(false);
    expect(matches(parts, `${'a'.repeat(100_000)}cb`)).toBe(true);
  });
});

describe('the upstream of a model', () => {
  const table = new ModelTable(
    [],
    [
      upstream('first', 'gpt-*', 'exact'),
      upstream('second', 'gpt-4o', 'exact', 'llama'),
      upstream('third', '*-mini', '*'),
    ],
  );
  const nameOf = (model: string): string | undefined => table.servedBy(model)?.name;

  test('is one that names it exactly, before any whose pattern fits', () => {
    expect(nameOf('gpt-4o')).toBe('second');
  });

  test('is the first of those that fit equally well', () => {
    expect(nameOf('exact')).toBe('first');
    expect(nameOf('gpt-4o-mini')).toBe('first');
    expect(nameOf('o3-mini')).toBe('third');
  });

  test('is none when nothing fits, however the name tries', () => {
    const strict = new ModelTable([], [upstream('only', 'llama')]);
    for (const name of ['Llama', 'llama ', '', '*', '__proto__', 'constructor'])
      expect(strict.find(name, '/v1/chat/completions')).toBe('unknown');
  });

  test('is listed where it is configured by name', () => {
    expect(table.names).toEqual(['exact', 'gpt-4o', 'llama']);
  });
});
