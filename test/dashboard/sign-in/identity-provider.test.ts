import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { IdentityProviderRow, PutIdentityProvider } from '#server/contract/members.ts';
import type { MemberRow } from '#server/contract/members.ts';
import type { Me, Welcome } from '#server/contract/session.ts';
import {
  type ApiReply,
  addMember,
  callDemo,
  PASSWORD,
  setUp,
  type SignedInClient,
  signIn,
  visit,
} from '../../support/dashboard.ts';
import { startProvider, type TestProvider } from '../../support/oidc/provider.ts';
import { Walker } from '../../support/oidc/walk.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';

/** Signing in through a certified OpenID provider. */

let relay: TestRelay;
let provider: TestProvider;
let administrator: SignedInClient;
let origin: string;
/** The account that engineers join, and one of its keys. */
let engineering: { id: string; name: string };
let key: string;

beforeAll(async () => {
  relay = await startRelay();
  origin = `http://127.0.0.1:${relay.port}`;
  provider = await startProvider([`${origin}/sign-in/acme/callback`]);
  administrator = await setUp(relay);
  engineering = await relay.createAccount('Engineering');
  key = (await relay.createKey({ account: 'Engineering' })).secret;
  expect((await configure()).status).toBe(200);
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
});

const configure = (more: Partial<PutIdentityProvider> = {}): Promise<ApiReply> =>
  administrator.put('/api/v1/identity-providers/acme', {
    label: 'Acme SSO',
    issuer: provider.issuer,
    client_id: provider.clientId,
    client_secret: provider.clientSecret,
    scopes: ['email', 'groups'],
    empty_accounts: 'suspend',
    network: 'private',
    rules: [
      { group: 'auditors', role: 'auditor', account: engineering.id },
      { group: 'engineers', role: 'member', account: engineering.id },
      { group: 'contractors', role: 'member', account: null },
    ],
    ...more,
  });

/** Signs a person in. @returns the path at the end, and who the dashboard says they are. */
async function enter(person: string, walker = new Walker()): Promise<{ at: string; me: Me | null }> {
  const end = await walker.walk(
    `${origin}/sign-in/acme/start?next=/usage`,
    person,
    (url) => url.startsWith(origin) && !/start|callback/.test(url),
  );
  const at = end.slice(origin.length);
  return { at, me: await meOf(walker) };
}
async function meOf(walker: Walker): Promise<Me | null> {
  const client = visit(relay, { cookie: walker.cookiesOf(origin) });
  const { status, body } = await client.get<Me>('/api/v1/me');
  return status === 200 ? body : null;
}
const person = (name: string, groups: string[], email = `${name}@acme.example`) =>
  provider.people.set(name, { email, email_verified: true, groups });
const eventsAfter = async (position: number) =>
  (await relay.readLog()).filter((placed) => placed.position > position).map(({ event }) => event);
const head = async (): Promise<number> => (await relay.readLog()).at(-1)?.position ?? 0;
const members = async (): Promise<MemberRow[]> =>
  (await administrator.get<{ data: MemberRow[] }>('/api/v1/members')).body.data;

describe('a provider', () => {
  test('is on the sign-in page, and listed without its client secret, which is sealed', async () => {
    expect((await visit(relay).get<Welcome>('/api/v1/welcome')).body.providers).toEqual([
      { name: 'acme', label: 'Acme SSO', start_path: '/sign-in/acme/start' },
    ]);
    const { body } = await administrator.get<{ data: IdentityProviderRow[] }>('/api/v1/identity-providers');
    expect(body.data).toMatchObject([
      { name: 'acme', has_client_secret: true, redirect_uri: `${origin}/sign-in/acme/callback` },
    ]);
    expect(JSON.stringify([body, await relay.readLog()])).not.toContain(provider.clientSecret);
    expect((await relay.readLog()).at(-1)?.event).toMatchObject({
      type: 'identity_provider.configured',
      actor: `member/${administrator.me.member.id}`,
    });
    // The same once more is no change.
    expect((await configure()).body).toEqual({ event: null });
  });

  test('has to be at an address that is allowed, and its rules lead to accounts that exist', async () => {
    for (const wrong of [
      { network: 'public' as const },
      { issuer: 'http://login.example.com' },
      { issuer: 'https://169.254.169.254/' },
      { issuer: 'https://login.example.com/?a=b' },
      { rules: [] },
      { rules: [{ group: null, role: 'member' as const, account: 'Nowhere1' }] },
    ])
      expect((await configure(wrong)).status, JSON.stringify(wrong)).toBeGreaterThanOrEqual(400);
    expect((await administrator.put('/api/v1/identity-providers/A B', {})).status).toBe(400);
  });
});

