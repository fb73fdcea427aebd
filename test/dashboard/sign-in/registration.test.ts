import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CreatedLink, PutRegistration, RegistrationSettings } from '#server/contract/members.ts';
import type { InvitationDetail, Me } from '#server/contract/session.ts';
import {
  type ApiReply,
  PASSWORD,
  setUp,
  type SignedInClient,
  signIn,
  statuses,
  linkSecretOf,
  visit,
} from '../../support/dashboard.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';
import type { z } from 'zod';

let relay: TestRelay;
let administrator: SignedInClient;
beforeAll(async () => {
  relay = await startRelay({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  administrator = await setUp(relay);
  await relay.control(async (control) => {
    await control.definePlan('free', { requests_per_minute: 10 }, 'keep');
    await control.definePlan('old', {}, 'keep');
  });
});
afterAll(() => relay[Symbol.asyncDispose]());

let networks = 0;
/** From a network that has not registered anybody. */
const fromAfar = () => visit(relay, { 'x-forwarded-for': `198.51.${networks++}.7` });
const register = (email: string, accountName: string, more: object = {}): Promise<ApiReply> =>
  fromAfar().post('/api/v1/registration', { email, password: PASSWORD, account_name: accountName, ...more });
const put = (policy: z.input<typeof PutRegistration>) =>
  administrator.put<{ event: { type: string } | null }>('/api/v1/registration', policy);
const invite = async (body: object): Promise<CreatedLink> =>
  (await administrator.post<CreatedLink>('/api/v1/invitations', body)).body;

describe('registration', () => {
  it('is by invitation until an administrator says otherwise', async () => {
    expect((await administrator.get<RegistrationSettings>('/api/v1/registration')).body).toEqual({
      object: 'registration',
      policy: 'invite',
      plan: null,
    });
    const refused = await register('early@example.com', 'early');
    expect([refused.status, refused.code]).toEqual([403, 'registration_closed']);
  });

  it('lets anybody in where it is open, on the plan for new accounts', async () => {
    const unlimited = await put({ policy: 'open', plan: null });
    expect([unlimited.status, unlimited.code, unlimited.body]).toMatchObject([
      400,
      'invalid_value',
      { error: { param: 'plan' } },
    ]);
    expect((await put({ policy: 'open', plan: 'free' })).body.event).toMatchObject({
      type: 'registration.changed',
    });
    expect((await put({ policy: 'open', plan: 'free' })).body.event).toBeNull();
    const reply = await register('ana@example.com', 'Ana');
    expect([reply.status, reply.body, reply.headers.getSetCookie()]).toEqual([
      202,
      { object: 'registration' },
      [],
    ]);
    const { me } = await signIn(relay, 'ana@example.com');
    expect(me).toMatchObject({
      member: { role: 'member' },
      account: { name: 'Ana', plan: 'free', state: 'active' },
    });
  });

  it('says the same whether an address is known or not, and changes nothing for who has it', async () => {
    const before = (await relay.readLog()).filter(({ event }) => event.type === 'account.registered').length;
    const taken = await register('ANA@example.com', 'Somebody else', {});
    expect([taken.status, taken.body]).toEqual([202, { object: 'registration' }]);
    expect((await relay.readLog()).filter(({ event }) => event.type === 'account.registered')).toHaveLength(
      before,
    );
    expect((await signIn(relay, 'ana@example.com')).me.account.name).toBe('Ana');
  });

  it('finds a free name where one is taken, for several at once too', async () => {
    const replies = await Promise.all(
      ['b1', 'b2', 'b3'].map((name) => register(`${name}@example.com`, 'Ana')),
    );
    expect(replies.map(({ status }) => status)).toEqual([202, 202, 202]);
    const names = await Promise.all(
      ['b1', 'b2', 'b3'].map(async (name) => (await signIn(relay, `${name}@example.com`)).me.account.name),
    );
    expect(new Set(names)).toEqual(new Set(['Ana 2', 'Ana 3', 'Ana 4']));
  });

  it('makes one member of one address, however many register it at once', async () => {
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, index) => register('twin@example.com', `twin ${index}`)),
    );
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([202]));
    const log = await relay.readLog();
    const accounts = log.flatMap(({ event }) =>
      event.type === 'account.registered' && event.name.startsWith('twin ') ? [event.account] : [],
    );
    const members = log.flatMap(({ event }) =>
      event.type === 'member.added' && accounts.includes(event.account) ? [event.member] : [],
    );
    expect([accounts.length, members.length]).toEqual([1, 1]);
  });

  it('never lands on a plan that has ended', async () => {
    expect((await put({ policy: 'open', plan: 'nowhere' })).code).toBe('not_found');
    await put({ policy: 'open', plan: 'old' });
    await relay.control((control) => control.retirePlan('old'));
    expect((await put({ policy: 'invite', plan: 'old' })).code).toBe('not_allowed');
    const refused = await register('late@example.com', 'late');
    expect([refused.status, refused.code]).toEqual([403, 'registration_closed']);
  });

  it('rejects registration while it is closed', async () => {
    await put({ policy: 'closed', plan: 'free' });
    expect((await register('closed@example.com', 'closed')).code).toBe('registration_closed');
  });

  it('rejects an invalid email address, and a password that is too short', async () => {
    await put({ policy: 'open', plan: 'free' });
    const bad = await register('no address', 'x');
    expect([bad.status, bad.code]).toEqual([400, 'invalid_value']);
    for (const [email, name] of [
      ['nul\u0000@example.com', 'x'],
      ['bell@\u0007example.com', 'x'],
      ['fine@example.com', 'n\u0000l'],
      ['fine@example.com', 'x\u001b[2J'],
    ] as const) {
      expect((await register(email, name)).code).toBe('invalid_value');
    }
    expect(
      (await visit(relay).post('/api/v1/session', { email: 'nul\u0000@example.com', password: PASSWORD }))
        .code,
    ).toBe('invalid_value');
    const short = await fromAfar().post('/api/v1/registration', {
      email: 'short@example.com',
      password: '123456789',
      account_name: 'x',
    });
    expect(short.code).toBe('invalid_value');
    expect(JSON.stringify(short.body)).not.toContain('123456789');
  });
});

