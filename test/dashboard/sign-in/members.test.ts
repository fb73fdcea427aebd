import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CreatedLink, MemberRow } from '#server/contract/members.ts';
import type { Me } from '#server/contract/session.ts';
import {
  addMember,
  PASSWORD,
  setUp,
  type SignedInClient,
  signIn,
  statuses,
  linkSecretOf,
  visit,
} from '../../support/dashboard.ts';
import { ask } from '../../support/database.ts';
import { type MailServer, startMailServer } from '../../support/servers/mail-server.ts';
import { startRelay, type TestRelay, until } from '../../support/relay.ts';
import { refusedPort } from '../../support/upstream/upstream.ts';

let mail: MailServer;
let relay: TestRelay;
let administrator: SignedInClient;
/** Not the address that the tests use. */
let origin: string;
beforeAll(async () => {
  mail = await startMailServer();
  const port = await refusedPort();
  origin = `http://localhost:${port}`;
  relay = await startRelay({
    env: { PORT: String(port), SMTP_URL: mail.url, SMTP_FROM: 'daybook@example.com', PUBLIC_URL: origin },
  });
  administrator = await setUp(relay);
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await mail[Symbol.asyncDispose]();
});

const listed = async (client: SignedInClient, query = ''): Promise<MemberRow[]> =>
  (await client.get<{ data: MemberRow[] }>(`/api/v1/members${query}`)).body.data;
/** The link in the newest mail to somebody. */
async function linkMailedTo(address: string): Promise<string> {
  const mails = await until(
    () => mail.mails.filter(({ to }) => to === address),
    (all) => all.length > 0,
    'a mail',
  );
  // Quoted-printable breaks lines with a "=" at their end.
  return (
    /https?:\/\/\S+/.exec((mails.at(-1)?.text ?? '').replaceAll('=\n', '').replaceAll('=3D', '='))?.[0] ?? ''
  );
}

