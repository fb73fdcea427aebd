import OpenAI, { RateLimitError } from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chargesOf } from '../support/identity/charges.ts';
import type { ChatReply } from '../support/client.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { minuteAlmostOver, withinOneMinute } from './moments.ts';
import { limitOf } from './refused.ts';
import { IS_LONG } from './seeds.ts';

let upstream: ScriptedUpstream;
let fleet: Fleet;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({ upstreams: [upstream] });
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const MESSAGES = [{ role: 'user' as const, content: 'Hello' }];
const BODY = { model: 's:tokens=3', messages: MESSAGES };
const numberIn = (reply: ChatReply, name: string): number => Number(reply.header(name) ?? NaN);

test('requests per minute: headers never overstate what remains, and a 429 has retry-after', async () => {
  await withinOneMinute(10_000, async (attempt) => {
    const limit = 12;
    const { secret, account } = await fleet.tenant(`requests-${attempt}`, { requests_per_minute: limit });
    for (let call = 1; call <= limit; call += 1) {
      // Whole rounds at one instance after the other.
      const reply = await fleet.chat(Math.floor((call - 1) / 4), {
        key: secret,
        body: { ...BODY, stream: call % 2 === 0 },
      });
      expect(reply.status).toBe(200);
      expect(numberIn(reply, 'x-ratelimit-limit-requests')).toBe(limit);
      expect(numberIn(reply, 'x-ratelimit-remaining-requests')).toBeGreaterThanOrEqual(0);
      expect(numberIn(reply, 'x-ratelimit-remaining-requests')).toBeLessThanOrEqual(limit - call);
      expect(reply.header('x-ratelimit-reset-requests')).toMatch(/^([1-9]|[1-5]\d|60)s$/);
    }
    for (const instance of [0, 1, 2]) {
      const before = Date.now();
      const reply = await fleet.chat(instance, { key: secret, body: BODY });
      expect([reply.status, errorCodeOf(reply)]).toEqual([429, 'rate_limit_exceeded']);
      expect(numberIn(reply, 'x-ratelimit-remaining-requests')).toBe(0);
      expect(limitOf(reply)).toMatchObject({
        scope: 'account',
        meter: 'requests',
        window: 'minute',
        limit,
        remaining: 0,
      });
      const untilNext = 60_000 - (before % 60_000);
      expect(numberIn(reply, 'retry-after-ms')).toBeGreaterThan(0);
      expect(numberIn(reply, 'retry-after-ms')).toBeLessThanOrEqual(untilNext + 1_000);
      expect(numberIn(reply, 'retry-after')).toBe(Math.ceil(numberIn(reply, 'retry-after-ms') / 1_000));
      expect(numberIn(reply, 'retry-after')).toBeLessThanOrEqual(60);
      expect(reply.header('x-should-retry')).toBeNull();
    }
    expect(chargesOf(await fleet.settledLog(), { meter: 'requests', account }).at(-1)?.settled).toBe(limit);
  });
});

test('remaining requests only decrease over sequential requests to one instance', async () => {
  await withinOneMinute(10_000, async (attempt) => {
    const { secret } = await fleet.tenant(`sinking-${attempt}`, {
      requests_per_minute: 100,
      tokens_per_minute: 100_000,
    });
    const left = { requests: Infinity, tokens: Infinity };
    for (let call = 1; call <= 20; call += 1) {
      const reply = await fleet.chat(0, { key: secret, body: BODY });
      for (const meter of ['requests', 'tokens'] as const) {
        const remaining = numberIn(reply, `x-ratelimit-remaining-${meter}`);
        expect(remaining).toBeLessThanOrEqual(meter === 'requests' ? 100 - call : 100_000);
        if (meter === 'requests') expect(remaining).toBeLessThan(left[meter]);
        left[meter] = remaining;
      }
      expect(numberIn(reply, 'x-ratelimit-limit-tokens')).toBe(100_000);
    }
  });
});

