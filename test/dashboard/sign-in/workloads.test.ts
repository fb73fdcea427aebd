import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import type { PutWorkload, WorkloadRow } from '#server/contract/identity/workloads.ts';
import { createExchangedSecret } from '#server/secrets/exchanged-secret.ts';
import { callDemo, setUp, type SignedInClient } from '../../support/dashboard.ts';
import {
  type Forge,
  type HostileIssuer,
  signed,
  startHostileIssuer,
  type Token,
  unsigned,
  withPublicKeyAsSecret,
} from '../../support/oidc/hostile-issuer.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';
import { commandLine } from '../../support/servers/command-line.ts';

/** Workloads: machines that exchange a token of their platform for a short-lived key. */

const AUDIENCE = 'https://daybook.example.com';
let relay: TestRelay;
let administrator: SignedInClient;
let issuer: HostileIssuer;
let account: { id: string; name: string };

beforeAll(async () => {
  relay = await startRelay();
  issuer = await startHostileIssuer(AUDIENCE);
  administrator = await setUp(relay);
  account = await relay.createAccount('Builds');
  expect((await configure('app')).status).toBe(200);
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await issuer?.[Symbol.asyncDispose]();
});

const configure = (name: string, more: Partial<PutWorkload> = {}) =>
  administrator.put(`/api/v1/workloads/${name}`, {
    account: account.id,
    issuer: issuer.issuer,
    audience: AUDIENCE,
    conditions: [
      { claim: 'repository', values: ['acme/app', 'acme/site'] },
      { claim: 'ref', values: ['refs/heads/*'] },
    ],
    network: 'private',
    ...more,
  });
const workload = async (name: string): Promise<WorkloadRow> => {
  const { body } = await administrator.get<{ data: WorkloadRow[] }>('/api/v1/workloads');
  return body.data.find((row) => row.name === name) as WorkloadRow;
};

const nowS = (): number => Math.floor(Date.now() / 1_000);
/** The parts of a token of a build, which nothing else has the id of. */
const build = (claims: Record<string, unknown> = {}): Token => ({
  header: { alg: 'RS256', kid: 'one', typ: 'JWT' },
  claims: {
    iss: issuer.issuer,
    aud: AUDIENCE,
    sub: 'repo:acme/app:ref:refs/heads/main',
    repository: 'acme/app',
    ref: 'refs/heads/main',
    actor: 'octocat',
    jti: randomUUID(),
    iat: nowS(),
    nbf: nowS() - 5,
    exp: nowS() + 300,
    ...claims,
  },
});
const tokenOf = (claims: Record<string, unknown> = {}): string => signed(issuer.privateKey)(build(claims));

