import axios from 'axios';
import { OpenAPIClientAxios } from 'openapi-client-axios';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MANAGEMENT_SCOPES } from '#db/events/management-scopes.ts';
import type { CreatedManagementKey } from '#server/contract/keys.ts';
import { callDemo, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import type { TestRelay } from '../support/relay.ts';

/** Programs that know only the OpenAPI document. */

let relay: TestRelay;
let administrator: SignedInClient;
let key: CreatedManagementKey;

beforeAll(async () => {
  ({ relay, administrator } = await startPeopledRelay());
  ({ body: key } = await administrator.post<CreatedManagementKey>('/api/v1/management-keys', {
    name: 'program',
    scopes: MANAGEMENT_SCOPES,
    account: null,
  }));
});
afterAll(() => relay?.[Symbol.asyncDispose]());

type Ids = { id: string; secret: string };

test('a client generated from the OpenAPI document gets from an account to its first call', async () => {
  const origin = `http://127.0.0.1:${relay.port}`;
  const headers = { authorization: `Bearer ${key.secret}` };
  const { data: definition } = await axios.get(`${origin}/api/v1/openapi.json`);
  const client = await new OpenAPIClientAxios({
    definition,
    axiosConfigDefaults: { baseURL: origin, headers },
  }).init();
  const call = async (operation: string, ...input: [object?, unknown?]): Promise<unknown> =>
    (
      await (client as unknown as Record<string, (...all: unknown[]) => Promise<{ data: unknown }>>)[
        operation
      ]?.(...input)
    )?.data;

  await call('put_plans_by_plan', { plan: 'starter' }, { terms: { requests_per_minute: 60 } });
  const account = (await call('post_accounts', undefined, { name: 'acme', plan: 'starter' })) as Ids;
  const created = (await call('post_keys', undefined, { name: 'laptop', account: account.id })) as Ids;
  expect(await callDemo(relay, created.secret)).toBe('200');
  expect(await call('get_keys', { account: account.id })).toMatchObject({ data: [{ id: created.id }] });
  await call('post_keys_by_key_revoke', { key: created.id });
  expect(await callDemo(relay, created.secret)).toBe('401 api_key_revoked');
  const actors = (await relay.readLog()).flatMap(({ event }) =>
    event.type === 'plan.defined' || event.type === 'account.registered' || event.type === 'key.revoked'
      ? [event.actor]
      : [],
  );
  expect(actors.slice(-3)).toEqual(Array.from({ length: 3 }, () => `management_key/${key.id}`));
});

test('llms.txt is public, and names the OpenAPI document', async () => {
  const reply = await fetch(`http://127.0.0.1:${relay.port}/llms.txt`);
  expect(reply.status).toBe(200);
  expect(await reply.text()).toContain('/api/v1/openapi.json');
});
