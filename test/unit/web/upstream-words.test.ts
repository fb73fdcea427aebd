import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UpstreamTerms } from '#db/events/upstream-events.ts';
import type { CredentialRow, UpstreamRow } from '#server/contract/upstreams.ts';
import { DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { upstreamStanding } from '../../../web/features/upstreams/health-words.ts';
import { CHOICES, looksPrivate } from '../../../web/features/upstreams/provider-choices.ts';
import { listedBy, tellTargets } from '../../../web/features/upstreams/target-words.ts';
import { formOf, newForm, termsOf } from '../../../web/features/upstreams/upstream-form.ts';
import { anyUpstreamTerms } from '../../support/upstream/arbitrary-upstream.ts';

/** What the page of upstreams makes of terms and of health, in forms and in words. */

const known = Object.fromEntries(
  Object.entries(DIALECT_TRAITS).map(([dialect, { baseUrl }]) => [dialect, { base_url: baseUrl }]),
);

describe('the form of an upstream', () => {
  test('gives back the terms that it was filled with, so that saving what was not touched changes nothing', () => {
    fc.assert(
      fc.property(anyUpstreamTerms, (terms) => {
        const { options = {}, ...rest } = terms;
        const { options: after = {}, ...others } = termsOf(formOf(terms), terms);
        expect({ ...others, options: after }).toEqual({ ...rest, options });
      }),
    );
  });

  test.each(CHOICES)(
    'begins with what is usual for $name, and needs only what nobody can know',
    ({ id, provider, example }) => {
      const form = newForm(id, known);
      const filled = {
        ...form,
        address:
          form.address === '' && provider !== 'bridge'
            ? (example ?? '').replace('RESOURCE', 'resource')
            : form.address,
        package: '@ai-sdk/amazon-bedrock',
      };
      expect(UpstreamTerms.safeParse(termsOf(filled, null)).error).toBeUndefined();
      expect(form.network).toBe(looksPrivate(form.address) ? 'private' : 'public');
    },
  );
});

const target = (upstream: string, more: { model?: string; weight?: number; order?: number } = {}) => ({
  upstream,
  weight: 1,
  order: 0,
  ...more,
});

describe('where the calls of a model go', () => {
  test.each([
    ['one', [target('a')], ['Every call goes to a.']],
    [
      'one of another name, with a fallback',
      [target('a', { model: 'gpt-4o' }), target('b', { order: 1 })],
      ['Every call goes to a (as gpt-4o).', 'When it has failed, b takes over.'],
    ],
    [
      'two by weight, then a third',
      [target('a', { weight: 7 }), target('b', { weight: 3 }), target('c', { order: 2 })],
      [
        '70 % of calls go to a, 30 % to b; where one fails, the other is tried.',
        'When both have failed, c takes over.',
      ],
    ],
    [
      'one that only stands in',
      [target('a'), target('b', { weight: 0 })],
      ['Every call goes to a.', 'b is tried only when that one fails.'],
    ],
    [
      'a share that is hardly one',
      [target('a', { weight: 999 }), target('b')],
      ['over 99 % of calls go to a, under 1 % to b; where one fails, the other is tried.'],
    ],
    [
      'none with a weight',
      [target('a', { weight: 0 }), target('b', { weight: 0 })],
      ['Every call goes to b.', 'a is tried only when that one fails.'],
    ],
  ])('is told in plain English: %s', (_what, targets, told) =>
    expect(tellTargets('fast', targets)).toEqual(told),
  );

  test('names those that are paused', () => {
    expect(tellTargets('fast', [target('a'), target('b', { order: 1 })], new Set(['a', 'x']))).toContain(
      'a is paused, and left out until resumed.',
    );
  });

  const lists = (name: string, models: string[]): UpstreamRow =>
    ({ name, terms: { models } }) as unknown as UpstreamRow;
  test.each([
    ['gpt-4o', 'b'],
    ['gpt-4.1', 'a'],
    ['o3', 'c'],
    ['xgpt-4o', 'c'],
  ])(
    'without a definition: %s to %s, an exact name before any pattern and then the first',
    (model, upstream) => {
      expect(
        listedBy(model, [lists('a', ['gpt-*']), lists('b', ['gpt-4o', 'gpt-4.*']), lists('c', ['*'])]),
      ).toBe(upstream);
    },
  );
  test('to nobody where nobody lists it', () =>
    expect(listedBy('gpt-4x1', [lists('a', ['gpt-4.1', 'gpt-4.*'])])).toBeNull());
});

describe('how an upstream fares', () => {
  const good = { state: 'good', problem: null, failures: 0, ejected_ms: 0, running: 0 } as const;
  const out = {
    state: 'ejected',
    problem: 'status_401',
    failures: 1,
    ejected_ms: 1_500,
    running: 0,
  } as const;
  const credential = (health: CredentialRow['health']): CredentialRow => ({
    id: 'Abcd1234',
    source: 'log',
    label: 'main',
    last4: '',
    added_at: null,
    health,
  });
  const words = (
    row: Partial<Pick<UpstreamRow, 'state' | 'health'>>,
    ...healths: CredentialRow['health'][]
  ): string =>
    upstreamStanding({ state: 'in_use', health: good, ...row, credentials: healths.map(credential) }).word;

  test('is the worst that a call would meet', () => {
    expect(words({}, good, good)).toBe('No trouble');
    expect(words({}, good, out)).toBe('In part');
    expect(words({}, good, null)).toBe('In part');
    expect(words({}, out, out)).toBe('Left out');
    expect(words({}, out)).toBe('Left out');
    expect(words({}, null)).toBe('Does not open');
    expect(words({ health: { ...good, state: 'failing', failures: 2, problem: 'cut' } }, good)).toBe(
      'Failing',
    );
    expect(words({ health: { ...out, problem: 'unreachable' } }, good, good)).toBe('Left out');
    expect(words({ health: { ...good, state: 'on_trial' } }, out)).toBe('On trial');
    expect(words({ state: 'paused', health: out }, out)).toBe('Paused');
    expect(words({ state: 'no_credential' }, null)).toBe('No credential');
  });

  test('says why, and when it is tried again, in whole seconds', () => {
    expect(upstreamStanding({ state: 'in_use', health: good, credentials: [credential(out)] }).detail).toBe(
      'Calls go elsewhere where they can (it answered 401). It is tried again in 2\u00a0s.',
    );
  });
});