describe('a person', () => {
  test('without a group of a rule gets no member', async () => {
    person('eve', ['sales']);
    const before = await head();
    expect(await enter('eve')).toEqual({ at: '/sign-in?error=no_matching_rule', me: null });
    expect(await eventsAfter(before)).toEqual([]);
  });

  test('becomes a member at the first sign-in, by the first rule that fits, once', async () => {
    person('ana', ['everyone', 'engineers', 'contractors']);
    const before = await head();
    const first = await enter('ana');
    expect(first).toMatchObject({
      at: '/usage',
      me: {
        member: { email: 'ana@acme.example', role: 'member', has_password: false },
        account: { name: 'Engineering' },
      },
    });
    const events = await eventsAfter(before);
    expect(events).toMatchObject([
      { type: 'member.added', provider: 'acme', actor: 'identity_provider/acme', role: 'member' },
      { type: 'session.opened', actor: `member/${first.me?.member.id}` },
    ]);
    expect(JSON.stringify(events)).not.toContain('acme.example');
    expect((await enter('ana')).me?.member.id).toBe(first.me?.member.id);
  });

  test('gets an account of their own where the rule names none', async () => {
    person('carl', ['contractors']);
    const { me } = await enter('carl');
    expect(me?.account.name).toBe(`Acme SSO ${me?.member.id}`);
  });

  test('has the role of their groups from the next sign-in on, in open sessions too', async () => {
    const walker = new Walker();
    person('ben', ['engineers']);
    await enter('ben', walker);
    person('ben', ['engineers', 'auditors']);
    const before = await head();
    const { me } = await enter('ben');
    expect(me?.member.role).toBe('auditor');
    expect((await meOf(walker))?.member.role).toBe('auditor');
    expect((await eventsAfter(before))[0]).toMatchObject({
      type: 'member.role_changed',
      role: 'auditor',
      actor: 'identity_provider/acme',
    });
  });

  test('moves to the account of another rule, as another member', async () => {
    person('dora', ['contractors']);
    const before = await enter('dora');
    person('dora', ['engineers']);
    const after = await enter('dora');
    expect(after.me?.account.name).toBe('Engineering');
    expect(after.me?.member.id).not.toBe(before.me?.member.id);
    expect((await members()).map(({ id }) => id)).not.toContain(before.me?.member.id);
  });

  test('is kept out where their email is not verified, or a member has it who was not linked', async () => {
    await addMember(relay, { email: 'taken@acme.example' });
    person('tina', ['engineers'], 'taken@acme.example');
    expect((await enter('tina')).at).toBe('/sign-in?error=email_in_use');
    provider.people.set('una', { email: 'una@acme.example', email_verified: false, groups: ['engineers'] });
    expect((await enter('una')).at).toBe('/sign-in?error=email_required');
  });
});

describe('a member who is in no group of a rule any more', () => {
  test('is removed with all sessions, and the keys of an empty account are suspended', async () => {
    for (const name of ['ana', 'ben', 'dora']) person(name, []);
    const walker = new Walker();
    person('ana', ['engineers']);
    await enter('ana', walker);
    for (const name of ['ben', 'dora'])
      expect((await enter(name)).at).toBe('/sign-in?error=no_matching_rule');
    // Ana is still there.
    expect(await callDemo(relay, key)).toBe('200');
    person('ana', []);
    const before = await head();
    expect((await enter('ana')).at).toBe('/sign-in?error=no_matching_rule');
    expect(await meOf(walker)).toBeNull();
    expect(await callDemo(relay, key)).toBe('403 account_disabled');
    const types = (await eventsAfter(before)).map(({ type }) => type);
    expect(types.filter((type) => /^(member|account)/.test(type))).toEqual([
      'member.removed',
      'account.suspended',
    ]);
    expect((await members()).map(({ email }) => email)).not.toContain('ana@acme.example');
  });

  test('reinstates the account by coming back, unless an administrator suspended it', async () => {
    person('ana', ['engineers']);
    expect((await enter('ana')).me?.account.state).toBe('active');
    expect(await callDemo(relay, key)).toBe('200');
    await administrator.post(`/api/v1/accounts/${engineering.id}/suspend`);
    expect((await enter('ana')).me?.account.state).toBe('suspended');
    await administrator.post(`/api/v1/accounts/${engineering.id}/reinstate`);
  });
});

describe('a member with a password', () => {
  test('is linked by a verified email where the provider may, and keeps the account', async () => {
    const lena = await addMember(relay, { email: 'lena@acme.example' });
    person('lena', ['auditors'], 'LENA@acme.example');
    await configure({ link_by_email: true });
    const { me } = await enter('lena');
    expect(me).toMatchObject({
      member: { id: lena.me.member.id, role: 'auditor', has_password: true },
      account: { id: lena.me.account.id },
    });
    // From now on the provider alone lets them in, so that it can end their access.
    const reply = await visit(relay).post('/api/v1/session', { email: lena.email, password: PASSWORD });
    expect([reply.status, reply.code]).toEqual([403, 'password_sign_in_off']);
  });

  test('who is the last administrator is neither demoted nor removed by a provider', async () => {
    await configure({ link_by_email: true });
    person('root', ['engineers'], administrator.email);
    expect((await enter('root')).me?.member).toMatchObject({ role: 'administrator' });
    person('root', []);
    expect((await enter('root')).at).toBe('/sign-in?error=no_matching_rule');
    expect((await signIn(relay, administrator.email)).me.member.role).toBe('administrator');
    expect((await administrator.get('/api/v1/me')).status).toBe(200);
  });
});

