import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf, Placed, PlanTerms } from '#db/events/events.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import type { TestDatabase } from '../support/database.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { COST_FIXTURES, costFixture } from '../support/providers/cost-fixtures.ts';
import { readGoldenPrice } from '../support/providers/golden-price.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** What calls cost through a whole server, read from its log alone. */

type Settled = EventOf<'request.settled'>;

/** All replies in the formats of providers, each as a model of its own. */
const CASES = COST_FIXTURES.flatMap(({ name, route, provider, headers, forms }) =>
  forms.map((form) => ({ name, route, provider, headers, form, model: `${name}.${form}` })),
);

/** A published price, with its hours as far from now as they are from the time of its arithmetic. */
function termsNow(name: string): PriceTerms {
  const { terms, minute } = readGoldenPrice(name);
  if (minute === 0) return terms;
  const later = Math.floor(Date.now() / 60_000) - minute;
  const moved = (text: string): string => {
    const [hour = 0, rest = 0] = text.split(':').map(Number);
    const at = (((hour * 60 + rest + later) % 1_440) + 1_440) % 1_440;
    return `${String(Math.floor(at / 60)).padStart(2, '0')}:${String(at % 60).padStart(2, '0')}`;
  };
  const rules = (terms.rules ?? []).map(({ when, rate }) => {
    const { hours } = when;
    return {
      rate,
      when: hours ? { ...when, hours: { from: moved(hours.from), to: moved(hours.to) } } : when,
    };
  });
  return { ...terms, rules };
}

const EMBEDDINGS = 40;

let provider: Server;
let relay: TestRelay;
beforeAll(async () => {
  provider = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      // Google's is in the path.
      const inPath = /models\/([^:]+):/.exec(request.url ?? '')?.[1];
      const { model = inPath } = JSON.parse(Buffer.concat(parts).toString()) as { model?: string };
      const found = CASES.find((each) => each.model === model);
      const {
        name,
        form,
        headers = {},
      } = found ?? {
        name: 'openai-embeddings',
        form: 'json' as const,
      };
      const type = form === 'json' ? 'application/json' : 'text/event-stream';
      response.writeHead(200, { ...headers, 'content-type': type }).end(costFixture(name, form));
    });
  });
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const modelsOf = (kind: string): string[] =>
    CASES.filter((each) => each.provider === kind).map(({ model }) => model);
  relay = await startRelay();
  const packages = [...new Set(CASES.map((each) => each.provider))].filter((kind) => kind.startsWith('@'));
  const credentials = [{ label: 'main', secret: '${SECRET}' }];
  await declare(
    relay,
    {
      upstreams: {
        anthropic: { provider: 'anthropic', base_url: origin, credentials, models: modelsOf('anthropic') },
        others: {
          base_url: `${origin}/v1`,
          credentials,
          models: [...modelsOf('openai'), 'vectors', 'unpriced'],
          routes: ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'],
        },
        ...Object.fromEntries(
          packages.map((kind) => [
            kind.slice('@ai-sdk/'.length).concat('-package'),
            { provider: 'bridge', package: kind, base_url: origin, credentials, models: modelsOf(kind) },
          ]),
        ),
      },
      models: { research: { targets: [{ upstream: 'others', model: 'vectors:online' }] } },
    },
    { SECRET: 'not-a-credential-of-anybody' },
  );
  const terms = new Map<string, PriceTerms>(CASES.map(({ model, name }) => [model, termsNow(name)]));
  terms.set('vectors', { base: { input: 20_000_000 } });
  await relay.control(async (control) => {
    for (const [model, price] of terms) await control.setPrice(model, price);
  });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  provider?.closeAllConnections();
  provider?.close();
});