type Reply = { status: number; body: Record<string, unknown>; headers: Headers };
const FORM = {
  grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
  subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
};
async function post(form: Record<string, string> | string): Promise<Reply> {
  const reply = await fetch(`http://127.0.0.1:${relay.port}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams(form),
  });
  return {
    status: reply.status,
    body: (await reply.json()) as Record<string, unknown>,
    headers: reply.headers,
  };
}
const exchange = (subject_token: string, more: Record<string, string> = {}): Promise<Reply> =>
  post({ ...FORM, subject_token, ...more });
const secretOf = ({ body }: Reply): string => String(body['access_token']);
const exchanges = async () =>
  (await relay.readLog()).flatMap(({ event }) => (event.type === 'workload.exchanged' ? [event] : []));

describe('a token', () => {
  test('is exchanged for a short-lived key by RFC 8693; its event has the claims used', async () => {
    const token = tokenOf();
    const before = Date.now();
    const reply = await exchange(token);
    expect(reply).toMatchObject({
      status: 200,
      body: {
        access_token: expect.stringMatching(/^dbk_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/),
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
        expires_in: 900,
      },
    });
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(await callDemo(relay, secretOf(reply))).toBe('200');
    const { key } = await workload('app');
    const event = (await exchanges()).at(-1) as EventOf<'workload.exchanged'>;
    expect(event).toEqual({
      type: 'workload.exchanged',
      request: reply.headers.get('x-request-id'),
      workload: 'app',
      account: account.id,
      key,
      exchange: secretOf(reply).slice(19, 27),
      expires_at: event.expires_at,
      issuer: issuer.issuer,
      claims: { repository: 'acme/app', ref: 'refs/heads/main' },
    });
    expect(Date.parse(event.expires_at)).toBeGreaterThan(before + 890_000);
    const log = JSON.stringify(await relay.readLog());
    for (const hidden of [secretOf(reply), token, 'octocat']) expect(log).not.toContain(hidden);
    const call = (await relay.readLog()).find((placed) => placed.event.type === 'request.accepted');
    expect(call?.event).toMatchObject({ key, account: account.id });
    const { body } = await administrator.get<{ data: { id: string }[] }>('/api/v1/workloads/app/keys');
    expect(body.data.map(({ id }) => id)).toEqual([event.exchange]);
    expect((await workload('app')).live_keys).toBe(1);
  });

  test('is exchanged once, however many ask at the same time', async () => {
    const token = tokenOf();
    const replies = await Promise.all(Array.from({ length: 6 }, () => exchange(token)));
    expect(replies.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      200, 400, 400, 400, 400, 400,
    ]);
    const { jti: _, ...unnamed } = build().claims;
    const withoutId = signed(issuer.privateKey)({ header: build().header, claims: unnamed });
    expect([(await exchange(withoutId)).status, (await exchange(withoutId)).status]).toEqual([200, 400]);
  });

  test('is exchanged again where the workload allows it', async () => {
    const conditions = [{ claim: 'kubernetes.io.namespace', values: ['batch'] }];
    await configure('cluster', { conditions, single_use: false, key_minutes: 1 });
    const pod = tokenOf({ 'kubernetes.io': { namespace: 'batch' }, repository: undefined });
    const [one, other] = [await exchange(pod), await exchange(pod)];
    expect([one.status, other.status, one.body['expires_in']]).toEqual([200, 200, 60]);
    expect(secretOf(one)).not.toBe(secretOf(other));
  });

  test('of an issuer that can’t be reached is verified by the keys of the workload', async () => {
    const { jwk } = issuer;
    expect(
      (await configure('closed', { jwks: [jwk as never], issuer: 'https://cluster.invalid' })).status,
    ).toBe(200);
    expect((await exchange(tokenOf({ iss: 'https://cluster.invalid' }))).status).toBe(200);
    const forged = signed(issuer.otherKey)(build({ iss: 'https://cluster.invalid' }));
    expect((await exchange(forged)).status).toBe(400);
  });

  test('gets another reply while its issuer is away: its keys are not known', async () => {
    await using gone = await startHostileIssuer(AUDIENCE);
    await configure('gone', { issuer: gone.issuer });
    await gone[Symbol.asyncDispose]();
    const reply = await exchange(tokenOf({ iss: gone.issuer }));
    expect([reply.status, reply.body['error']]).toEqual([503, 'temporarily_unavailable']);
    expect(reply.headers.get('retry-after')).not.toBeNull();
  });

  test('of a suspended account gets no key', async () => {
    await administrator.post(`/api/v1/accounts/${account.id}/suspend`);
    expect((await exchange(tokenOf())).body['error']).toBe('invalid_target');
    await administrator.post(`/api/v1/accounts/${account.id}/reinstate`);
  });
});

const withClaims =
  (claims: Record<string, unknown>): Forge =>
  (token) =>
    signed(issuer.privateKey)({ ...token, claims: { ...token.claims, ...claims } });
const withHeader =
  (header: Record<string, unknown>, forge: Forge): Forge =>
  (token) =>
    forge({ ...token, header: { ...token.header, ...header } });
const FORGERIES: Record<string, () => Forge> = {
  'alg none': () => withHeader({ alg: 'none' }, unsigned),
  'no signature': () => unsigned,
  'HS256 with the public key': () => withHeader({ alg: 'HS256' }, withPublicKeyAsSecret(issuer.publicPem)),
  'another key with the same id': () => signed(issuer.otherKey),
  'a key within its header': () =>
    withHeader({ jwk: issuer.otherKey.export({ format: 'jwk' }) }, signed(issuer.otherKey)),
  'a critical extension': () => withHeader({ crit: ['exp'] }, signed(issuer.privateKey)),
  'changed claims under the signature of others': () => (token) => {
    const [header, , signature] = signed(issuer.privateKey)(withRepository(token, 'evil/app')).split('.');
    return [header, Buffer.from(JSON.stringify(token.claims)).toString('base64url'), signature].join('.');
  },
  'another audience': () => withClaims({ aud: 'https://other.example.com' }),
  'no audience': () => withClaims({ aud: undefined }),
  'another issuer': () => withClaims({ iss: 'https://token.actions.githubusercontent.com' }),
  'no issuer': () => withClaims({ iss: undefined }),
  expired: () => withClaims({ exp: nowS() - 60 }),
  'no expiry': () => withClaims({ exp: undefined }),
  'an expiry of next week': () => withClaims({ exp: nowS() + 7 * 86_400 }),
  'not valid yet': () => withClaims({ nbf: nowS() + 3_600 }),
  'another repository': () => withClaims({ repository: 'evil/app' }),
  'a repository that begins alike': () => withClaims({ repository: 'acme/app2' }),
  'a branch with an empty name': () => withClaims({ ref: 'refs/heads/' }),
  'a tag': () => withClaims({ ref: 'refs/tags/v1' }),
  'a missing claim': () => withClaims({ repository: undefined }),
  'a claim that is an object': () => withClaims({ repository: { 'acme/app': true } }),
  'text that is no token': () => () => 'a.b.c',
  'a huge token': () => withClaims({ padding: 'x'.repeat(17_000) }),
};
const withRepository = (token: Token, repository: string): Token => ({
  ...token,
  claims: { ...token.claims, repository },
});

describe('a token is refused, and nothing is recorded:', () => {
  test.each(Object.keys(FORGERIES))('%s', async (name) => {
    const before = (await exchanges()).length;
    const reply = await exchange((FORGERIES[name] as () => Forge)()(build()));
    expect([reply.status, reply.body['error'], reply.body['access_token']]).toEqual([
      400,
      'invalid_request',
      undefined,
    ]);
    expect(await exchanges()).toHaveLength(before);
  });

  test('an unknown key; many of them make the server read the keys once more at most', async () => {
    await exchange(tokenOf());
    const before = issuer.keysRead;
    for (let left = 20; left > 0; left--) {
      const unknown = withHeader({ kid: `unknown-${left}` }, signed(issuer.otherKey))(build());
      expect((await exchange(unknown)).status).toBe(400);
    }
    expect(issuer.keysRead - before).toBeLessThanOrEqual(1);
  });
});

test('a request that is no token exchange is refused in the form of RFC 6749', async () => {
  const token = tokenOf();
  const error = async (form: Record<string, string> | string) => (await post(form)).body['error'];
  expect(await error({ ...FORM, grant_type: 'client_credentials', subject_token: token })).toBe(
    'unsupported_grant_type',
  );
  expect(await error({ ...FORM })).toBe('invalid_request');
  expect(await error({ ...FORM, subject_token_type: 'urn:other', subject_token: token })).toBe(
    'invalid_request',
  );
  expect(await error({ ...FORM, actor_token: token, subject_token: token })).toBe('invalid_request');
  expect(
    await error(`${String(new URLSearchParams({ ...FORM, subject_token: token }))}&subject_token=${token}`),
  ).toBe('invalid_request');
  expect(await error({ ...FORM, subject_token: token, padding: 'x'.repeat(30_000) })).toBe('invalid_request');
  expect((await exchange(token, { workload: 'nowhere' })).status).toBe(400);
  expect((await fetch(`http://127.0.0.1:${relay.port}/oauth/token`)).status).toBe(405);
  // None of these used the token up.
  expect((await exchange(token, { workload: 'app' })).status).toBe(200);
});

