import { afterAll, beforeAll, expect, test } from 'vitest';
import path from 'node:path';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { checkLimits } from '../support/identity/limits-identity.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet, type Tenant } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { limitOf } from './refused.ts';

/** Parent accounts and prepaid balances, over two servers. */

let upstream: ScriptedUpstream;
let fleet: Fleet;
let directory: string;
const MODEL = 's:tokens=20';
const DOLLAR = 1_000_000_000;

beforeAll(async () => {
  upstream = await startUpstream();
  // Servers of one installation share its master key, under which the keys of attribution lie.
  directory = await makeTestDirectory();
  fleet = await startFleet({
    upstreams: [upstream],
    instances: 2,
    env: { DAYBOOK_MASTER_KEY_FILE: path.join(directory, 'master.key') },
  });
  await fleet.control((control) => control.setPrice('s:*', { base: { input: 0, output: 10_000_000_000 } }));
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
  await removeTestDirectory(directory);
});

const call = ({ secret }: Tenant, instance: number, headers: Record<string, string> = {}) =>
  fleet.chat(instance, {
    key: secret,
    headers,
    body: { model: MODEL, max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] },
  });

test('a prepaid balance is spent exactly, and topped up once for each reference', async () => {
  const tenant = await fleet.tenant('prepaid', { prepaid: true });
  const topUp = (amount: number, reference: string) =>
    fleet.control((control) => control.topUp('prepaid', { amount, reference }));
  const none = await call(tenant, 0);
  expect([none.status, errorCodeOf(none)]).toEqual([429, 'insufficient_quota']);
  expect(limitOf(none)).toMatchObject({ scope: 'account', window: 'lifetime', limit: 0, resets_at: null });

  // A call costs 200,000 nano-dollars, and may cost no more.
  await topUp(1_000_000, 'invoice 7');
  await expect(topUp(1_000_000, 'invoice 7')).rejects.toMatchObject({ code: 'already_done' });
  const replies = await Promise.all(Array.from({ length: 8 }, (_, index) => call(tenant, index)));
  let admitted = replies.filter(({ status }) => status === 200).length;
  while ((await call(tenant, admitted)).status === 200) admitted++;
  expect(admitted).toBe(5);
  const usage = await fleet.settledUsage(tenant.secret);
  expect(usage.limits).toMatchObject([
    { scope: 'account', meter: 'cost_nanousd', window: 'lifetime', limit: 1_000_000, used: 1_000_000 },
  ]);
  await topUp(DOLLAR, 'invoice 8');
  expect((await call(tenant, 1)).status).toBe(200);
  expect(checkLimits(await fleet.settledLog())).toEqual([]);
});

test('calls are charged to the parents of their account, on all servers', async () => {
  const quota = { meter: 'requests', window: 'month', limit: 6, enforcement: 'hard' } as const;
  const top = await fleet.tenant('organization', { quotas: [quota] });
  const team = await fleet.tenant('team', {});
  const project = await fleet.tenant('project', {});
  await fleet.control((control) => control.setParent('team', 'organization'));
  await fleet.control((control) => control.setParent('project', 'team'));
  await expect(
    fleet.control((control) => control.setParent('organization', 'project')),
  ).rejects.toMatchObject({ code: 'not_allowed' });

  const callers = [top, team, project];
  const replies = await Promise.all(
    Array.from({ length: 9 }, (_, index) => call(callers[index % 3] as Tenant, index)),
  );
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(6);
  const rejected = await call(project, 0);
  expect(limitOf(rejected)).toMatchObject({ scope: 'parent_account', meter: 'requests', limit: 6 });
  expect((rejected.json as { error: { message: string } }).error.message).toContain("parent account's quota");
  expect((await fleet.settledUsage(project.secret)).limits).toMatchObject([
    { scope: 'parent_account', used: 6 },
  ]);
  expect((await fleet.usage(top.secret)).limits).toMatchObject([{ scope: 'account', used: 6 }]);

  await fleet.control((control) => control.setParent('project', null));
  expect((await call(project, 1)).status).toBe(200);
  const log = await fleet.settledLog();
  const parents = [
    ...new Set(
      log.flatMap(({ event }) =>
        event.type === 'request.settled' && event.account === project.account
          ? [(event.parents ?? []).join(' ')]
          : [],
      ),
    ),
  ];
  expect(parents).toEqual([`${team.account} ${top.account}`, '']);
  expect(checkLimits(log)).toEqual([]);
});

test('each end user, session and tag has its quota, whatever the others use', async () => {
  const quota = { meter: 'requests', enforcement: 'hard' } as const;
  const tenant = await fleet.tenant('application', {
    quotas: [
      { ...quota, window: 'month', limit: 100 },
      { ...quota, per: 'end_user', window: 'day', limit: 3 },
      { ...quota, per: 'session', window: 'lifetime', limit: 2 },
      { ...quota, per: 'tag', window: 'hour', limit: 4 },
    ],
  });
  const made = async (headers: Record<string, string>, count: number) => {
    const replies = await Promise.all(
      Array.from({ length: count }, (_, index) => call(tenant, index, headers)),
    );
    const rejected = replies.filter(({ status }) => status === 429);
    return {
      admitted: replies.filter(({ status }) => status === 200).length,
      scopes: [...new Set(rejected.map((reply) => limitOf(reply).scope))],
      messages: rejected.map((reply) => reply.body.toString()),
    };
  };
  const ana = await made({ 'x-daybook-user': 'ana@example.com' }, 6);
  expect(ana).toMatchObject({ admitted: 3, scopes: ['end_user'] });
  for (const message of ana.messages) {
    expect(message).toContain("This end user's quota");
    expect(message).not.toContain('ana');
  }
  expect(await made({ 'x-daybook-user': 'bob' }, 2)).toMatchObject({ admitted: 2, scopes: [] });
  const session = { 'x-daybook-user': 'carl', 'x-daybook-session': 's-1' };
  expect(await made(session, 4)).toMatchObject({ admitted: 2, scopes: ['session'] });
  expect(await made({ 'x-daybook-tags': 'red, blue' }, 3)).toMatchObject({ admitted: 3 });
  // One of the two tags has one request left, the other none of its own use.
  expect(await made({ 'x-daybook-tags': 'red' }, 3)).toMatchObject({ admitted: 1, scopes: ['tag'] });
  expect(await made({}, 3)).toMatchObject({ admitted: 3 });
  expect(checkLimits(await fleet.settledLog())).toEqual([]);
});
