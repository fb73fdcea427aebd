import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LinkMade } from '#server/dashboard/contract-accounts.ts';
import type { Me, TotpBegun } from '#server/dashboard/contract-session.ts';
import { addMember, type ApiReply, PASSWORD, setUp, type SignedInClient, tokenOf, visit } from '../support/dashboard.ts';
import { ask } from '../support/database.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

let relay: TestRelay;
let ana: SignedInClient;
let secret: string;
beforeAll(async () => {
  relay = await startRelay();
  ana = await addMember(relay);
});
afterAll(() => relay[Symbol.asyncDispose]());

/** What a device shows so many steps from now. */
const code = (steps: number): string => new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + steps * 30_000 });
/** A code that is none of those around now. */
const wrongCode = (): string => {
  const near = new Set([-2, -1, 0, 1, 2].map(code));
  return Array.from({ length: 10 }, (_, index) => String(100_000 + index)).find((each) => !near.has(each)) as string;
};
const signInWith = (more: object): Promise<ApiReply<Me>> => visit(relay).post('/api/session', { email: ana.email, password: PASSWORD, ...more });
/** Codes once taken are taken: lets them be taken again, as after some minutes. */
const later = (): Promise<unknown> => ask(relay.store.config('owner'), `update daybook.member set totp_step = null where id = '${ana.me.member.id}'`);

describe('a code from a device', () => {
  it('is asked for only when the first one was right', async () => {
    expect((await ana.put('/api/totp', { code: '123456' })).code).toBe('not_allowed');
    expect((await ana.post('/api/totp', { password: 'not mine' })).code).toBe('wrong_credentials');
    const begun = await ana.post<TotpBegun>('/api/totp', { password: PASSWORD });
    secret = begun.body.secret;
    expect(begun.body.uri).toBe(`otpauth://totp/Daybook:${encodeURIComponent(ana.email)}?issuer=Daybook&secret=${secret}&algorithm=SHA1&digits=6&period=30`);
    expect((await ana.put('/api/totp', { code: wrongCode() })).code).toBe('wrong_code');
    expect((await signInWith({})).status).toBe(200);
    const confirmed = await ana.put<{ event: object }>('/api/totp', { code: code(0) });
    expect(confirmed.body.event).toMatchObject({ type: 'member.totp_changed' });
    expect((await ana.get<Me>('/api/me')).body.member.has_totp).toBe(true);
  });

  it('is asked for after the password, and never instead of it', async () => {
    await later();
    expect((await signInWith({})).code).toBe('totp_required');
    expect((await signInWith({ password: 'not mine', code: code(0) })).code).toBe('wrong_credentials');
    expect((await signInWith({ code: wrongCode() })).code).toBe('wrong_code');
    expect((await signInWith({ code: code(0) })).status).toBe(200);
  });

  it('is not good long before or after its time', async () => {
    for (const steps of [-3, 3]) {
      await later();
      expect((await signInWith({ code: code(steps) })).code).toBe('wrong_code');
    }
  });

  it('is good once, for several at the same moment too', async () => {
    await later();
    const same = code(0);
    const replies = await Promise.all(Array.from({ length: 4 }, () => signInWith({ code: same })));
    expect(replies.map((reply) => reply.code ?? 'in').toSorted()).toEqual(['in', 'wrong_code', 'wrong_code', 'wrong_code']);
    expect((await signInWith({ code: same })).code).toBe('wrong_code');
  });

  it('is wanted of who comes by a reset link, too: mail is not the device', async () => {
    const administrator = await setUp(relay);
    const { body } = await administrator.post<LinkMade>(`/api/members/${ana.me.member.id}/reset`);
    const client = visit(relay);
    const reset = await client.post('/api/password/reset', { token: tokenOf(body.link), password: PASSWORD });
    expect([reset.code, client.cookie]).toEqual(['totp_required', '']);
    await later();
    const again = visit(relay);
    expect((await again.post('/api/session', { email: ana.email, password: PASSWORD, code: code(0) })).status).toBe(200);
    ana.cookie = again.cookie;
  });

  it('is sealed in the database and nowhere in the log', async () => {
    const stored = String(await ask(relay.store.config('owner'), `select m::text from daybook.member m where id = '${ana.me.member.id}'`));
    expect(stored).not.toContain(secret);
    expect(stored).not.toContain(Buffer.from(Secret.fromBase32(secret).bytes).toString('hex'));
    expect(JSON.stringify(await relay.readLog())).not.toContain(secret);
  });

  it('is no longer wanted when its owner takes it away with the password', async () => {
    expect((await ana.post('/api/totp/remove', { password: 'not mine' })).code).toBe('wrong_credentials');
    expect((await ana.post('/api/totp/remove', { password: PASSWORD })).status).toBe(200);
    expect((await signInWith({})).status).toBe(200);
  });
});