test('tokens per minute: a 429 reports what remains, or that the request can never fit', async () => {
  await withinOneMinute(10_000, async (attempt) => {
    const limit = 400;
    const { secret, account } = await fleet.tenant(`tokens-${attempt}`, { tokens_per_minute: limit });
    const statuses: string[] = [];
    for (let call = 0; call < 30; call += 1) {
      const reply = await fleet.chat(call, {
        key: secret,
        body: { ...BODY, model: 's:tokens=40', max_tokens: 40 },
      });
      statuses.push(`${reply.status} ${errorCodeOf(reply) ?? 'ok'}`);
      if (reply.status === 200) continue;
      expect(limitOf(reply)).toMatchObject({ meter: 'tokens', window: 'minute', limit });
      expect(numberIn(reply, 'retry-after')).toBeGreaterThanOrEqual(1);
      expect(numberIn(reply, 'x-ratelimit-remaining-tokens')).toBeLessThan(100);
    }
    expect(new Set(statuses)).toEqual(new Set(['200 ok', '429 rate_limit_exceeded']));
    const spent = chargesOf(await fleet.settledLog(), { meter: 'tokens', account }).at(-1)?.settled ?? 0;
    expect(spent).toBeGreaterThan(limit / 2);
    const large = await fleet.chat(0, {
      key: secret,
      body: { ...BODY, max_tokens: 4_000, messages: [{ role: 'user', content: 'many words '.repeat(300) }] },
    });
    expect([large.status, errorCodeOf(large), large.header('x-should-retry')]).toEqual([
      429,
      'rate_limit_exceeded',
      'false',
    ]);
    expect(large.header('retry-after')).toBeNull();
  });
});

test("the openai package doesn't retry when a quota is exhausted", async () => {
  const { secret, key } = await fleet.tenant('spent', {
    quotas: [{ meter: 'requests', window: 'day', limit: 1, enforcement: 'hard' }],
  });
  const client = new OpenAI({
    baseURL: `http://127.0.0.1:${fleet.ports[0]}/v1`,
    apiKey: secret,
    maxRetries: 5,
  });
  await client.chat.completions.create(BODY);
  const error: unknown = await client.chat.completions.create(BODY).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RateLimitError);
  expect(error).toMatchObject({ status: 429, code: 'insufficient_quota', type: 'insufficient_quota' });
  const events = await fleet.waitFor((log) =>
    log.some(({ event }) => event.type === 'request.rejected' && event.key === key),
  );
  const refused = events.flatMap(({ event }) =>
    event.type === 'request.rejected' && event.key === key ? [event] : [],
  );
  expect(refused).toMatchObject([{ error_code: 'insufficient_quota', status: 429, rejected_count: 1 }]);
});

test('the openai package honors retry-after of the concurrency limit, and then succeeds', async () => {
  const { secret, key } = await fleet.tenant('narrow', { concurrent_requests: 1 });
  const client = new OpenAI({
    baseURL: `http://127.0.0.1:${fleet.ports[2]}/v1`,
    apiKey: secret,
    maxRetries: 1,
  });
  const running = fleet.chat(0, {
    key: secret,
    body: { ...BODY, model: 's:tokens=1,head=700ms', user: 'narrow' },
  });
  await upstream.ledger.until(() => upstream.attemptsOf('narrow').length === 1);
  const second = await client.chat.completions.create(BODY);
  expect(second.choices[0]?.message.content).toBe('tok0 tok1 tok2 ');
  expect((await running).status).toBe(200);
  const events = await fleet.settledLog();
  expect(
    events.findLast(({ event }) => event.type === 'request.accepted' && event.key === key)?.event,
  ).toMatchObject({ retry_count: 1 });
});

// The wait lasts until the next minute begins, so it is for the long form.
test.skipIf(!IS_LONG)(
  'the openai package waits for Retry-After at a rate limit, then succeeds',
  async () => {
    const { secret, key } = await fleet.tenant('hasty', { requests_per_minute: 2 });
    const client = new OpenAI({
      baseURL: `http://127.0.0.1:${fleet.ports[1]}/v1`,
      apiKey: secret,
      maxRetries: 2,
    });
    await minuteAlmostOver(4_000);
    await client.chat.completions.create(BODY);
    await client.chat.completions.create(BODY);
    const minute = Math.floor(Date.now() / 60_000);
    const third = await client.chat.completions.create(BODY);
    expect(third.choices[0]?.message.content).toBe('tok0 tok1 tok2 ');
    expect(Math.floor(Date.now() / 60_000)).toBe(minute + 1);
    const events = await fleet.settledLog();
    const counts = events.flatMap(({ event }) =>
      event.type === 'request.rejected' && event.key === key ? [event.rejected_count] : [],
    );
    // One refusal, one wait, and then it was let in.
    expect(counts).toEqual([1]);
    const accepted = events.flatMap(({ event }) =>
      event.type === 'request.accepted' && event.key === key ? [event] : [],
    );
    expect(accepted.map(({ admitted_minute }) => admitted_minute)).toEqual([minute, minute, minute + 1]);
    expect(accepted.at(-1)).toMatchObject({ retry_count: 1 });
  },
  90_000,
);
