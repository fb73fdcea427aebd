import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AccountRow, TopUpList } from '#server/contract/accounts.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import type { TestRelay } from '../support/relay.ts';

/** Parent accounts and prepaid balances, changed by an administrator. */

let relay: TestRelay;
let administrator: SignedInClient;
let ana: SignedInClient;

beforeAll(async () => {
  ({ relay, administrator, ana } = await startPeopledRelay());
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const row = async (id: string): Promise<AccountRow> =>
  (await administrator.get<AccountRow>(`/api/v1/accounts/${id}`)).body;

test('an administrator puts accounts below others, and circles are rejected', async () => {
  const made = await Promise.all(
    ['organization', 'team', 'project', 'task'].map((name) => relay.createAccount(name)),
  );
  const [top, team, project, task] = made.map(({ id }) => id) as [string, string, string, string];
  const put = (id: string, parent: string | null, by = administrator) =>
    by.put<{ code?: string; error?: { code: string; message: string } }>(`/api/v1/accounts/${id}/parent`, {
      parent,
    });
  expect((await put(team, top)).status).toBe(200);
  expect((await put(project, team)).status).toBe(200);
  expect(await row(team)).toMatchObject({
    parent: { id: top, name: 'organization' },
    children: [{ id: project, name: 'project' }],
  });
  expect((await row(top)).children).toEqual([{ id: team, name: 'team' }]);
  expect((await put(top, project)).status).toBe(409);
  const fourth = await put(task, project);
  expect([fourth.status, JSON.stringify(fourth.body)]).toEqual([
    409,
    expect.stringContaining('at most 3 levels'),
  ]);
  expect((await put(task, 'Unknown1')).status).toBe(404);
  expect((await put(task, null, ana)).status).toBe(403);
  expect((await put(project, null)).status).toBe(200);
  expect(await row(project)).toMatchObject({ parent: null });
  expect((await row(team)).children).toEqual([]);
});

test('a top-up adds to the balance once for each reference, and is listed', async () => {
  const { id } = await relay.createAccount('prepaid');
  const topUp = (amount_nanousd: number, reference: string, by = administrator) =>
    by.post(`/api/v1/accounts/${id}/top-ups`, { amount_nanousd, reference });
  expect((await topUp(25_000_000_000, 'invoice 7')).status).toBe(200);
  expect((await topUp(25_000_000_000, 'invoice 7')).status).toBe(409);
  expect((await topUp(1_000_000_000, ' invoice 8 ')).status).toBe(200);
  expect((await topUp(0, 'invoice 9')).status).toBe(400);
  expect((await topUp(1, 'invoice 9', ana)).status).toBe(403);
  expect(await row(id)).toMatchObject({ prepaid: false, topped_up_nanousd: 26_000_000_000 });
  const list = await administrator.get<TopUpList>(`/api/v1/accounts/${id}/top-ups`);
  expect(list.body.data).toMatchObject([
    { amount_nanousd: 1_000_000_000, reference: 'invoice 8' },
    { amount_nanousd: 25_000_000_000, reference: 'invoice 7' },
  ]);
  await administrator.put(`/api/v1/accounts/${id}/override`, { terms: { prepaid: true } });
  expect((await row(id)).prepaid).toBe(true);
});
