import { afterAll, beforeAll, expect, test } from 'vitest';
import type { KeyTerms, PlanTerms } from '#db/events/events.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** `GET /v1/models` against calls, over what plans, overrides, parents and keys permit. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

const ROUTES = {
  '/v1/chat/completions': (model: string) => ({ model, messages: [] }),
  '/v1/embeddings': (model: string) => ({ model, input: 'a' }),
};
const MODELS = ['ok', 'unpriced', 'vectors', 'resting', 'fast', 'nowhere'];

const COST: PlanTerms['quotas'] = [
  { meter: 'cost_nanousd', window: 'month', limit: 10 ** 12, enforcement: 'soft' },
];
const PLANS: Record<string, PlanTerms> = {
  all: {},
  some: { models: ['ok', 'vectors', 'resting'] },
  cost: { quotas: COST },
  free: { quotas: COST, unpriced_models: 'free' },
  vectors: { routes: ['/v1/embeddings', '/v1/models'] },
};
/** Terms of the account in place of its plan's. */
const OVERRIDES: Record<string, PlanTerms> = { none: {}, narrower: { models: ['unpriced', 'v*'] } };
const PARENTS: Record<string, PlanTerms> = { none: {}, cost: { quotas: COST }, narrow: { models: ['ok'] } };
const KEYS: Record<string, KeyTerms> = {
  any: {},
  some: { models: ['ok', 'fast', 'unpriced'] },
  chat: { routes: ['/v1/chat/completions', '/v1/models'] },
  list: { routes: ['/v1/models'] },
  cost: { quotas: COST },
};

beforeAll(async () => {
  upstream = await startUpstream();
  for (const model of MODELS) upstream.script(model, 'tokens=3');
  relay = await startRelay();
  await declare(relay, {
    upstreams: {
      running: { base_url: upstream.baseUrl, models: ['ok', 'unpriced'] },
      embedding: { base_url: upstream.baseUrl, models: ['vectors'], routes: ['/v1/embeddings'] },
      paused: { base_url: upstream.baseUrl, models: ['resting'], paused: true },
    },
    models: { fast: { alias_of: 'ok' } },
  });
  await relay.control(async (control) => {
    for (const model of MODELS)
      if (model !== 'unpriced') await control.setPrice(model, { base: { input: 1_000, output: 1_000 } });
    for (const [name, terms] of Object.entries(PLANS)) await control.definePlan(name, terms, 'keep');
    for (const [name, terms] of Object.entries(PARENTS)) {
      await control.createAccount(`parent ${name}`);
      await control.definePlan(`parent-${name}`, terms, 'keep');
      await control.setPlan(`parent ${name}`, `parent-${name}`, 'keep');
    }
  });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const post = async (path: string, key: string, body: object): Promise<number> => {
  const reply = await fetch(new URL(path, relay.baseUrl), {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await reply.arrayBuffer();
  return reply.status;
};
const get = async (
  path: string,
  key: string,
): Promise<{ status: number; body: { data?: { id: string }[] } }> => {
  const reply = await fetch(new URL(path, relay.baseUrl), { headers: { authorization: `Bearer ${key}` } });
  return { status: reply.status, body: (await reply.json()) as { data?: { id: string }[] } };
};

test.each(Object.keys(PLANS).flatMap((plan) => Object.keys(PARENTS).map((parent) => [plan, parent])))(
  'on plan %s below parent %s a model is listed exactly when some call with it is admitted',
  async (plan, parent) => {
    for (const [override, terms] of Object.entries(OVERRIDES)) {
      const account = `${plan} ${parent} ${override}`;
      const secrets = await relay.control(async (control, pepper) => {
        await control.createAccount(account);
        await control.setPlan(account, plan, 'keep');
        if (override !== 'none') await control.overrideTerms(account, terms, 'keep');
        await control.setParent(account, `parent ${parent}`);
        const made: [name: string, secret: string][] = [];
        for (const [name, set] of Object.entries(KEYS)) {
          const { id, secret } = await control.createKey(pepper, { account, name, expiresAt: null });
          const restriction = { drop: [], clear: false, expiresAt: undefined, windows: 'keep' } as const;
          if (name !== 'any') await control.restrictKey(id, { ...restriction, set });
          made.push([name, secret]);
        }
        return made;
      });
      for (const [name, secret] of secrets) {
        const { status, body } = await get('/v1/models', secret);
        const listed = body.data?.map((model) => model.id) ?? [];
        for (const model of MODELS) {
          const statuses = await Promise.all(
            Object.entries(ROUTES).map(([route, bodyOf]) => post(route, secret, bodyOf(model))),
          );
          const isAdmitted = statuses.includes(200);
          const what = `${model} with key ${name} of ${account}: ${statuses.join(' and ')}`;
          expect(status === 200 && listed.includes(model), what).toBe(status === 200 && isAdmitted);
          expect((await get(`/v1/models/${model}`, secret)).status === 200, what).toBe(
            status === 200 && isAdmitted,
          );
        }
      }
    }
  },
);