async function call(route: string, model: string, options: { key?: string; stream?: boolean } = {}) {
  const { key = relay.key, stream = false } = options;
  const body =
    route === '/v1/embeddings'
      ? { model, input: 'text' }
      : route === '/v1/completions'
        ? { model, prompt: 'text', stream }
        : route === '/v1/responses'
          ? { model, input: 'text', stream }
          : { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 5_000, stream };
  const response = await fetch(new URL(route, relay.baseUrl), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
    },
    body: JSON.stringify(body),
  });
  await response.arrayBuffer();
  return response.status;
}

/** The settled requests of a model, when there are so many. */
async function settledOf(model: string, count: number): Promise<Settled[]> {
  const of = (log: readonly Placed[]): Settled[] =>
    log.flatMap(({ event }) => (event.type === 'request.settled' && event.model === model ? [event] : []));
  return of(await relay.waitFor((log) => of(log).length >= count));
}

const { json, text, daybook } = commandLine(() => ({
  DAYBOOK_DATA: relay.dataDir,
  DATABASE_URL: (relay.store as TestDatabase).url,
}));

type Stated = { statements: { lines: { model: string; cost_nanousd: string }[] }[] };

/** The charge of each model's requests by `audit statement` of this month, from the log alone. */
async function statedCosts(): Promise<Map<string, bigint>> {
  const month = new Date().toISOString().slice(0, 7);
  const { statements } = await json<Stated>('audit', 'statement', '--all', '--month', month);
  const costs = new Map<string, bigint>();
  for (const { model, cost_nanousd } of statements.flatMap(({ lines }) => lines))
    costs.set(model, (costs.get(model) ?? 0n) + BigInt(cost_nanousd));
  return costs;
}

describe('a reply of a provider', () => {
  test.each(CASES)('$model costs its published arithmetic in the log', async (each) => {
    const { name, route, form, model } = each;
    // The server opens a credential a moment after it has applied its event.
    await until(
      () => call(route, model, { stream: form === 'sse' }),
      (status) => status === 200,
      model,
    );
    const [event] = await settledOf(model, 1);
    const { cost } = readGoldenPrice(name);
    expect(event).toMatchObject({ cost_nanousd: cost, price_version: 1, usage_source: 'provider' });
    const { unpriced } = readGoldenPrice(name);
    expect(event?.unpriced ?? []).toEqual(unpriced);
  });

  test('of each, in JSON and SSE, is stated with that cost by `audit statement`', async () => {
    const stated = await statedCosts();
    const published = CASES.map(({ model, name }) => [model, BigInt(readGoldenPrice(name).cost)] as const);
    expect(new Map(published.map(([model]) => [model, stated.get(model)]))).toEqual(new Map(published));
    expect(published.length).toBe(COST_FIXTURES.reduce((sum, { forms }) => sum + forms.length, 0));
  });
});

test('calls of ten tokens at $0.02 per million add up exactly, however small each is', async () => {
  await Promise.all(Array.from({ length: EMBEDDINGS }, () => call('/v1/embeddings', 'vectors')));
  const events = await settledOf('vectors', EMBEDDINGS);
  expect(new Set(events.map(({ cost_nanousd }) => cost_nanousd))).toEqual(new Set([200]));
  expect((await statedCosts()).get('vectors')).toBe(BigInt(EMBEDDINGS * 200));
});