describe('invitations', () => {
  it('lead into an account, in the role that they say, once', async () => {
    const link = await invite({ account: administrator.me.account.id, role: 'auditor' });
    expect(link.link).toMatch(new RegExp(`^${administrator.origin}/join#[0-9A-Za-z]{43}$`));
    expect(link.event).toMatchObject({ type: 'invitation.created' });
    const secret = linkSecretOf(link.link);
    expect((await visit(relay).post<InvitationDetail>('/api/v1/invitation', { secret })).body).toMatchObject({
      role: 'auditor',
      account_name: 'first',
    });
    const replies = await Promise.all(
      Array.from({ length: 5 }, (_, index) =>
        visit(relay).post<Me>('/api/v1/invitation/accept', {
          secret,
          email: `auditor-${index}@example.com`,
          password: PASSWORD,
        }),
      ),
    );
    expect(statuses(replies)).toEqual([200, 404, 404, 404, 404]);
    expect(replies.find(({ status }) => status === 200)?.body).toMatchObject({
      member: { role: 'auditor' },
      account: { name: 'first' },
    });
    expect((await visit(relay).post('/api/v1/invitation', { secret })).code).toBe('invalid_link');
    const added = (await relay.readLog()).filter(
      ({ event }) => event.type === 'member.added' && event.invitation === link.id,
    );
    expect(added).toHaveLength(1);
  });

  it('allow registration while it is closed, and are void once revoked', async () => {
    await put({ policy: 'closed', plan: 'free' });
    const [used, withdrawn] = [
      await invite({ account: null, role: 'member' }),
      await invite({ account: null, role: 'member' }),
    ];
    expect(
      (await register('guest@example.com', 'Guest', { invitation: linkSecretOf(used.link) })).status,
    ).toBe(202);
    expect((await signIn(relay, 'guest@example.com')).me.account).toMatchObject({
      name: 'Guest',
      plan: 'free',
    });
    expect((await administrator.delete(`/api/v1/invitations/${withdrawn.id}`)).status).toBe(200);
    expect((await administrator.delete(`/api/v1/invitations/${withdrawn.id}`)).code).toBe('not_found');
    expect(
      (await register('guest2@example.com', 'Guest', { invitation: linkSecretOf(withdrawn.link) })).code,
    ).toBe('invalid_link');
    const open = await administrator.get<{ data: { id: string }[] }>('/api/v1/invitations');
    expect(open.body.data.map(({ id }) => id)).not.toContain(withdrawn.id);
  });

  it('stay valid after a failed registration with a taken address', async () => {
    const { link } = await invite({ account: null, role: 'member' });
    const accept = (email: string) =>
      fromAfar().post('/api/v1/invitation/accept', {
        secret: linkSecretOf(link),
        email,
        password: PASSWORD,
        account_name: 'Mine',
      });
    expect((await accept('guest@example.com')).code).toBe('already_exists');
    expect((await accept('fresh@example.com')).status).toBe(200);
  });

  it('are secrets: neither the log nor the list of them has what is in the link', async () => {
    const { link, id } = await invite({ account: null, role: 'member' });
    const shown = JSON.stringify([
      await relay.readLog(),
      (await administrator.get('/api/v1/invitations')).body,
    ]);
    expect(shown).toContain(id);
    expect(shown).not.toContain(linkSecretOf(link));
  });
});
