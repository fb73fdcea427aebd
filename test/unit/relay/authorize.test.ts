import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { streamOf } from '#db/events/streams.ts';
import type { ControlEvent, KeyTerms, Placed, PlanTerms } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import { ROUTES } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { ReadModel } from '#server/read-model/read-model.ts';
import { authorize, authorizeModel } from '#server/access/authorize.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import { dryRun } from '#server/access/dry-run.ts';
import { anyKeyTerms, anyPlanTerms } from '../../support/log/arbitrary-event.ts';

const actor = 'command-line';
const ids = { account: 'Account1', key: 'Key00001' };
const suspended: ControlEvent = { type: 'account.suspended', account: 'Account1', actor };
const retired: ControlEvent = { type: 'plan.retired', plan: 'free', actor };
const chat: RequestContext = { route: '/v1/chat/completions', origin: null, address: '203.0.113.9' };

let model: ReadModel;
let position: number;

function happened(...events: ControlEvent[]): void {
  model.apply(
    events.map((event): Placed<ControlEvent> => ({
      shard: 0,
      position: ++position,
      at: new Date(0),
      instance: 1,
      stream: streamOf(event),
      version: 1,
      event,
    })),
  );
}
const onPlan = (terms: PlanTerms): void =>
  happened(
    { type: 'plan.defined', plan: 'free', terms, actor },
    { type: 'account.plan_changed', account: 'Account1', plan: 'free', windows: 'keep', actor },
  );
const restricted = (terms: KeyTerms): void =>
  happened({ type: 'key.restricted', ...ids, terms, windows: 'keep', actor });
const key = (): Key => model.key('Key00001') as Key;
const ask = (caller: Partial<RequestContext> = {}): ApiError | null =>
  authorize(key(), { ...chat, ...caller }, model);
const askModel = (name: string): ApiError | null => authorizeModel(key(), name, model);

beforeEach(() => {
  model = new ReadModel();
  position = 0;
  happened(
    { type: 'account.registered', account: 'Account1', name: 'first', actor },
    { type: 'key.created', ...ids, name: 'laptop', digest: 'a'.repeat(64), last4: 'aaaa', actor },
  );
});

test('an account on no plan may use everything from anywhere with a plain key', () => {
  expect([ask(), ask({ origin: 'https://evil.example', address: '' }), askModel('anything')]).toEqual([
    null,
    null,
    null,
  ]);
});

describe('an account', () => {
  test('that is suspended is a 403 for each of its valid keys, until it is reinstated', () => {
    happened(suspended);
    expect(ask()).toMatchObject({ status: 403, code: 'account_disabled' });
    happened({ type: 'account.reinstated', account: 'Account1', actor });
    expect(ask()).toBeNull();
  });

  test('on a plan that is retired is a 403 that names the plan, until it is put on another', () => {
    onPlan({});
    expect(ask()).toBeNull();
    happened(retired);
    expect(ask()).toMatchObject({
      status: 403,
      code: 'plan_not_active',
      message: expect.stringMatching(/"free" .* retired.*administrator/) as string,
    });
    happened({ type: 'account.plan_changed', account: 'Account1', plan: null, windows: 'keep', actor });
    expect(ask()).toBeNull();
  });

  test('on a plan that no one knows is a 403 too', () => {
    happened({ type: 'account.plan_changed', account: 'Account1', plan: 'gone', windows: 'keep', actor });
    expect(ask()).toMatchObject({ code: 'plan_not_active' });
  });
});