describe('on a plan', () => {
  /** A key of an account on a plan with these terms. */
  async function keyOn(plan: string, terms: PlanTerms): Promise<string> {
    await relay.control((control) => control.definePlan(plan, terms, 'keep'));
    await relay.createAccount(`On ${plan}`);
    await relay.control((control) => control.setPlan(`On ${plan}`, plan, 'keep'));
    return (await relay.createKey({ account: `On ${plan}` })).secret;
  }
  const budget = { meter: 'cost_nanousd', window: 'month', limit: 10 ** 12, enforcement: 'soft' } as const;
  const last = async (model: string): Promise<Settled | undefined> =>
    (await settledOf(model, 0)).toSorted((one, other) => (one.request < other.request ? -1 : 1)).at(-1);

  test('with a mark-up the charge is more than the upstream cost', async () => {
    const key = await keyOn('marked', { markup: 2_050 });
    expect(await call('/v1/embeddings', 'vectors', { key })).toBe(200);
    await settledOf('vectors', EMBEDDINGS + 1);
    expect(await last('vectors')).toMatchObject({
      cost_nanousd: 241,
      upstream_cost_nanousd: 200,
      price_version: 1,
    });
  });

  test('with a sell price the charge is that price, and the mark-up does not count', async () => {
    const key = await keyOn('selling', { markup: 5_000 });
    await relay.control((control) =>
      control.setPrice('vec*', { base: { input: 35_000_000, per_request: 50 } }, 'selling'),
    );
    expect(await call('/v1/embeddings', 'vectors', { key })).toBe(200);
    await settledOf('vectors', EMBEDDINGS + 2);
    expect(await last('vectors')).toMatchObject({
      cost_nanousd: 400,
      upstream_cost_nanousd: 200,
      price_plan: 'selling',
    });
  });

  test('with a hard quota a model that searches by itself is rejected under every name of it', async () => {
    const tokens = { meter: 'tokens', window: 'month', limit: 1_000_000, enforcement: 'hard' } as const;
    const key = await keyOn('exact', { quotas: [tokens] });
    expect(await call('/v1/embeddings', 'unpriced', { key })).toBe(200);
    expect(await call('/v1/embeddings', 'research', { key })).toBe(400);
    expect(await call('/v1/embeddings', 'research')).toBe(200);
  });

  const listed = async (key: string): Promise<string[]> => {
    const response = await fetch(new URL('/v1/models', relay.baseUrl), {
      headers: { authorization: `Bearer ${key}` },
    });
    return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
  };

  test('with a cost quota a model without a price is rejected, and in no list; the demo works', async () => {
    const key = await keyOn('counting', { quotas: [budget] });
    expect(await call('/v1/embeddings', 'unpriced', { key })).toBe(403);
    const ids = await listed(key);
    expect(ids).toContain('vectors');
    expect(ids).toContain('daybook-demo');
    expect(ids).not.toContain('unpriced');
    expect(await listed(relay.key)).toContain('unpriced');
    expect(await call('/v1/chat/completions', 'daybook-demo', { key })).toBe(200);
    const [event] = await settledOf('daybook-demo', 1);
    expect(event).toMatchObject({ cost_nanousd: 0, price_version: 0 });
  });

  test('that admits them free of charge, it is listed, called, and recorded without a cost', async () => {
    const key = await keyOn('lenient', { quotas: [budget], unpriced_models: 'free' });
    expect(await listed(key)).toContain('unpriced');
    expect(await call('/v1/embeddings', 'unpriced', { key })).toBe(200);
    const [event] = await settledOf('unpriced', 1);
    expect(event).not.toHaveProperty('cost_nanousd');
  });
});