describe('members', () => {
  it('are seen by their own account and by those who look after all, addresses by no auditor', async () => {
    const ana = await addMember(relay);
    const auditor = await addMember(relay, { role: 'auditor', account: administrator.me.account.id });
    expect((await listed(ana)).map(({ id, email, role }) => [id, email, role])).toEqual([
      [ana.me.member.id, ana.email, 'member'],
    ]);
    expect(await listed(ana, `?account=${administrator.me.account.id}`)).toEqual([]);
    const all = await listed(administrator);
    expect(all.find(({ id }) => id === ana.me.member.id)).toMatchObject({
      email: ana.email,
      account_name: `of ${ana.email}`,
      has_totp: false,
    });
    const seen = await listed(auditor);
    expect(seen.length).toBe(all.length);
    expect(seen.every(({ email }) => email === null)).toBe(true);
    expect((await listed(administrator, `?account=${ana.me.account.id}`)).map(({ id }) => id)).toEqual([
      ana.me.member.id,
    ]);
  });

  it('are changed by administrators alone', async () => {
    const ana = await addMember(relay);
    const auditor = await addMember(relay, { role: 'auditor', account: administrator.me.account.id });
    for (const client of [ana, auditor]) {
      const replies = await Promise.all([
        client.patch(`/api/v1/members/${client.me.member.id}`, { role: 'administrator' }),
        client.delete(`/api/v1/members/${administrator.me.member.id}`),
        client.post(`/api/v1/members/${administrator.me.member.id}/reset`),
        client.post('/api/v1/invitations', { account: null, role: 'administrator' }),
        client.put('/api/v1/registration', { policy: 'open', plan: null }),
      ]);
      expect(replies.map(({ code }) => code)).toEqual(Array<string>(5).fill('insufficient_role'));
    }
  });

  it('have another role at once, in the session that they have', async () => {
    const ana = await addMember(relay);
    expect((await ana.get('/api/v1/registration')).code).toBe('insufficient_role');
    const changed = await administrator.patch<{ event: object }>(`/api/v1/members/${ana.me.member.id}`, {
      role: 'administrator',
    });
    expect(changed.body.event).toMatchObject({ type: 'member.role_changed' });
    expect((await ana.get('/api/v1/registration')).status).toBe(200);
    await ana.patch(`/api/v1/members/${ana.me.member.id}`, { role: 'member' });
    expect((await ana.get('/api/v1/registration')).code).toBe('insufficient_role');
  });

  it('who are administrators no more leave no links behind that let others in', async () => {
    const bo = await addMember(relay);
    const leave = [
      (id: string) => administrator.patch(`/api/v1/members/${id}`, { role: 'member' }),
      (id: string) => administrator.delete(`/api/v1/members/${id}`),
    ];
    for (const end of leave) {
      const ana = await addMember(relay, { role: 'administrator', account: administrator.me.account.id });
      const invitation = (
        await ana.post<CreatedLink>('/api/v1/invitations', { account: null, role: 'administrator' })
      ).body;
      const reset = (await ana.post<CreatedLink>(`/api/v1/members/${bo.me.member.id}/reset`)).body;
      expect(
        (await visit(relay).post('/api/v1/invitation', { secret: linkSecretOf(invitation.link) })).status,
      ).toBe(200);
      expect((await end(ana.me.member.id)).status).toBe(200);
      expect(
        (await visit(relay).post('/api/v1/invitation', { secret: linkSecretOf(invitation.link) })).code,
      ).toBe('invalid_link');
      expect(
        (
          await visit(relay).post('/api/v1/password/reset', {
            secret: linkSecretOf(reset.link),
            password: PASSWORD,
          })
        ).code,
      ).toBe('invalid_link');
      const withdrawn = (await relay.readLog()).filter(
        ({ event }) => event.type === 'invitation.revoked' && event.invitation === invitation.id,
      );
      expect(withdrawn).toHaveLength(1);
    }
  });

  it('are asked for by an id alone', async () => {
    const own = administrator.me.member.id;
    const replies = await Promise.all([
      ...['%00', `${own}%00`, 'x'.repeat(9)].flatMap((id) => [
        administrator.patch(`/api/v1/members/${id}`, { role: 'member' }),
        administrator.delete(`/api/v1/members/${id}`),
        administrator.post(`/api/v1/members/${id}/reset`),
        administrator.delete(`/api/v1/invitations/${id}`),
        administrator.delete(`/api/v1/sessions/${id}`),
      ]),
    ]);
    expect(new Set(replies.map(({ code }) => code))).toEqual(new Set(['not_found']));
  });

  it('keep their last administrator, for two who step down at the same moment too', async () => {
    const second = await addMember(relay, { role: 'administrator', account: administrator.me.account.id });
    const replies = await Promise.all([
      administrator.patch(`/api/v1/members/${administrator.me.member.id}`, { role: 'member' }),
      second.delete(`/api/v1/members/${second.me.member.id}`),
    ]);
    expect(new Set(replies.map(({ code }) => code))).toEqual(new Set(['last_administrator', null]));
    const left = replies[0]?.code === 'last_administrator' ? administrator : second;
    expect((await left.delete(`/api/v1/members/${left.me.member.id}`)).code).toBe('last_administrator');
    if (left === second)
      await second.patch(`/api/v1/members/${administrator.me.member.id}`, { role: 'administrator' });
    else expect((await second.get('/api/v1/me')).status).toBe(401);
  });

  it('who are removed are out at once, and nothing of theirs is kept but ids', async () => {
    const ana = await addMember(relay);
    const { id } = ana.me.member;
    const reset = (await administrator.post<CreatedLink>(`/api/v1/members/${id}/reset`)).body;
    expect((await administrator.delete<{ event: object }>(`/api/v1/members/${id}`)).body.event).toMatchObject(
      {
        type: 'member.removed',
      },
    );
    expect((await ana.get('/api/v1/me')).status).toBe(401);
    expect((await visit(relay).post('/api/v1/session', { email: ana.email, password: PASSWORD })).code).toBe(
      'invalid_credentials',
    );
    expect(
      (
        await visit(relay).post('/api/v1/password/reset', {
          secret: linkSecretOf(reset.link),
          password: PASSWORD,
        })
      ).code,
    ).toBe('invalid_link');
    const kept = await ask(
      relay.store.config('owner'),
      `select (select count(*) from daybook.member where id = '${id}')
         + (select count(*) from daybook.session where member = '${id}')
         + (select count(*) from daybook.link where member = '${id}')`,
    );
    expect(Number(kept)).toBe(0);
    expect((await administrator.delete(`/api/v1/members/${id}`)).code).toBe('not_found');
    expect((await listed(administrator)).some((row) => row.id === id)).toBe(false);
  });

  it("choose a new password by an administrator's link, once, and all their sessions end", async () => {
    const ana = await addMember(relay);
    const { body } = await administrator.post<CreatedLink>(`/api/v1/members/${ana.me.member.id}/reset`);
    expect(body).toMatchObject({ email_sent: true, event: { type: 'member.reset_link_created' } });
    const told = (await relay.readLog()).filter(
      ({ event }) => event.type === 'member.reset_link_created' && event.member === ana.me.member.id,
    );
    expect(told.map(({ event }) => event)).toEqual([
      {
        type: 'member.reset_link_created',
        member: ana.me.member.id,
        account: ana.me.account.id,
        actor: `member/${administrator.me.member.id}`,
      },
    ]);
    expect(body.link).toMatch(new RegExp(`^${origin}/reset#[0-9A-Za-z]{43}$`));
    expect(await linkMailedTo(ana.email)).toBe(body.link);
    const replies = await Promise.all(
      Array.from({ length: 3 }, () =>
        visit(relay).post<Me>('/api/v1/password/reset', {
          secret: linkSecretOf(body.link),
          password: 'chosen by the link',
        }),
      ),
    );
    expect(statuses(replies)).toEqual([200, 404, 404]);
    expect((await ana.get('/api/v1/me')).status).toBe(401);
    // All of it in one append, so that the log is locked once and last.
    const log = await relay.readLog();
    const chosen = log.find(
      ({ event }) => event.type === 'member.password_changed' && event.member === ana.me.member.id,
    );
    const opened = log.findLast(
      ({ event }) => event.type === 'session.opened' && event.member === ana.me.member.id,
    );
    expect(opened?.at).toEqual(chosen?.at);
    await signIn(relay, ana.email, 'chosen by the link');
  });

  it('who forgot theirs are sent a link to the address that is ours, and strangers nothing', async () => {
    const ana = await addMember(relay);
    const before = mail.mails.length;
    const client = visit(relay);
    expect((await client.post('/api/v1/password/forgotten', { email: 'stranger@example.com' })).status).toBe(
      202,
    );
    expect((await client.post('/api/v1/password/forgotten', { email: ana.email })).status).toBe(202);
    const link = await linkMailedTo(ana.email);
    expect(link).toMatch(new RegExp(`^${origin}/reset#[0-9A-Za-z]{43}$`));
    expect(mail.mails.length).toBe(before + 1);
    expect(
      (
        await visit(relay).post<Me>('/api/v1/password/reset', {
          secret: linkSecretOf(link),
          password: PASSWORD,
        })
      ).body.member.email,
    ).toBe(ana.email);
  });

  it('are invited by mail where an address is given', async () => {
    const { body } = await administrator.post<CreatedLink>('/api/v1/invitations', {
      account: null,
      role: 'member',
      email: 'Guest@Example.com',
    });
    expect(body.email_sent).toBe(true);
    expect(await linkMailedTo('guest@example.com')).toBe(body.link);
  });
});