describe.each([
  ['account', onPlan, /its account may not .*administrator of this relay\.$/],
  ['key', restricted, /but it may not .*the administrator of the account's keys/],
] as const)('what the terms of the %s leave out', (_, restrict, hint) => {
  test('of routes is a 403 that names the route and which to ask', () => {
    restrict({ routes: ['/v1/models'] });
    const refusal = ask();
    expect(refusal).toMatchObject({
      status: 403,
      code: 'route_not_permitted',
      message: expect.stringMatching(hint) as string,
    });
    expect(refusal?.message).toContain('/v1/chat/completions');
    expect(ask({ route: '/v1/models' })).toBeNull();
  });

  test('of origins is a 403 that names the origin and which to ask', () => {
    restrict({ origins: ['https://*.example.com'] });
    const refusal = ask({ origin: 'https://evil.example' });
    expect(refusal).toMatchObject({
      status: 403,
      code: 'origin_not_allowed',
      message: expect.stringMatching(hint) as string,
    });
    expect(refusal?.message).toContain('https://evil.example');
    expect(ask({ origin: 'https://app.example.com' })).toBeNull();
  });

  test('of calls without an origin is a 403 that names the header that is missing', () => {
    restrict({ origins: ['https://app.example.com'] });
    expect(ask()).toMatchObject({
      code: 'origin_not_allowed',
      message: expect.stringMatching(/no Origin header.*"none"/) as string,
    });
    restrict({ origins: ['https://app.example.com', 'none'] });
    expect(ask({ origin: 'https://app.example.com' })).toBeNull();
  });

  test('of models is a 403 that names the model, the field and which to ask', () => {
    restrict({ models: ['small-*'] });
    expect(askModel('large-1')).toMatchObject({
      status: 403,
      code: 'model_not_permitted',
      param: 'model',
      message: expect.stringMatching(hint) as string,
    });
    expect(askModel('large-1')?.message).toContain('"large-1"');
    expect(askModel('small-1')).toBeNull();
    expect(ask()).toBeNull();
  });
});

describe("a key's networks", () => {
  test('let in who calls from them, and no one else', () => {
    restricted({ networks: ['10.0.0.0/8', '2001:db8::/32'] });
    expect([ask({ address: '10.1.2.3' }), ask({ address: '2001:db8::9' })]).toEqual([null, null]);
    const refusal = ask({ address: '203.0.113.9' });
    expect(refusal).toMatchObject({ status: 403, code: 'network_not_allowed' });
    expect(refusal?.message).toContain('203.0.113.9');
    expect(ask({ address: '' })).toMatchObject({
      code: 'network_not_allowed',
      message: expect.stringContaining('not known') as string,
    });
  });

  test('are the only reason to ask for the address', () => {
    onPlan({ models: ['a'], origins: ['none'] });
    restricted({ models: ['a'], routes: [...ROUTES] });
    const caller = {
      ...chat,
      get address(): string {
        throw new Error('asked for');
      },
    };
    expect(authorize(key(), caller, model)).toBeNull();
    restricted({ networks: [] });
    expect(() => authorize(key(), caller, model)).toThrow('asked for');
  });
});

test('of several reasons the first is reported: account, plan, route, origin, network', () => {
  const codes: (string | undefined)[] = [];
  const note = (...events: ControlEvent[]): void => {
    happened(...events);
    codes.push(ask({ origin: 'https://evil.example' })?.code);
  };
  onPlan({ routes: [], origins: [] });
  restricted({ routes: [], origins: [], networks: [] });
  happened(retired);
  note(suspended);
  note({ type: 'account.reinstated', account: 'Account1', actor });
  note({ type: 'account.plan_changed', account: 'Account1', plan: null, windows: 'keep', actor });
  note({ type: 'key.restricted', ...ids, terms: { origins: [], networks: [] }, windows: 'keep', actor });
  note({ type: 'key.restricted', ...ids, terms: { networks: [] }, windows: 'keep', actor });
  note({ type: 'key.restricted', ...ids, terms: {}, windows: 'keep', actor });
  expect(codes).toEqual([
    'account_disabled',
    'plan_not_active',
    'route_not_permitted',
    'origin_not_allowed',
    'network_not_allowed',
    undefined,
  ]);
});

test('a message repeats little of what was sent, and nothing unprintable', () => {
  restricted({ origins: [], models: [] });
  const nasty = `\u0000\u001b[31m\u202e${'x'.repeat(10_000)}`;
  for (const refusal of [ask({ origin: nasty }), askModel(nasty)]) {
    expect(refusal?.message).toMatch(/^[\x20-\x7e]{1,400}$/);
  }
});

describe('a key', () => {
  const caller = fc.record({
    route: fc.constantFrom(...ROUTES),
    origin: fc.option(
      fc.constantFrom(
        'https://app.example.com',
        'https://x.example.com',
        'http://localhost:3000',
        'https://evil.example',
      ),
    ),
    address: fc.constantFrom('10.1.2.3', '::1', '203.0.113.9', ''),
  });
  const name = fc.constantFrom('a', 'b', 'small-1', 'gpt-4o');
  const models = fc.constantFrom(['a'], ['*'], ['small-*', 'b'], [], undefined);
  const withModels = <T extends object>(terms: fc.Arbitrary<T>) =>
    fc.tuple(terms, models).map(([each, list]) => (list === undefined ? each : { ...each, models: list }));
  const passes = (who: RequestContext, what: string): boolean => ask(who) === null && askModel(what) === null;

  test('never may more than its account, whatever its terms', () => {
    fc.assert(
      fc.property(
        withModels(anyPlanTerms),
        withModels(anyKeyTerms),
        caller,
        name,
        (ofAccount, ofKey, who, what) => {
          happened({
            type: 'account.terms_overridden',
            account: 'Account1',
            terms: ofAccount,
            windows: 'keep',
            actor,
          });
          restricted({});
          const accountMay = passes(who, what);
          restricted(ofKey);
          const keyMay = passes(who, what);
          expect(keyMay && !accountMay).toBe(false);
          // And exactly what both permit: alone, under an account without terms, the key is as narrow.
          happened({
            type: 'account.terms_overridden',
            account: 'Account1',
            terms: {},
            windows: 'keep',
            actor,
          });
          expect(keyMay).toBe(accountMay && passes(who, what));
        },
      ),
      { numRuns: 500 },
    );
  });

  test('is judged in a dry run as a call with it would be', () => {
    // Quotas in money need a price for whatever is called.
    const base = { input: 1, output: 1 };
    happened({ type: 'model.priced', model: '*', base, source: 'manual', actor });
    fc.assert(
      fc.property(
        withModels(anyPlanTerms),
        withModels(anyKeyTerms),
        caller,
        name,
        (ofAccount, ofKey, who, what) => {
          happened({
            type: 'account.terms_overridden',
            account: 'Account1',
            terms: ofAccount,
            windows: 'keep',
            actor,
          });
          restricted(ofKey);
          const real = ask(who) ?? askModel(what);
          expect(dryRun(key(), { ...who, model: what }, model, () => null)?.code).toBe(real?.code);
        },
      ),
    );
  });

  test('is judged in a dry run by its own state first, and by whether anyone serves the model last', () => {
    const trial = { ...chat, model: 'a' };
    const code = (serves = true): string | undefined =>
      dryRun(key(), trial, model, () => (serves ? null : new ApiError('model_not_found')))?.code;
    expect([code(), code(false)]).toEqual([undefined, 'model_not_found']);
    restricted({ models: ['b'] });
    expect(code(false)).toBe('model_not_permitted');
    happened(suspended);
    expect(code()).toBe('account_disabled');
    happened({ type: 'key.revoked', ...ids, actor });
    expect(code()).toBe('api_key_revoked');
  });

  test('is judged in a dry run by the price of the model where a quota is in money', () => {
    restricted({ quotas: [{ meter: 'cost_nanousd', window: 'day', limit: 5, enforcement: 'hard' }] });
    expect(dryRun(key(), { ...chat, address: null, model: 'a' }, model, () => null)?.code).toBe(
      'model_not_priced',
    );
  });

  test('is judged in a dry run without what the command did not name', () => {
    restricted({ networks: ['10.0.0.0/8'], models: ['b'] });
    expect(
      dryRun(key(), { ...chat, address: null, model: null }, model, () => new ApiError('model_not_found')),
    ).toBeNull();
  });
});