describe('a short-lived key', () => {
  test('is refused after its end, with another expiry, and for another key', async () => {
    const { key } = await workload('app');
    const made = await relay.control((_, pepper) =>
      Promise.resolve({
        valid: createExchangedSecret(pepper, { key, exchange: 'Exchange', expiresMs: Date.now() + 60_000 }),
        over: createExchangedSecret(pepper, { key, exchange: 'Exchange', expiresMs: Date.now() - 60_000 }),
        other: createExchangedSecret(pepper, {
          key: relay.key.slice(4, 12),
          exchange: 'Exchange',
          expiresMs: Date.now() + 60_000,
        }),
        forged: createExchangedSecret(Buffer.alloc(32), {
          key,
          exchange: 'Exchange',
          expiresMs: Date.now() + 60_000,
        }),
      }),
    );
    expect(await callDemo(relay, made.valid)).toBe('200');
    expect(await callDemo(relay, made.over)).toBe('401 api_key_expired');
    expect(await callDemo(relay, made.other)).toBe('401 invalid_api_key');
    expect(await callDemo(relay, made.forged)).toBe('401 invalid_api_key');
  });

  test('ends with its workload, whose key can’t be rotated to a lasting secret', async () => {
    await configure('ending', { conditions: [{ claim: 'job', values: ['deploy'] }] });
    const { key } = await workload('ending');
    const secret = secretOf(await exchange(tokenOf({ job: 'deploy' }), { workload: 'ending' }));
    expect(await callDemo(relay, secret)).toBe('200');
    expect(
      (await administrator.post(`/api/v1/keys/${key}/rotate`, { overlap_s: 0, rotation: randomUUID() }))
        .status,
    ).toBe(409);
    expect((await administrator.delete('/api/v1/workloads/ending')).body).toMatchObject({
      event: { type: 'workload.removed' },
    });
    expect(await callDemo(relay, secret)).toBe('401 api_key_revoked');
    expect((await exchange(tokenOf({ job: 'deploy' }), { workload: 'ending' })).status).toBe(400);
    expect((await administrator.delete('/api/v1/workloads/ending')).status).toBe(404);
  });
});

