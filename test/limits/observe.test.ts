import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { compareTotals, readProjectedTotals } from '#db/audit/replay/diff.ts';
import { ReplayState } from '#db/audit/replay/state.ts';
import type { EventOf, Placed, PlanTerms } from '#db/events/events.ts';
import type { ChatReply } from '../support/client.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet, type Tenant } from '../support/fleet.ts';
import { checkLimits } from '../support/identity/limits-identity.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { limitOf } from './refused.ts';

let upstream: ScriptedUpstream;
let fleet: Fleet;
let directory: string;

beforeAll(async () => {
  upstream = await startUpstream();
  // Servers of one installation share its master key, under which the keys of attribution lie.
  directory = await makeTestDirectory();
  const env = { DAYBOOK_MASTER_KEY_FILE: path.join(directory, 'master.key') };
  fleet = await startFleet({ upstreams: [upstream], env });
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
  await removeTestDirectory(directory);
});

const MODEL = 's:tokens=3';
const MESSAGES = [{ role: 'user', content: 'Hello' }];
const call = (tenant: Tenant, number: number, headers: Record<string, string> = {}): Promise<ChatReply> =>
  fleet.chat(number, {
    key: tenant.secret,
    body: { model: MODEL, messages: MESSAGES, stream: number % 2 === 0 },
    headers,
  });
const observe = { enforcement: 'observe' } as const;
const acceptedOf = (log: readonly Placed[], { account }: Tenant): EventOf<'request.accepted'>[] =>
  log.flatMap(({ event }) => (event.type === 'request.accepted' && event.account === account ? [event] : []));

/** Asserts that the projections and a replay of the log have the same usage of every window. */
async function expectConsistent(): Promise<void> {
  await projectAll(fleet.store);
  const client = await connectAs(fleet.store, 'worker');
  try {
    const projected = await readProjectedTotals(client);
    if (projected?.windows == null) throw new Error('the projections are incomplete');
    const state = new ReplayState();
    // Counts of rejected calls are recorded up to a second later.
    for (const event of await fleet.readLog()) if (event.position <= projected.position) state.apply(event);
    expect(state.faults).toEqual([]);
    expect(compareTotals(state, projected)).toEqual([]);
  } finally {
    await client.end();
  }
}

test('clients see nothing of observed limits, however far they are exceeded', async () => {
  const quotas = (['requests', 'tokens', 'cost_nanousd'] as const).flatMap((meter) => [
    { meter, window: 'day' as const, limit: 0, ...observe },
    { meter, window: 'lifetime' as const, per: 'end_user' as const, limit: 0, ...observe },
  ]);
  const observed = await fleet.tenant('observed', {
    requests_per_minute: 0,
    tokens_per_minute: 0,
    concurrent_requests: 0,
    observe: ['requests_per_minute', 'tokens_per_minute', 'concurrent_requests'],
    quotas,
  });
  const unlimited = await fleet.tenant('unlimited', {});
  const seen = async (tenant: Tenant): Promise<unknown[]> => {
    const replies = [];
    for (const [number, headers] of [
      {},
      {},
      { 'x-daybook-user': 'ana' },
      { 'x-daybook-user': 'bob' },
    ].entries())
      replies.push(await call(tenant, number, headers));
    replies.push(
      await fleet.chat(0, { key: tenant.secret, body: { model: 's:status=400', messages: MESSAGES } }),
    );
    const models = await fetch(`http://127.0.0.1:${fleet.ports[0]}/v1/models`, {
      headers: { authorization: `Bearer ${tenant.secret}` },
    });
    return [
      ...replies.map(({ status, headers }) => [
        status,
        headers.flatMap(([name]) => (name === 'content-length' ? [] : [name.toLowerCase()])).toSorted(),
      ]),
      await models.json(),
    ];
  };
  expect(await seen(observed)).toEqual(await seen(unlimited));
  const accepted = acceptedOf(await fleet.settledLog(), observed);
  // An account's limits count all calls; those of end users the calls that name one.
  expect(accepted.map((event) => event.observed?.length)).toEqual([5, 5, 7, 7, 5]);
  expect(accepted[0]?.observed?.find(({ meter }) => meter === 'requests')).toMatchObject({
    subject: `account/${observed.account}`,
    limit: 0,
    free: 0,
    needed: 1,
  });
  expect((await fleet.usage(observed.secret)).limits).toMatchObject(
    Array.from({ length: 6 }, () => ({ enforcement: 'observe', used: 0, limit: 0 })),
  );
});

test('3 instances pass an observed quota exactly, and charge enforced ones for every call', async () => {
  const tenant = await fleet.tenant('shadow', {
    quotas: [
      { meter: 'requests', window: 'day', limit: 40, ...observe },
      { meter: 'requests', window: 'month', limit: 1_000, enforcement: 'hard' },
      { meter: 'tokens', window: 'day', limit: 1_000_000, enforcement: 'soft' },
    ],
  });
  const replies = await Promise.all(Array.from({ length: 100 }, (_, number) => call(tenant, number)));
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
  const log = await fleet.settledLog();
  const accepted = acceptedOf(log, tenant);
  expect(accepted.filter(({ observed }) => observed === undefined)).toHaveLength(40);
  const settled = log.flatMap(({ event }) =>
    event.type === 'request.settled' && event.account === tenant.account ? [event] : [],
  );
  for (const { request, observed } of accepted)
    expect(settled.find((event) => event.request === request)?.observed).toEqual(observed);
  expect((await fleet.settledUsage(tenant.secret)).limits.map(({ used }) => used)).toEqual([
    40,
    100,
    expect.any(Number),
  ]);
  expect(checkLimits(log)).toEqual([]);
  await expectConsistent();

  // A correction of a call is not charged to the limit that it wasn't charged to.
  const named = settled.find(({ observed }) => observed !== undefined)?.request as string;
  const correction = { deltas: { input_tokens: 7 }, reference: 'bill 1', reason: 'test' };
  await fleet.control((control) => control.correctUsage(null, named, correction));
  await expectConsistent();
});

test('a quota keeps its window where it is observed, enforced, and observed again', async () => {
  const terms = (enforcement: 'observe' | 'hard'): PlanTerms => ({
    quotas: [{ meter: 'requests', window: 'month', limit: 3, enforcement }],
  });
  const tenant = await fleet.tenant('switched', terms('observe'));
  const make = async (count: number): Promise<ChatReply[]> => {
    const replies = [];
    for (let number = 0; number < count; number += 1) replies.push(await call(tenant, number));
    return replies;
  };
  expect((await make(5)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  await fleet.control((control) => control.definePlan('switched', terms('hard'), 'keep'));
  const [rejected] = await make(1);
  expect([rejected?.status, errorCodeOf(rejected as ChatReply)]).toEqual([429, 'insufficient_quota']);
  expect(limitOf(rejected as ChatReply)).toMatchObject({ limit: 3, used: 3, remaining: 0 });
  await fleet.control((control) => control.definePlan('switched', terms('observe'), 'keep'));
  expect((await make(1))[0]?.status).toBe(200);
  const log = await fleet.settledLog();
  expect(acceptedOf(log, tenant).map(({ observed }) => observed?.length)).toEqual([
    undefined,
    undefined,
    undefined,
    1,
    1,
    1,
  ]);
  expect((await fleet.settledUsage(tenant.secret)).limits).toMatchObject([
    { used: 3, enforcement: 'observe' },
  ]);
  expect(checkLimits(log)).toEqual([]);
  await expectConsistent();
});
