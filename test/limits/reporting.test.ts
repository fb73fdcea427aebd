import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { createSecret } from '#server/secrets/key-secret.ts';
import { type Meter, METER_NAMES } from '#db/limits/meters.ts';
import { chargesOf } from '../support/identity/charges.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { limitOf } from './refused.ts';
import { withinOneMinute } from './moments.ts';
import { IS_LONG } from './seeds.ts';

/** How limits are reported: by events of rejected requests, by `GET /v1/usage`, in bodies of errors. */

let upstream: ScriptedUpstream;
let fleet: Fleet;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({ upstreams: [upstream] });
  await fleet.control((control) =>
    control.setPrice('s:*', {
      base: {
        input: 1_000_000,
        cache_read: 1_000_000,
        output: 2_000_000,
        reasoning: 2_000_000,
      },
    }),
  );
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const BODY = { model: 's:tokens=3', messages: [{ role: 'user', content: 'Hello' }] };

async function refusalsOf(key: string, count: number): Promise<EventOf<'request.rejected'>[]> {
  const of = (log: readonly Placed[]): EventOf<'request.rejected'>[] =>
    log.flatMap(({ event }) => (event.type === 'request.rejected' && event.key === key ? [event] : []));
  return of(
    await fleet.waitFor((log) => of(log).reduce((sum, { rejected_count: each }) => sum + each, 0) >= count),
  );
}

test('a flood of rejected requests is recorded completely, in a few events', async () => {
  const { secret, key, account } = await fleet.tenant('flood', { requests_per_minute: 0 });
  const flood = IS_LONG ? 5_000 : 1_500;
  let sent = 0;
  const caller = async (): Promise<void> => {
    while (sent < flood) {
      const reply = await fleet.chat(sent++, { key: secret, body: BODY });
      expect([reply.status, errorCodeOf(reply), reply.header('x-should-retry')]).toEqual([
        429,
        'rate_limit_exceeded',
        'false',
      ]);
    }
  };
  const beganMs = performance.now();
  await Promise.all(Array.from({ length: 50 }, caller));
  const tookS = (performance.now() - beganMs) / 1_000;
  const refused = await refusalsOf(key, flood);
  expect(refused.reduce((sum, { rejected_count: each }) => sum + each, 0)).toBe(flood);
  for (const event of refused)
    expect(event).toMatchObject({ account, error_code: 'rate_limit_exceeded', status: 429 });
  // One per second and instance, plus those of the seconds that had begun.
  expect(refused.length).toBeLessThanOrEqual(3 * (Math.ceil(tookS) + 2));
  expect(upstream.ledger.attempts.length).toBe(0);
});

test('each 403 and 429 of a known account is recorded under its code, and a 401 is not', async () => {
  await withinOneMinute(5_000, async (attempt) => {
    const { secret, key } = await fleet.tenant(`several-${attempt}`, {
      models: ['s:tokens=3'],
      origins: ['none'],
      requests_per_minute: 1,
    });
    const call = (more: object = {}, headers: Record<string, string> = {}, bearer = secret) =>
      fleet.chat(0, { key: bearer, headers, body: { ...BODY, ...more } });
    expect((await call()).status).toBe(200);
    expect((await call()).status).toBe(429);
    expect((await call({ model: 's:tokens=4' })).status).toBe(403);
    expect((await call({}, { origin: 'https://elsewhere.example' })).status).toBe(403);
    expect((await call({ messages: 'none' })).status).toBe(400);
    expect((await call({}, {}, createSecret(key))).status).toBe(401);
    expect((await call({}, {}, createSecret('00000000'))).status).toBe(401);
    await fleet.control((control) => control.revokeKey(key));
    expect((await call()).status).toBe(401);
    const refused = await refusalsOf(key, 3);
    expect(
      refused
        .toSorted((one, other) => (one.error_code < other.error_code ? -1 : 1))
        .map(({ error_code: code, status, model, rejected_count: count }) => [status, code, model, count]),
    ).toEqual([
      [403, 'model_not_permitted', 's:tokens=4', 1],
      // Rejected before the body was read.
      [403, 'origin_not_allowed', undefined, 1],
      [429, 'rate_limit_exceeded', 's:tokens=3', 1],
    ]);
    expect(new Set(refused.map(({ route }) => route))).toEqual(new Set(['/v1/chat/completions']));
  });
  const codes = (await fleet.readLog()).flatMap(({ event }) =>
    event.type === 'request.rejected' ? [event.status] : [],
  );
  expect(new Set(codes)).toEqual(new Set([403, 429]));
});