describe('a workload', () => {
  test('is an event with its actor, and needs an account, a condition and a safe issuer', async () => {
    const last = (await relay.readLog()).findLast(({ event }) => event.type === 'workload.configured');
    expect(last?.event).toMatchObject({ actor: `member/${administrator.me.member.id}` });
    const before = await workload('app');
    expect((await configure('app')).body).toEqual({ event: null });
    const { d: _, ...privateJwk } = { ...issuer.privateKey.export({ format: 'jwk' }), d: '' };
    for (const wrong of [
      { conditions: [] },
      { conditions: [{ claim: 'repository', values: ['acme*'] }] },
      { conditions: [{ claim: 'repository', values: ['*'] }] },
      { account: 'Nowhere1' },
      { key_minutes: 61 },
      { network: 'public' as const },
      { issuer: 'https://169.254.169.254/' },
      { jwks: [{ ...privateJwk, d: 'private' } as never] },
    ])
      expect((await configure('app', wrong)).status, JSON.stringify(wrong)).toBeGreaterThanOrEqual(400);
    const other = await relay.createAccount('Others');
    expect((await configure('app', { account: other.id })).status).toBe(409);
    expect(await workload('app')).toEqual(before);
  });

  test('is set, listed and removed by commands', async () => {
    const { dataDir, store } = relay;
    const { daybook, json } = commandLine(() => ({
      DAYBOOK_DATA: dataDir,
      ...('url' in store ? { DATABASE_URL: String(store.url) } : {}),
    }));
    const keys = path.join(dataDir, 'jwks.json');
    await writeFile(keys, JSON.stringify({ keys: [issuer.jwk] }));
    const set = ['workload', 'set', 'pods', '--account', 'Builds', '--issuer', 'https://cluster.invalid'];
    set.push('--audience', 'daybook', '--jwks-file', keys, '--no-single-use');
    expect(await json(...set, '--condition', 'sub=system:serviceaccount:batch:*')).toMatchObject({
      name: 'pods',
      changed: true,
    });
    expect(await json('workload', 'set', 'pods', '--key-minutes', '5')).toMatchObject({ changed: true });
    const listed = (await json('workload', 'list')) as { name: string }[];
    expect(listed.find(({ name }) => name === 'pods')).toMatchObject({
      account: 'Builds',
      key_minutes: 5,
      single_use: false,
      conditions: [{ claim: 'sub', values: ['system:serviceaccount:batch:*'] }],
    });
    expect((await daybook('workload', 'set', 'pods', '--condition', 'nothing')).code).not.toBe(0);
    expect(await json('workload', 'remove', 'pods')).toEqual({ name: 'pods' });
  });
});
