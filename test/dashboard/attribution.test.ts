import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AttributionNames, AttributionSummary } from '#server/contract/attribution.ts';
import { chat } from '../support/client.ts';
import { startPeopledRelay } from '../support/dashboard.ts';

/** The readable values of end users, sessions and tags, for those who may see them. */

let people: Awaited<ReturnType<typeof startPeopledRelay>>;
let end_user = '';
beforeAll(async () => {
  people = await startPeopledRelay();
  const { relay, ana } = people;
  const key = await ana.post<{ secret: string }>('/api/v1/keys', { name: 'key' });
  const { status } = await chat({
    port: relay.port,
    key: key.body.secret,
    headers: { 'x-daybook-user': 'ada@example.com' },
    body: { model: 'daybook-demo', messages: [{ role: 'user', content: 'hi' }] },
  });
  expect(status).toBe(200);
  const log = await relay.waitFor((events) => events.some(({ event }) => event.type === 'request.settled'));
  const settled = log.find(({ event }) => event.type === 'request.settled')?.event;
  end_user = (settled as { end_user: string }).end_user;
});
afterAll(() => people?.relay[Symbol.asyncDispose]());

const lookUp = (who: 'administrator' | 'auditor' | 'ana' | 'ben', wanted: object[]) =>
  people[who].post<AttributionNames>(`/api/v1/accounts/${people.ana.me.account.id}/attribution`, { wanted });

test('administrators and members of the account look up values and pseudonyms, and no one else', async () => {
  const named = { kind: 'end_user', pseudonym: end_user };
  const found = { ...named, value: 'ada@example.com', erased: false };
  await expect.poll(async () => (await lookUp('ana', [named])).body.data[0]?.value).toBe('ada@example.com');
  const wanted = [
    { kind: 'end_user', value: ' ada@example.com ' },
    { kind: 'tag', value: 'never' },
    { kind: 'session', value: '\n' },
    { kind: 'session', pseudonym: end_user },
  ];
  for (const who of ['administrator', 'ana'] as const)
    expect((await lookUp(who, wanted)).body).toEqual({
      object: 'list',
      data: [
        found,
        { kind: 'tag', pseudonym: expect.any(String), value: null, erased: false },
        { kind: 'session', pseudonym: end_user, value: null, erased: false },
      ],
    });
  const others = [await lookUp('auditor', [named]), await lookUp('ben', [named])];
  expect(others.map(({ status }) => status)).toEqual([403, 404]);
});

type Who = 'administrator' | 'auditor' | 'ana' | 'ben';
const address = (path = ''): string => `/api/v1/accounts/${people.ana.me.account.id}/attribution${path}`;
const eventsOf = async (type: string): Promise<object[]> =>
  (await people.relay.readLog()).flatMap(({ event }) => (event.type === type ? [event] : []));

test('members of the account and administrators erase values, as the command line does', async () => {
  const named = { kind: 'end_user', pseudonym: end_user };
  const erase = (who: Who) => people[who].post<{ event: object | null }>(address('/erase'), named);
  await expect.poll(async () => (await lookUp('ana', [named])).body.data[0]?.value).toBe('ada@example.com');
  const summary = await people.ana.get<AttributionSummary>(address());
  expect(summary.body).toEqual({
    object: 'attribution',
    key: 'active',
    values: { end_user: 1, session: 0, tag: 0 },
  });
  expect([(await erase('auditor')).status, (await erase('ben')).status]).toEqual([403, 404]);
  expect((await erase('ana')).body.event).toMatchObject({ type: 'attribution.erased' });
  expect((await erase('administrator')).body).toEqual({ event: null });
  const { member, account } = people.ana.me;
  expect(await eventsOf('attribution.erased')).toEqual([
    { type: 'attribution.erased', account: account.id, ...named, actor: `member/${member.id}` },
  ]);
  // By its value, as a filter looks it up, it still is the pseudonym.
  const wanted = [{ kind: 'end_user', value: 'ada@example.com' }];
  expect((await lookUp('ana', wanted)).body.data).toEqual([{ ...named, value: null, erased: true }]);
});

test('only administrators destroy the key of an account, and its pseudonyms count as erased', async () => {
  const destroy = (who: Who) => people[who].post<{ values: number }>(address('/destroy-key'));
  expect([(await destroy('ana')).status, (await destroy('auditor')).status]).toEqual([403, 403]);
  expect((await destroy('administrator')).body).toMatchObject({
    event: { type: 'attribution.key_destroyed' },
    values: 0,
  });
  expect((await destroy('administrator')).status).toBe(404);
  expect((await people.administrator.get<AttributionSummary>(address())).body.key).toBe('destroyed');
  const wanted = [{ kind: 'session', pseudonym: end_user }];
  expect((await lookUp('ana', wanted)).body.data).toEqual([{ ...wanted[0], value: null, erased: true }]);
});