test('GET /v1/usage reports every limit of a key with the usage of the log', async () => {
  const { secret, key, account } = await fleet.tenant('usage', {
    requests_per_minute: 500,
    concurrent_requests: 7,
    reply_tokens_max: 100,
    quotas: [
      { meter: 'tokens', window: 'month', limit: 2_000, enforcement: 'soft' },
      { meter: 'cost_nanousd', window: 'week', limit: 5_000, enforcement: 'soft' },
      { meter: 'requests', window: 'hour', limit: 1_000, enforcement: 'hard' },
    ],
  });
  const restriction = {
    set: {
      quotas: [
        { meter: 'tokens' as const, window: 'day' as const, limit: 1_000, enforcement: 'hard' as const },
      ],
    },
    drop: [],
    clear: false,
    expiresAt: undefined,
  };
  await fleet.control((control) => control.restrictKey(key, { ...restriction, windows: 'keep' }));
  for (let call = 0; call < 9; call += 1)
    expect((await fleet.chat(call, { key: secret, body: { ...BODY, max_tokens: 10 } })).status).toBe(200);
  const events = await fleet.settledLog();
  const charged = Object.fromEntries(
    METER_NAMES.map((meter) => [meter, chargesOf(events, { meter, account }).at(-1)?.settled ?? 0]),
  ) as Record<Meter, number>;
  expect(charged.tokens).toBeGreaterThan(0);
  expect(charged.cost_nanousd).toBeGreaterThan(charged.tokens);
  const usage = await fleet.usage(secret, 1);
  expect(usage).toMatchObject({
    object: 'usage',
    account: { id: account, name: 'usage', plan: 'usage' },
    key: { id: key, name: 'key' },
  });
  expect(Date.parse(usage.limits_as_of)).toBeGreaterThan(0);
  const rows = usage.limits.map((row) => [
    row.scope,
    row.meter,
    row.window,
    row.limit,
    row.enforcement,
    row.overdraft_max,
  ]);
  expect(rows).toEqual([
    ['account', 'concurrent', 'now', 7, 'soft', 0],
    ['account', 'requests', 'minute', 500, 'soft', 0],
    ['account', 'tokens', 'month', 2_000, 'soft', 700],
    ['account', 'cost_nanousd', 'week', 5_000, 'soft', null],
    ['account', 'requests', 'hour', 1_000, 'hard', 0],
    ['key', 'tokens', 'day', 1_000, 'hard', 0],
  ]);
  for (const row of usage.limits) {
    expect(row.used + row.reserved + row.remaining).toBe(row.limit);
    // Usage that other instances have not reported yet is part of their leases, so near the limit it is
    // never shown as remaining.
    expect(row.used).toBeLessThanOrEqual(charged[row.meter]);
    expect(row.resets_at === null).toBe(row.window === 'now');
  }
  // After each instance has reported to the store, the figures equal those of the log.
  for (const instance of [0, 1, 2]) await fleet.usage(secret, instance);
  const settled = await fleet.settledUsage(secret, 0);
  for (const row of settled.limits)
    if (row.window !== 'minute') expect([row.meter, row.used]).toEqual([row.meter, charged[row.meter]]);
});

test('GET /v1/usage requires a key with the permission, allows CORS, and rejects other methods', async () => {
  const { secret } = await fleet.tenant('asking', { routes: ['/v1/chat/completions'] });
  const ask = (
    bearer: string | null,
    method = 'GET',
    headers: Record<string, string> = {},
  ): Promise<Response> =>
    fetch(`http://127.0.0.1:${fleet.ports[2]}/v1/usage`, {
      method,
      headers: { ...headers, ...(bearer ? { authorization: `Bearer ${bearer}` } : {}) },
    });
  const codeOf = async (reply: Response): Promise<unknown> =>
    ((await reply.json()) as { error: { code: string } }).error.code;
  const forbidden = await ask(secret, 'GET', { origin: 'https://page.example' });
  expect([forbidden.status, await codeOf(forbidden)]).toEqual([403, 'route_not_permitted']);
  expect(forbidden.headers.get('access-control-allow-origin')).toBe('*');
  const unknown = await ask(null);
  expect([unknown.status, await codeOf(unknown)]).toEqual([401, 'missing_api_key']);
  const wrong = await ask(fleet.key, 'POST');
  expect([wrong.status, await codeOf(wrong)]).toEqual([405, 'method_not_allowed']);
  const good = await ask(fleet.key, 'GET', { origin: 'https://page.example' });
  expect(good.headers.get('access-control-allow-origin')).toBe('*');
  expect(await good.json()).toMatchObject({ object: 'usage', account: { plan: null }, limits: [] });
  const preflight = await ask(null, 'OPTIONS', {
    origin: 'https://page.example',
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'authorization',
  });
  expect([200, 204]).toContain(preflight.status);
  expect(preflight.headers.get('access-control-allow-headers')?.toLowerCase()).toContain('authorization');
});

test('the body of a 429 has the limit, what remains of it, and when it resets', async () => {
  const { secret } = await fleet.tenant('bodies', {
    quotas: [{ meter: 'cost_nanousd', window: 'month', limit: 300, enforcement: 'hard' }],
    reply_tokens_max: 50,
  });
  const first = await fleet.chat(0, {
    key: secret,
    body: { ...BODY, messages: [{ role: 'user', content: 'x'.repeat(2_000) }] },
  });
  expect([first.status, errorCodeOf(first), first.header('x-should-retry')]).toEqual([
    429,
    'insufficient_quota',
    'false',
  ]);
  const now = new Date();
  const nextMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString();
  expect(limitOf(first)).toEqual({
    scope: 'account',
    meter: 'cost_nanousd',
    window: 'month',
    limit: 300,
    used: 0,
    reserved: 0,
    remaining: 300,
    overdraft: 0,
    resets_at: nextMonth,
  });
  expect(first.header('x-quota-reset')).toBe(nextMonth);
  expect(first.header('retry-after')).toBeNull();
});
