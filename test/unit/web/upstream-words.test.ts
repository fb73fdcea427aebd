import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UpstreamTerms } from '#db/events/upstream-events.ts';
import type { CredentialRow, UpstreamRow } from '#server/contract/upstreams.ts';
import { DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { upstreamStatus } from '../../../web/features/upstreams/health-status.ts';
import { CHOICES, looksPrivate } from '../../../web/features/upstreams/provider-choices.ts';
import { listedBy, describeTargets } from '../../../web/features/upstreams/routing-words.ts';
import { toForm, newForm, toTerms } from '../../../web/features/upstreams/upstream-form.ts';
import { anyUpstreamTerms } from '../../support/upstream/arbitrary-upstream.ts';

/** Forms and texts of the upstreams page. */

const known = Object.fromEntries(
  Object.entries(DIALECT_TRAITS).map(([dialect, { baseUrl }]) => [dialect, { base_url: baseUrl }]),
);

describe('the form of an upstream', () => {
  test('round-trips the terms, so that saving without edits changes nothing', () => {
    fc.assert(
      fc.property(anyUpstreamTerms, (terms) => {
        const { options = {}, ...rest } = terms;
        const { options: after = {}, ...others } = toTerms(toForm(terms), terms);
        expect({ ...others, options: after }).toEqual({ ...rest, options });
      }),
    );
  });

  test.each(CHOICES)('starts with valid defaults for $name', ({ id, provider, example }) => {
    const form = newForm(id, known);
    const filled = {
      ...form,
      address:
        form.address === '' && provider !== 'bridge'
          ? (example ?? '').replace('RESOURCE', 'resource')
          : form.address,
      package: '@ai-sdk/amazon-bedrock',
    };
    expect(UpstreamTerms.safeParse(toTerms(filled, null)).error).toBeUndefined();
    expect(form.network).toBe(looksPrivate(form.address) ? 'private' : 'public');
  });
});

const target = (upstream: string, more: { model?: string; weight?: number; order?: number } = {}) => ({
  upstream,
  weight: 1,
  order: 0,
  ...more,
});

describe('model routing', () => {
  test.each([
    ['one', [target('a')], ['All requests go to a.']],
    [
      'one of another name, with a fallback',
      [target('a', { model: 'gpt-4o' }), target('b', { order: 1 })],
      ['All requests go to a (as gpt-4o).', 'If it fails, requests go to b.'],
    ],
    [
      'two by weight, then a third',
      [target('a', { weight: 7 }), target('b', { weight: 3 }), target('c', { order: 2 })],
      [
        '70% of requests go to a, 30% to b. If one fails, the other is used.',
        'If both fail, requests go to c.',
      ],
    ],
    [
      'a standby',
      [target('a'), target('b', { weight: 0 })],
      ['All requests go to a.', 'b is used only if it fails.'],
    ],
    [
      'a very small share',
      [target('a', { weight: 999 }), target('b')],
      ['over 99% of requests go to a, under 1% to b. If one fails, the other is used.'],
    ],
    [
      'only weights of 0',
      [target('a', { weight: 0 }), target('b', { weight: 0 })],
      ['All requests go to b.', 'a is used only if it fails.'],
    ],
  ])('is described in plain English: %s', (_what, targets, sentences) =>
    expect(describeTargets('fast', targets)).toEqual(sentences),
  );

  test('names paused targets', () => {
    expect(describeTargets('fast', [target('a'), target('b', { order: 1 })], new Set(['a', 'x']))).toContain(
      'a is paused and skipped.',
    );
  });

  const lists = (name: string, models: string[]): UpstreamRow =>
    ({ name, terms: { models } }) as unknown as UpstreamRow;
  test.each([
    ['gpt-4o', 'b'],
    ['gpt-4.1', 'a'],
    ['o3', 'c'],
    ['xgpt-4o', 'c'],
  ])('without a custom model: %s to %s, exact names before patterns, then list order', (model, upstream) => {
    expect(
      listedBy(model, [lists('a', ['gpt-*']), lists('b', ['gpt-4o', 'gpt-4.*']), lists('c', ['*'])]),
    ).toBe(upstream);
  });
  test('to no upstream if none lists the model', () =>
    expect(listedBy('gpt-4x1', [lists('a', ['gpt-4.1', 'gpt-4.*'])])).toBeNull());
});

describe('the health of an upstream', () => {
  const healthy = { state: 'healthy', problem: null, failures: 0, open_ms: 0, running: 0 } as const;
  const out = {
    state: 'open',
    problem: 'status_401',
    failures: 1,
    open_ms: 1_500,
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
    upstreamStatus({ state: 'in_use', health: healthy, ...row, credentials: healths.map(credential) }).word;

  test('is the worst status that a request may meet', () => {
    expect(words({}, healthy, healthy)).toBe('Healthy');
    expect(words({}, healthy, out)).toBe('Degraded');
    expect(words({}, healthy, null)).toBe('Degraded');
    expect(words({}, out, out)).toBe('Circuit open');
    expect(words({}, out)).toBe('Circuit open');
    expect(words({}, null)).toBe('Can’t decrypt');
    expect(words({ health: { ...healthy, state: 'degraded', failures: 2, problem: 'cut' } }, healthy)).toBe(
      'Degraded',
    );
    expect(words({ health: { ...out, problem: 'unreachable' } }, healthy, healthy)).toBe('Circuit open');
    expect(words({ health: { ...healthy, state: 'half_open' } }, out)).toBe('Half-open');
    expect(words({ state: 'paused', health: out }, out)).toBe('Paused');
    expect(words({ state: 'no_credential' }, null)).toBe('No credential');
  });

  test('gives the reason, and when it is retried, in whole seconds', () => {
    expect(upstreamStatus({ state: 'in_use', health: healthy, credentials: [credential(out)] }).detail).toBe(
      'Temporarily skipped (status 401). Retries in 2\u00a0s.',
    );
  });
});
