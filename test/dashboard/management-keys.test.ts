import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MANAGEMENT_SCOPES, type ManagementScope } from '#db/events/management-scopes.ts';
import { publicId } from '#db/ids.ts';
import type { CreatedKey, CreatedManagementKey, KeyList, ManagementKeyList } from '#server/contract/keys.ts';
import { ManagementKeyControl } from '#server/control/management-key-control.ts';
import { createSecret, MANAGEMENT_SECRET_PREFIX } from '#server/secrets/key-secret.ts';
import { callDemo, type SignedInClient, startPeopledRelay, visit } from '../support/dashboard.ts';
import { listApiRoutes } from '../layout/api-routes.ts';
import type { TestRelay } from '../support/relay.ts';

/** Keys of the management API: what they may do, and what no key may. */

let relay: TestRelay;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;

beforeAll(async () => {
  ({ relay, administrator, auditor, ana, ben } = await startPeopledRelay());
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const ALL = [...MANAGEMENT_SCOPES];
async function make(
  client: SignedInClient,
  scopes: ManagementScope[],
  more: object = {},
): Promise<CreatedManagementKey> {
  const { status, body } = await client.post<CreatedManagementKey>('/api/v1/management-keys', {
    name: 'terraform',
    scopes,
    ...more,
  });
  expect(status).toBe(200);
  return body;
}
/** A program: it has no cookie and names no origin. */
const program = (secret: string) => visit(relay, { authorization: `Bearer ${secret}`, origin: '' });

const routes = listApiRoutes();

describe('a management key', () => {
  test('is shown once, listed without its secret, and its event has its scopes and creator', async () => {
    const made = await make(ana, ['keys:write', 'usage:read']);
    expect(made.secret).toMatch(/^dbm_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/);
    const { body } = await ana.get<ManagementKeyList>('/api/v1/management-keys');
    expect(body.data[0]).toMatchObject({
      id: made.id,
      scopes: ['keys:write', 'usage:read'],
      account: ana.me.account.id,
      state: 'active',
      created_by: `member/${ana.me.member.id}`,
    });
    const log = await relay.readLog();
    expect(JSON.stringify([body, log])).not.toContain(made.secret.slice(13, -4));
    expect(log.at(-1)?.event).toMatchObject({
      type: 'management_key.created',
      management_key: made.id,
      account: ana.me.account.id,
      actor: `member/${ana.me.member.id}`,
    });
  });

  test('makes changes without a session, and their events name it as the actor', async () => {
    const { id, secret } = await make(ana, ['keys:write']);
    const made = await program(secret).post<CreatedKey>('/api/v1/keys', { name: 'by program' });
    expect(made.status).toBe(200);
    expect(
      (await relay.readLog()).findLast(({ event }) => event.type === 'key.created')?.event,
    ).toMatchObject({ key: made.body.id, account: ana.me.account.id, actor: `management_key/${id}` });
    expect(await callDemo(relay, made.body.secret)).toBe('200');
  });

  test('of an account sees nothing of other accounts', async () => {
    const { body: theirs } = await ben.post<CreatedKey>('/api/v1/keys', { name: 'of ben' });
    const { secret } = await make(ana, ALL);
    const { body } = await program(secret).get<KeyList>('/api/v1/keys');
    expect(body.data.map(({ account }) => account)).not.toContain(ben.me.account.id);
    for (const path of [`/api/v1/keys/${theirs.id}`, `/api/v1/keys?account=${ben.me.account.id}`])
      expect(await program(secret).get(path)).toMatchObject({ status: 404 });
    expect(await program(secret).post(`/api/v1/keys/${theirs.id}/revoke`)).toMatchObject({ status: 404 });
    expect(await program(secret).get('/api/v1/accounts')).toMatchObject({ code: 'insufficient_role' });
  });

  test('of the installation manages every account', async () => {
    const { secret } = await make(administrator, ['accounts:write', 'keys:write'], { account: null });
    const made = await program(secret).post<{ id: string }>('/api/v1/accounts', { name: publicId() });
    expect(made.status).toBe(200);
    const key = await program(secret).post<CreatedKey>('/api/v1/keys', { name: 'k', account: made.body.id });
    expect(key.status).toBe(200);
  });
});

describe('scopes', () => {
  test('every route rejects a key without its scope, whatever other scopes the key has', async () => {
    const scopeless = new Map<ManagementScope, string>();
    for (const scope of MANAGEMENT_SCOPES) {
      const resource = scope.slice(0, scope.indexOf(':') + 1);
      const others = ALL.filter((each) =>
        scope.endsWith(':read') ? !each.startsWith(resource) : each !== scope,
      );
      scopeless.set(scope, (await make(administrator, others, { account: null })).secret);
    }
    const scoped = routes.filter(({ scope }) => scope !== null);
    expect(scoped.length).toBeGreaterThan(60);
    for (const { method, path, scope } of scoped) {
      const client = program(scopeless.get(scope as ManagementScope) ?? '');
      const reply = await client[method](path.replace(/:\w+/g, 'Unknown0'));
      expect({ path, status: reply.status, code: reply.code }).toEqual({
        path,
        status: 403,
        code: 'insufficient_scope',
      });
    }
  });

  test('changes need a scope to write, whichever route makes them', () => {
    const reading = routes.filter(({ scope, method }) => scope?.endsWith(':read') && method !== 'get');
    expect(reading.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual([
      'post /api/v1/accounts/:account/attribution',
      'post /api/v1/audit/checks',
      'post /api/v1/audit/receipt',
      'post /api/v1/backtests',
      'post /api/v1/desired-state/plan',
      'post /api/v1/keys/:key/check',
    ]);
  });

  test('no key may use routes that give permissions to people or keys', async () => {
    const { secret } = await make(administrator, ALL, { account: null });
    const closed = routes.filter(({ scope, roles }) => scope === null && roles !== null);
    expect(closed.map(({ path }) => path)).toEqual(
      expect.arrayContaining([
        '/api/v1/management-keys',
        '/api/v1/invitations',
        '/api/v1/playground/chat/completions',
      ]),
    );
    for (const { method, path } of closed) {
      const reply = await program(secret)[method](path.replace(/:\w+/g, 'Unknown0'));
      expect({ path, code: reply.code }).toEqual({ path, code: 'insufficient_scope' });
    }
  });
});

describe('keys that are rejected', () => {
  test('a management key relays no call, and an API key manages nothing', async () => {
    const { secret } = await make(administrator, ALL, { account: null });
    expect(await callDemo(relay, secret)).toBe('401 invalid_api_key');
    expect(await program(relay.key).get('/api/v1/keys')).toMatchObject({
      status: 401,
      code: 'invalid_management_key',
    });
  });

  test('a key beside a valid session counts alone', async () => {
    const client = Object.assign(visit(relay, { authorization: 'Bearer dbm_wrong' }), {
      cookie: administrator.cookie,
    });
    expect(await client.get('/api/v1/accounts')).toMatchObject({
      status: 401,
      code: 'invalid_management_key',
    });
  });

  test('unknown, altered and expired keys are 401', async () => {
    const { id, secret } = await make(ana, ['keys:read']);
    const forged = createSecret(id, MANAGEMENT_SECRET_PREFIX);
    for (const wrong of [forged, createSecret('Unknown0', MANAGEMENT_SECRET_PREFIX), `${secret}x`, ''])
      expect(await program(wrong).get('/api/v1/keys')).toMatchObject({ code: 'invalid_management_key' });
    const soon = await make(ana, ['keys:read'], { expires_at: new Date(Date.now() + 1_500).toISOString() });
    await expect
      .poll(async () => (await program(soon.secret).get('/api/v1/keys')).code)
      .toBe('management_key_expired');
  });

  test('a key that another process revokes is rejected when the server has read the event', async () => {
    const { id, secret } = await make(ana, ['keys:read']);
    expect((await program(secret).get('/api/v1/keys')).status).toBe(200);
    await relay.control((control) => new ManagementKeyControl(control).revoke(id));
    expect(await program(secret).get('/api/v1/keys')).toMatchObject({
      status: 401,
      code: 'management_key_revoked',
    });
  });

  test('a member revokes only keys of their account, once, and an auditor none', async () => {
    const { id } = await make(ana, ['keys:read']);
    const path = `/api/v1/management-keys/${id}/revoke`;
    expect(await ben.post(path)).toMatchObject({ status: 404 });
    expect(await auditor.post(path)).toMatchObject({ status: 403 });
    expect(await ana.post(path)).toMatchObject({ body: { event: { type: 'management_key.revoked' } } });
    expect(await ana.post(path)).toMatchObject({ body: { event: null } });
  });

  test('members create keys of their own account only', async () => {
    for (const account of [null, ben.me.account.id])
      expect(
        await ana.post('/api/v1/management-keys', { name: 'k', scopes: ['keys:read'], account }),
      ).toMatchObject({ status: 404 });
  });
});
