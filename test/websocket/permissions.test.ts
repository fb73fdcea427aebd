import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf, Placed, PlanTerms } from '#db/events/events.ts';
import type { Control } from '#server/control/control.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { isLast, openResponses } from '../support/responses-socket.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** A WebSocket connection lasts as long as the permission of its key; limits are those of each response. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [{ baseUrl: upstream.baseUrl, routes: ['/v1/responses'] }] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const LONG = 's:tokens=6000,every=10ms';
const open = (key: string) => openResponses({ port: relay.port, key });
const settledOf = (events: readonly Placed[], key: string): EventOf<'request.settled'>[] =>
  events.flatMap(({ event }) => (event.type === 'request.settled' && event.key === key ? [event] : []));

/** An account with a key and a plan of its own, all of one name. */
async function tenant(name: string, terms: PlanTerms = {}): Promise<{ id: string; secret: string }> {
  await relay.control(async (control) => {
    await control.definePlan(name, terms, 'keep');
    await control.createAccount(name, name);
  });
  return relay.createKey({ account: name });
}

type Withdrawal = {
  name: string;
  change: (control: Control, key: string) => Promise<unknown>;
  status: number;
  code: string;
};

const WITHDRAWALS: Withdrawal[] = [
  { name: 'revoked', change: (control, key) => control.revokeKey(key), status: 401, code: 'api_key_revoked' },
  {
    name: 'suspended',
    change: (control) => control.suspendAccount('suspended'),
    status: 403,
    code: 'account_disabled',
  },
  {
    name: 'narrowed',
    change: (control) => control.definePlan('narrowed', { routes: ['/v1/messages'] }, 'keep'),
    status: 403,
    code: 'route_not_permitted',
  },
];

test.for(WITHDRAWALS)(
  'a connection whose key is $name ends with the error, and so do its responses, charged what was relayed',
  async ({ name, change, status, code }) => {
    const { id, secret } = await tenant(name);
    await using idle = await open(secret);
    await using busy = await open(secret);
    busy.create({ model: LONG, input: 'hi' });
    busy.create({ model: LONG, input: 'waits' });
    await busy.sees((events) => events.some(({ type }) => type.endsWith('.delta')));
    await relay.control((control) => change(control, id));
    for (const client of [idle, busy]) {
      expect(await client.closed).toEqual({ code: 1008, reason: code });
      const errors = client.events.filter(({ type }) => type === 'error');
      expect(errors.at(-1)).toMatchObject({ status, error: { code } });
      expect(client.events.at(-1)?.type).toBe('error');
    }
    const events = await relay.waitFor(
      (log) => settledOf(log, id).length === 1 && openRequests(log).length === 0,
    );
    const [settled] = settledOf(events, id);
    expect(settled).toMatchObject({ end_reason: 'access_revoked', usage_source: 'counted' });
    expect(settled?.output_tokens).toBeGreaterThan(0);
    await expect(open(secret)).rejects.toMatchObject({ status, code });
  },
);

test('a connection goes on while other keys change, and rejects a model that its key lost', async () => {
  const { id, secret } = await tenant('kept');
  const { id: other } = await relay.createKey({ account: 'kept' });
  await using client = await open(secret);
  await relay.control(async (control) => {
    await control.revokeKey(other);
    await control.restrictKey(id, {
      set: { models: ['another-model'] },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    });
  });
  expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({
    status: 403,
    error: { code: 'model_not_permitted' },
  });
});

test('an expired key is an error of the next response', async () => {
  const { secret } = await relay.createKey({ expiresAt: new Date(Date.now() + 2_000) });
  await using client = await open(secret);
  expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({ type: 'response.completed' });
  await wait(2_100);
  expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({
    type: 'error',
    status: 401,
    error: { code: 'api_key_expired' },
  });
});

test('concurrent responses of a connection count for the limit of its account', async () => {
  const { secret } = await tenant('concurrent', { concurrent_requests: 2 });
  await using client = await open(secret);
  for (const stream_id of ['a', 'b', 'c']) client.create({ model: LONG, input: 'hi', stream_id });
  await client.sees((events) => events.some(({ type }) => type === 'error'));
  expect(client.events.filter(isLast)).toMatchObject([
    {
      status: 429,
      stream_id: 'c',
      error: { type: 'rate_limit_error', code: 'rate_limit_exceeded' },
      headers: { 'retry-after': '1' },
    },
  ]);
});

test('an exhausted quota is an error of the response, and the log has the rejection', async () => {
  const { id, secret } = await tenant('poor', {
    quotas: [{ meter: 'requests', window: 'day', limit: 1, enforcement: 'hard' }],
  });
  await using client = await open(secret);
  expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({ type: 'response.completed' });
  expect(await client.respond({ model: 'ok', input: 'hi' })).toMatchObject({
    status: 429,
    error: { type: 'insufficient_quota', code: 'insufficient_quota' },
    headers: { 'x-should-retry': 'false' },
  });
  await relay.waitFor((log) =>
    log.some(
      ({ event }) =>
        event.type === 'request.rejected' && event.key === id && event.error_code === 'insufficient_quota',
    ),
  );
});