describe('passwords', () => {
  test('can be for administrators alone: others neither sign in, join nor reset', async () => {
    const mia = await addMember(relay);
    const walker = new Walker();
    await enter('ana', walker);
    expect(
      (await administrator.put('/api/v1/sign-in-settings', { passwords: 'administrators' })).body,
    ).toMatchObject({
      event: { type: 'sign_in.changed' },
    });
    expect((await mia.get('/api/v1/me')).status).toBe(401);
    expect(await meOf(walker)).not.toBeNull();
    const refused = await visit(relay).post('/api/v1/session', { email: mia.email, password: PASSWORD });
    expect([refused.status, refused.code]).toEqual([403, 'password_sign_in_off']);
    // A wrong password says nothing of the policy.
    const wrong = await visit(relay).post('/api/v1/session', { email: mia.email, password: `${PASSWORD}!` });
    expect(wrong.code).toBe('invalid_credentials');
    await expect(addMember(relay)).rejects.toThrow('password_sign_in_off');
    const { body } = await administrator.post<{ link: string }>(`/api/v1/members/${mia.me.member.id}/reset`);
    const secret = body.link.slice(body.link.indexOf('#') + 1);
    expect((await visit(relay).post('/api/v1/password/reset', { secret, password: PASSWORD })).code).toBe(
      'password_sign_in_off',
    );
    expect((await signIn(relay, administrator.email)).me.member.role).toBe('administrator');
    expect((await visit(relay).get<Welcome>('/api/v1/welcome')).body.passwords).toBe('administrators');
    await administrator.put('/api/v1/sign-in-settings', { passwords: 'everyone' });
    expect((await signIn(relay, mia.email)).me.member.id).toBe(mia.me.member.id);
  });

  test('of the last administrator with one keep their role, whoever else is an administrator', async () => {
    await configure({ rules: [{ group: 'engineers', role: 'administrator', account: engineering.id }] });
    const { me } = await enter('ana');
    expect(me?.member.role).toBe('administrator');
    const own = `/api/v1/members/${administrator.me.member.id}`;
    expect((await administrator.delete(own)).code).toBe('last_administrator');
    expect((await administrator.patch(own, { role: 'member' })).code).toBe('last_administrator');
  });
});

test('a provider that is removed lets no one in, and its members are signed out', async () => {
  const walker = new Walker();
  await enter('ana', walker);
  expect((await administrator.delete('/api/v1/identity-providers/acme')).body).toMatchObject({
    event: { type: 'identity_provider.removed' },
  });
  expect(await meOf(walker)).toBeNull();
  expect((await enter('ana')).at).toBe('/sign-in?error=not_found');
  expect((await administrator.delete('/api/v1/identity-providers/acme')).status).toBe(404);
});

test('the command line sets a provider, its rules and the policy, as the page does', async () => {
  const { dataDir, store } = relay;
  const { daybook, json } = commandLine(() => ({
    DAYBOOK_DATA: dataDir,
    ...('url' in store ? { DATABASE_URL: String(store.url) } : {}),
    PUBLIC_URL: 'https://daybook.example.com',
  }));
  const secretFile = path.join(dataDir, 'client-secret.txt');
  await writeFile(secretFile, 'the-secret-of-globex\n');
  const set = ['identity-provider', 'set', 'globex', '--label', 'Globex', '--client-id', 'daybook'];
  set.push('--issuer', 'https://login.example.com', '--secret-file', secretFile);
  expect(await json(...set, '--rule', 'a=b=auditor@Engineering', '*=member')).toEqual({
    name: 'globex',
    changed: true,
    redirect_uri: 'https://daybook.example.com/sign-in/globex/callback',
  });
  // What isn't given stays.
  await json('identity-provider', 'set', 'globex', '--session-hours', '8');
  expect(await json('identity-provider', 'list')).toMatchObject([
    {
      name: 'globex',
      client_secret: true,
      session_hours: 8,
      rules: [
        { group: 'a=b', role: 'auditor', account: 'Engineering' },
        { group: null, role: 'member', account: null },
      ],
    },
  ]);
  expect((await daybook('identity-provider', 'set', 'globex', '--rule', 'nothing')).code).not.toBe(0);
  expect((await daybook('sign-in', 'passwords', 'nobody')).code).not.toBe(0);
  expect(await json('sign-in', 'passwords', 'administrators')).toEqual({ passwords: 'administrators' });
  expect(await json('identity-provider', 'remove', 'globex')).toEqual({ name: 'globex' });
  const events = (await relay.readLog()).map(({ event }) => event);
  expect(events.at(-1)).toMatchObject({ type: 'identity_provider.removed', actor: 'command-line' });
  expect(JSON.stringify(events)).not.toContain('the-secret-of-globex');
});
