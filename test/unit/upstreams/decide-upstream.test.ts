import { describe, expect, test } from 'vitest';
import type { Model } from '#db/fold/model.ts';
import { evolveUpstream, type Upstream } from '#db/fold/upstream.ts';
import { type ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { defineModel, type Reachable, requireModel, retireModel } from '#server/decide/model.ts';
import {
  addCredential,
  addUpstream,
  changeUpstream,
  removeCredential,
  removeUpstream,
  requireUpstream,
} from '#server/decide/upstream.ts';
import { CREDENTIALS_MAX, SECRET_CHARACTERS_MAX } from '#server/decide/bounds.ts';

const actor = 'command-line';
const terms = UpstreamTerms.parse({
  provider: 'openai',
  base_url: 'https://api.example.com/v1',
  models: ['gpt-*'],
});
const SECRET = 'sk-canary-0123456789abcdefgh';

const upstream: Upstream = {
  name: 'one',
  terms,
  state: 'active',
  credentials: [{ id: 'Cred0001', label: 'main', last4: 'abcd', addedAt: new Date(0) }],
  billingCredentials: [],
  position: 7,
  version: 2,
};
const removed: Upstream = { ...upstream, state: 'removed', credentials: [], billingCredentials: [] };

const fails = (code: DecisionError['code'], message: string): object =>
  expect.objectContaining({
    name: 'DecisionError',
    code,
    message: expect.stringContaining(message),
  }) as object;

function failing(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

describe('given an upstream', () => {
  test('none, or one that was removed, when one is added, then it is', () => {
    const event = { type: 'upstream.added', upstream: 'one', terms, actor };
    expect(addUpstream(undefined, { name: 'one', terms, actor }, new Set())).toEqual(event);
    expect(addUpstream(removed, { name: 'one', terms, actor }, new Set())).toEqual(event);
  });

  test('rejects adding a duplicate name, one used in the environment, or an invalid one', () => {
    expect(failing(() => addUpstream(upstream, { name: 'one', terms, actor }, new Set()))).toEqual(
      fails('already_exists', '"one" already'),
    );
    expect(
      failing(() => addUpstream(undefined, { name: 'openai', terms, actor }, new Set(['openai']))),
    ).toEqual(fails('already_exists', 'environment'));
    for (const name of ['', 'One', '-one', 'one two', 'x'.repeat(65)])
      expect(failing(() => addUpstream(undefined, { name, terms, actor }, new Set()))).toEqual(
        fails('invalid', 'upstream name'),
      );
  });

  test('when it is changed to what it is, in whatever order, then nothing happens', () => {
    expect(
      changeUpstream(
        upstream,
        Object.fromEntries(Object.entries(terms).toReversed()) as UpstreamTerms,
        actor,
      ),
    ).toBeNull();
    expect(changeUpstream(upstream, { ...terms, paused: true }, actor)).toEqual({
      type: 'upstream.changed',
      upstream: 'one',
      terms: { ...terms, paused: true },
      actor,
    });
  });

  test('when it is removed while it is all that models can go to, then these are named', () => {
    const going = (name: string, targets: string[], state: Model['state'] = 'active'): Model => ({
      name,
      state,
      position: 1,
      version: 1,
      terms: { targets: targets.map((each) => ({ upstream: each, weight: 1, order: 0 })) },
    });
    const models = [
      going('fast', ['one']),
      going('both', ['one', 'two']),
      going('twice', ['one', 'one']),
      going('gone', ['one'], 'retired'),
    ];
    expect(failing(() => removeUpstream(upstream, models, actor))).toEqual(
      fails('not_allowed', 'is the only target of "fast", "twice"'),
    );
    expect(
      removeUpstream(upstream, [going('both', ['one', 'two']), going('gone', ['one'], 'retired')], actor),
    ).toEqual({ type: 'upstream.removed', upstream: 'one', actor });
  });

  test('that is not there, or no longer, when a command names it, then its sender is told', () => {
    expect(requireUpstream(upstream, 'one')).toBe(upstream);
    expect(failing(() => requireUpstream(undefined, 'none'))).toEqual(fails('not_found', '"none"'));
    expect(failing(() => requireUpstream(removed, 'one'))).toEqual(fails('not_found', '"one"'));
  });
});

describe('given a billing credential', () => {
  const billing = { id: 'Bill0001', label: 'billing', last4: 'wxyz', addedAt: new Date(0) };
  const both: Upstream = { ...upstream, billingCredentials: [billing] };

  test('shares labels and the highest number with the others, and is removed by its id', () => {
    const add = (label: string) =>
      addCredential(both, { id: 'Bill0002', label, secret: SECRET, purpose: 'billing', actor });
    expect(add('second')).toMatchObject({ credential: 'Bill0002', purpose: 'billing' });
    expect(() => add('main')).toThrow('already');
    expect(() => add('billing')).toThrow('already');
    expect(removeCredential(both, 'Bill0001', actor)).toMatchObject({ credential: 'Bill0001' });
  });

  test('is not among the credentials that calls are sent with', () => {
    const added = (credential: string, purpose?: 'billing') => ({
      event: {
        type: 'upstream.credential_added' as const,
        upstream: 'one',
        credential,
        label: credential,
        last4: '',
        actor,
        ...(purpose ? { purpose } : {}),
      },
      at: new Date(0),
      position: 8,
      version: 3,
    });
    const after = evolveUpstream(evolveUpstream(upstream, added('Bill0001', 'billing')), added('Cred0002'));
    expect(after?.credentials.map(({ id }) => id)).toEqual(['Cred0001', 'Cred0002']);
    expect(after?.billingCredentials.map(({ id }) => id)).toEqual(['Bill0001']);
    const removal = { type: 'upstream.removed' as const, upstream: 'one', actor };
    expect(evolveUpstream(after, { ...added(''), event: removal })).toMatchObject({
      credentials: [],
      billingCredentials: [],
    });
  });
});

describe('given a credential', () => {
  const add = (secret: string, label = 'second', to = upstream, replaces?: string): unknown =>
    failing(() =>
      addCredential(to, {
        id: 'Cred0002',
        label,
        secret,
        actor,
        ...(replaces === undefined ? {} : { replaces }),
      }),
    );

  test('when it is added, then the event tells the end of a long secret and nothing of a short one', () => {
    expect(add(SECRET)).toEqual({
      type: 'upstream.credential_added',
      upstream: 'one',
      credential: 'Cred0002',
      label: 'second',
      last4: 'efgh',
      actor,
    });
    expect(add('short')).toMatchObject({ last4: '' });
    expect(add('0123456789012345678')).toMatchObject({ last4: '' });
  });

  test('when its label is taken, then it is refused, but in place of the one that has it', () => {
    expect(add(SECRET, ' main ')).toEqual(fails('already_exists', '"main"'));
    expect(add(SECRET, 'main', upstream, 'Cred0001')).toMatchObject({ label: 'main' });
    for (const label of ['', ' ', 'x'.repeat(101)])
      expect(add(SECRET, label)).toEqual(fails('invalid', 'label'));
  });

  test('when there are as many as can be, then one more is refused', () => {
    const full = {
      ...upstream,
      credentials: Array.from({ length: CREDENTIALS_MAX }, (_, at) => ({
        id: `Cred${at}`,
        label: `${at}`,
        last4: '',
        addedAt: new Date(0),
      })),
    };
    expect(add(SECRET, 'more', full)).toEqual(fails('not_allowed', `${CREDENTIALS_MAX} credentials`));
    expect(add(SECRET, 'more', { ...full, credentials: full.credentials.slice(1) })).toMatchObject({
      label: 'more',
    });
  });

  test.each(['', 'sk canary', 'sk-canary\n', 'sk-cänary', 'c'.repeat(SECRET_CHARACTERS_MAX + 1)])(
    'when its secret fits into no header, then it is refused without being repeated: %j',
    (secret) => {
      const refused = add(secret) as DecisionError;
      expect(refused).toEqual(fails('invalid', 'The secret'));
      if (secret !== '') expect(refused.message).not.toContain(secret.slice(0, 5));
    },
  );

  test('of a package may be any text, and shows nothing of it', () => {
    const bridge = {
      ...upstream,
      terms: UpstreamTerms.parse({ provider: 'bridge', package: '@ai-sdk/google-vertex' }),
    };
    expect(add('{\n "private_key": "-----BEGIN"\n}', 'account', bridge)).toMatchObject({ last4: '' });
  });

  test('when it is removed, then it is, if it is there', () => {
    expect(removeCredential(upstream, 'Cred0001', actor)).toEqual({
      type: 'upstream.credential_removed',
      upstream: 'one',
      credential: 'Cred0001',
      actor,
    });
    expect(failing(() => removeCredential(upstream, 'Cred0009', actor))).toEqual(
      fails('not_found', 'Cred0009'),
    );
  });
});

describe('given models', () => {
  const to = (...names: string[]): ModelTerms => ({
    targets: names.map((each) => ({ upstream: each, weight: 1, order: 0 })),
  });
  const model = (name: string, own: ModelTerms, state: Model['state'] = 'active'): Model => ({
    name,
    terms: own,
    state,
    position: 1,
    version: 1,
  });
  const fast = model('fast', to('one'));
  const quick = model('quick', { alias_of: 'fast' });
  const old = model('old', { alias_of: 'fast' }, 'retired');
  const reachable: Reachable = {
    upstreams: new Set(['one', 'environment']),
    models: [fast, quick, old],
    isListed: (name) => name.startsWith('gpt-'),
  };
  const define = (name: string, own: ModelTerms, before?: Model): unknown =>
    failing(() => defineModel(before, { name, terms: own, actor }, reachable));

  test('when one is defined, then its calls go there, and a second time nothing happens', () => {
    expect(define('new', to('one', 'environment'))).toEqual({
      type: 'model.defined',
      model: 'new',
      terms: to('one', 'environment'),
      actor,
    });
    expect(define('fast', to('one'), fast)).toBeNull();
    expect(define('fast', to('one'), { ...fast, state: 'retired' })).toMatchObject({ type: 'model.defined' });
  });

  test('when a target names no upstream, or one twice, then it is refused', () => {
    expect(define('new', to('one', 'nowhere'))).toEqual(fails('not_found', '"nowhere"'));
    expect(define('new', to('one', 'one'))).toEqual(fails('invalid', 'twice'));
    expect(
      define('new', {
        targets: [
          { upstream: 'one', model: 'a', weight: 1, order: 0 },
          { upstream: 'one', model: 'b', weight: 1, order: 0 },
        ],
      }),
    ).toMatchObject({ type: 'model.defined' });
  });

  test('when the name is a pattern, or none, then it is refused', () => {
    expect(define('gpt-*', to('one'))).toEqual(fails('invalid', '*'));
    expect(define('', to('one'))).toEqual(fails('invalid', 'model name'));
    expect(define('ä', to('one'))).toEqual(fails('invalid', 'model name'));
  });

  test('when an alias leads to another alias, to itself, in a circle or nowhere, then it is refused', () => {
    expect(define('new', { alias_of: 'fast' })).toMatchObject({
      type: 'model.defined',
      terms: { alias_of: 'fast' },
    });
    expect(define('new', { alias_of: 'gpt-4o' })).toMatchObject({ type: 'model.defined' });
    expect(define('new', { alias_of: 'quick' })).toEqual(fails('not_allowed', 'itself an alias of "fast"'));
    expect(define('new', { alias_of: 'new' })).toEqual(fails('invalid', 'itself'));
    expect(define('fast', { alias_of: 'quick' }, fast)).toEqual(fails('not_allowed', 'alias'));
    expect(define('fast', { alias_of: 'gpt-4o' }, fast)).toEqual(fails('not_allowed', 'the alias "quick"'));
    for (const nowhere of ['typo', 'old'])
      expect(define('new', { alias_of: nowhere })).toEqual(fails('not_found', `"${nowhere}"`));
  });

  test('when one is retired, then it is, unless an alias would lead nowhere', () => {
    expect(retireModel(quick, reachable, actor)).toEqual({ type: 'model.retired', model: 'quick', actor });
    expect(retireModel(old, reachable, actor)).toBeNull();
    expect(failing(() => retireModel(fast, reachable, actor))).toEqual(
      fails('not_allowed', 'the alias "quick"'),
    );
    expect(retireModel(fast, { ...reachable, isListed: () => true }, actor)).toMatchObject({
      type: 'model.retired',
    });
    expect(failing(() => requireModel(old, 'old'))).toEqual(fails('not_found', '"old"'));
  });
});
