import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AttributionNames } from '#server/contract/attribution.ts';
import { chat } from '../support/client.ts';
import { startPeopledRelay } from '../support/dashboard.ts';

/** The readable values of end users, sessions and tags, for those who may see them. */

let people: Awaited<ReturnType<typeof startPeopledRelay>>;
let end_user = '';
beforeAll(async () => {
  people = await startPeopledRelay();
  const { relay, ana } = people;
  const key = await ana.post<{ secret: string }>('/api/keys', { name: 'key' });
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
  people[who].post<AttributionNames>(`/api/accounts/${people.ana.me.account.id}/attribution`, { wanted });

test('administrators and members of the account look up values and pseudonyms, and no one else', async () => {
  const named = { kind: 'end_user', pseudonym: end_user };
  const found = { ...named, value: 'ada@example.com' };
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
        { kind: 'tag', pseudonym: expect.any(String), value: null },
        { kind: 'session', pseudonym: end_user, value: null },
      ],
    });
  const others = [await lookUp('auditor', [named]), await lookUp('ben', [named])];
  expect(others.map(({ status }) => status)).toEqual([403, 404]);
});