describe('daybook price reprice', () => {
  const DAY_MS = 86_400_000;
  const period = ['--from', new Date(Date.now() - DAY_MS), '--to', new Date(Date.now() + DAY_MS)].map(
    (each) => (each instanceof Date ? each.toISOString() : each),
  );

  test('by the current prices changes nothing, and by those of a file shows each difference', async () => {
    expect(await json('price', 'reprice', ...period, '--dry-run')).toMatchObject({
      total: { changed: 0, difference_nanousd: '0' },
    });
    const file = path.join(relay.dataDir, 'prices.yaml');
    await writeFile(file, 'source: next year\nprices:\n  vectors: {input: 0.03}\n');
    const options = [...period, '--model', 'vectors', '--price-file', file, '--dry-run'];
    const repriced = await json<{ accounts: object[]; total: object }>('price', 'reprice', ...options);
    const figures = (requests: number, changed: number, was: number, now: number): object => ({
      requests,
      changed,
      before_nanousd: String(was),
      after_nanousd: String(now),
      difference_nanousd: String(now - was),
    });
    expect(repriced.accounts.toSorted(byRequests)).toMatchObject([
      { name: relay.account, ...figures(EMBEDDINGS, EMBEDDINGS, EMBEDDINGS * 200, EMBEDDINGS * 300) },
      // 300 × 1.205, rounded half up.
      { name: 'On marked', ...figures(1, 1, 241, 362) },
      // Its plan has a price of its own, so that the upstream cost alone is another.
      { name: 'On selling', ...figures(1, 1, 400, 400) },
    ]);
    expect(repriced.total).toMatchObject(
      figures(EMBEDDINGS + 2, EMBEDDINGS + 2, EMBEDDINGS * 200 + 641, EMBEDDINGS * 300 + 762),
    );
    expect(await text('price', 'reprice', ...options, '--account', 'On marked')).toMatch(
      /On marked +vectors +1 +1 +0\.000000241 +0\.000000362 +0\.000000121 +0\.0000001\n/,
    );
    const types = (await relay.readLog()).map(({ event }) => event.type);
    expect(types).not.toContain('quota.adjusted');
    expect(types.filter((type) => type === 'model.priced')).toHaveLength(CASES.length + 2);
  });

  test('corrects each request once, however often it runs, and statements include it', async () => {
    await daybook('price', 'set', 'vectors', '--input', '0.03');
    const options = [...period, '--model', 'vectors'];
    const dry = await json<Repriced>('price', 'reprice', ...options, '--dry-run');
    const corrections = async () =>
      (await relay.readLog()).flatMap(({ event }) => (event.type === 'usage.adjusted' ? [event] : []));
    expect(await corrections()).toEqual([]);
    const [one, other] = await Promise.all([
      json<Repriced>('price', 'reprice', ...options),
      json<Repriced>('price', 'reprice', ...options),
    ]);
    expect([one.corrected, other.corrected]).toEqual([EMBEDDINGS + 2, EMBEDDINGS + 2]);
    expect(one.reference).toBe(other.reference);
    const made = await corrections();
    expect(made).toHaveLength(EMBEDDINGS + 2);
    expect(new Set(made.map(({ request }) => request)).size).toBe(EMBEDDINGS + 2);
    const sum = made.reduce((total, { cost_nanousd = 0 }) => total + cost_nanousd, 0);
    expect(String(sum)).toBe(dry.total.difference_nanousd);
    // The selling plan's charge stays; its upstream cost doesn't.
    const upstream = made.reduce(
      (total, { cost_nanousd = 0, upstream_cost_nanousd = cost_nanousd }) => total + upstream_cost_nanousd,
      0,
    );
    expect(String(upstream)).toBe(dry.total.upstream_difference_nanousd);
    const after = await json<Repriced>('price', 'reprice', ...options, '--dry-run');
    expect(after.total).toMatchObject({ changed: 0, before_nanousd: dry.total.after_nanousd });
    const month = new Date().toISOString().slice(0, 7);
    const { total } = await json<{ total: { is_equal: boolean } }>(
      'audit',
      'statement',
      '--all',
      '--month',
      month,
    );
    expect(total.is_equal).toBe(true);
    expect(await json('audit', 'replay')).toMatchObject({ faults: [] });
  });

  test('takes a period that is not empty, and prices of a file for a dry run alone', async () => {
    expect((await daybook('price', 'reprice', ...period, '--price-file', 'prices.yaml')).stderr).toContain(
      'Import the file first',
    );
    const [, from = '', , to = ''] = period;
    const { stderr } = await daybook('price', 'reprice', '--from', to, '--to', from, '--dry-run');
    expect(stderr).toContain('--to must be after --from');
  });
});

type Repriced = {
  corrected: number;
  reference: string;
  total: Record<
    'before_nanousd' | 'after_nanousd' | 'difference_nanousd' | 'upstream_difference_nanousd',
    string
  >;
};
type Row = { name?: string; requests?: number };
const byRequests = (one: Row, other: Row): number =>
  (other.requests ?? 0) - (one.requests ?? 0) || ((one.name ?? '') < (other.name ?? '') ? -1 : 1);
