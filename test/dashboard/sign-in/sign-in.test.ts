import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CreatedLink } from '#server/contract/members.ts';
import type { Me, TotpEnrollment } from '#server/contract/session.ts';
import {
  addMember,
  type ApiReply,
  PASSWORD,
  setUp,
  type SignedInClient,
  signIn,
  linkSecretOf,
  visit,
} from '../../support/dashboard.ts';
import { ask } from '../../support/database.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';

let relay: TestRelay;
let ana: SignedInClient;
beforeAll(async () => {
  relay = await startRelay({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  ana = await addMember(relay, { email: 'ana@example.com' });
});
afterAll(() => relay[Symbol.asyncDispose]());

/** The attributes of the cookie that a sign-in sets. */
async function cookieOf(headers: Record<string, string>): Promise<string[]> {
  const reply = await visit(relay, headers).post('/api/v1/session', {
    email: 'ana@example.com',
    password: PASSWORD,
  });
  const [cookie = ''] = reply.headers.getSetCookie();
  return cookie.split('; ');
}

describe('signing in', () => {
  it('accepts the password and returns the member', async () => {
    const again = await signIn(relay, ' ANA@example.com ');
    const { status, body } = await again.get<Me>('/api/v1/me');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      member: { email: 'ana@example.com', role: 'member', has_totp: false, has_password: true },
      account: { name: 'of ana@example.com' },
      base_url: relay.baseUrl,
    });
  });

  it('says the same of a wrong password and of an address that nobody has', async () => {
    const wrong = await visit(relay).post('/api/v1/session', {
      email: 'ana@example.com',
      password: `${PASSWORD}.`,
    });
    const unknown = await visit(relay).post('/api/v1/session', {
      email: 'nobody@example.com',
      password: PASSWORD,
    });
    expect([wrong.status, wrong.code]).toEqual([401, 'invalid_credentials']);
    const said = ({ body }: typeof wrong): unknown => (body as { error: unknown }).error;
    expect(said(unknown)).toEqual(said(wrong));
    expect([unknown.status, ...unknown.headers.keys()]).toEqual([wrong.status, ...wrong.headers.keys()]);
  });

  it('makes a new session each time, whatever cookie a browser brings', async () => {
    const client = visit(relay);
    const planted = `daybook=${'x'.repeat(43)}`;
    client.cookie = planted;
    expect((await client.get('/api/v1/me')).code).toBe('unauthenticated');
    await client.post('/api/v1/session', { email: 'ana@example.com', password: PASSWORD });
    expect(client.cookie).toMatch(/^daybook=[0-9A-Za-z]{43}$/);
    expect(client.cookie).not.toBe(planted);
    const first = client.cookie;
    await client.post('/api/v1/session', { email: 'ana@example.com', password: PASSWORD });
    expect(client.cookie).not.toBe(first);
    const old = visit(relay);
    old.cookie = first;
    expect((await old.get('/api/v1/me')).status).toBe(401);
  });

  it('sets a __Host- cookie over TLS', async () => {
    const [pair = '', ...rest] = await cookieOf({ 'x-forwarded-proto': 'https' });
    expect(pair).toMatch(/^__Host-daybook=[0-9A-Za-z]{43}$/);
    expect(rest.toSorted()).toEqual(['HttpOnly', 'Max-Age=2592000', 'Path=/', 'SameSite=Lax', 'Secure']);
    const [plain = '', ...attributes] = await cookieOf({});
    expect(plain).toMatch(/^daybook=/);
    expect(attributes.toSorted()).toEqual(['HttpOnly', 'Max-Age=2592000', 'Path=/', 'SameSite=Lax']);
  });

  it('reads each cookie only where it is set, and none where there are two', async () => {
    const { cookie } = await signIn(relay, 'ana@example.com');
    const token = cookie.slice('daybook='.length);
    const tried = async (sent: string, headers: Record<string, string> = {}): Promise<number> => {
      const client = visit(relay, headers);
      client.cookie = sent;
      return (await client.get('/api/v1/me')).status;
    };
    expect(await tried(`daybook=${token}`)).toBe(200);
    expect(await tried(`other=1; daybook=${token}`)).toBe(200);
    expect(await tried(`daybook=${token}`, { 'x-forwarded-proto': 'https' })).toBe(401);
    expect(await tried(`__Host-daybook=${token}`)).toBe(401);
    expect(await tried(`daybook=${token}; daybook=${token}`)).toBe(401);
    expect(await tried(`daybook=${token}%20`)).toBe(401);
  });

  it('rejects requests of another origin, even with the right password', async () => {
    const body = { email: 'ana@example.com', password: PASSWORD };
    const { host } = new URL(ana.origin);
    for (const headers of [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: `http://${host}.evil.example` },
    ]) {
      const reply = await visit(relay, headers as Record<string, string>).post('/api/v1/session', body);
      expect([reply.status, reply.code, reply.headers.getSetCookie()]).toEqual([
        403,
        'cross_site_request',
        [],
      ]);
    }
    const bare = await fetch(`${ana.origin}/api/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(bare.status).toBe(403);
  });

  it("sends no CORS headers, so that another origin can't read a reply", async () => {
    const reply = await ana.get('/api/v1/me');
    expect(reply.headers.get('access-control-allow-origin')).toBeNull();
    expect(reply.headers.get('cache-control')).toBe('no-store');
  });

  it('lets a suspended account look, and says why nothing else works', async () => {
    const bo = await addMember(relay, { email: 'bo@example.com' });
    await relay.control((control) => control.suspendAccount('of bo@example.com'));
    const me = await (await signIn(relay, bo.email)).get<Me>('/api/v1/me');
    expect(me.body.account.state).toBe('suspended');
  });

  it('stores passwords as argon2id only, and no email or network in the throttle', async () => {
    const hash = String(
      await ask(
        relay.store.config('owner'),
        "select password_hash from daybook.member where email = 'ana@example.com'",
      ),
    );
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    const keys = String(
      await ask(relay.store.config('owner'), "select string_agg(key, ' ') from daybook.attempt"),
    );
    expect(keys).not.toMatch(/ana|127|example/);
  });
});

describe('a code from a device', () => {
  let ben: SignedInClient;
  let secret: string;
  beforeAll(async () => {
    ben = await addMember(relay, { email: 'ben@example.com' });
  });

  /** What a device shows so many steps from now. */
  const code = (steps: number): string =>
    new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + steps * 30_000 });
  /** A code that is none of those around now. */
  const wrongCode = (): string => {
    const near = new Set([-2, -1, 0, 1, 2].map(code));
    return Array.from({ length: 10 }, (_, index) => String(100_000 + index)).find(
      (each) => !near.has(each),
    ) as string;
  };
  const signInWith = (more: object): Promise<ApiReply<Me>> =>
    visit(relay).post('/api/v1/session', { email: ben.email, password: PASSWORD, ...more });
  /** Codes once taken are taken: lets them be taken again, as after some minutes. */
  const later = (): Promise<unknown> =>
    ask(
      relay.store.config('owner'),
      `update daybook.member set totp_step = null where id = '${ben.me.member.id}'`,
    );

  it('is asked for only when the first one was right', async () => {
    expect((await ben.put('/api/v1/totp', { code: '123456' })).code).toBe('not_allowed');
    expect((await ben.post('/api/v1/totp', { password: 'not mine' })).code).toBe('invalid_credentials');
    const begun = await ben.post<TotpEnrollment>('/api/v1/totp', { password: PASSWORD });
    secret = begun.body.secret;
    const parameters = `issuer=Daybook&secret=${secret}&algorithm=SHA1&digits=6&period=30`;
    expect(begun.body.uri).toBe(`otpauth://totp/Daybook:${encodeURIComponent(ben.email)}?${parameters}`);
    expect((await ben.put('/api/v1/totp', { code: wrongCode() })).code).toBe('invalid_totp_code');
    expect((await signInWith({})).status).toBe(200);
    const confirmed = await ben.put<{ event: object }>('/api/v1/totp', { code: code(0) });
    expect(confirmed.body.event).toMatchObject({ type: 'member.totp_changed' });
    expect((await ben.get<Me>('/api/v1/me')).body.member.has_totp).toBe(true);
  });

  it('is asked for after the password, and never instead of it', async () => {
    await later();
    expect((await signInWith({})).code).toBe('totp_required');
    expect((await signInWith({ password: 'not mine', code: code(0) })).code).toBe('invalid_credentials');
    expect((await signInWith({ code: wrongCode() })).code).toBe('invalid_totp_code');
    expect((await signInWith({ code: code(0) })).status).toBe(200);
  });

  it('is invalid long before or after its time', async () => {
    for (const steps of [-3, 3]) {
      await later();
      expect((await signInWith({ code: code(steps) })).code).toBe('invalid_totp_code');
    }
  });

  it('is valid once, also for concurrent sign-ins', async () => {
    await later();
    const same = code(0);
    const replies = await Promise.all(Array.from({ length: 4 }, () => signInWith({ code: same })));
    expect(replies.map((reply) => reply.code ?? 'in').toSorted()).toEqual([
      'in',
      'invalid_totp_code',
      'invalid_totp_code',
      'invalid_totp_code',
    ]);
    expect((await signInWith({ code: same })).code).toBe('invalid_totp_code');
  });

  it('is wanted of who comes by a reset link, too: mail is not the device', async () => {
    const administrator = await setUp(relay);
    const { body } = await administrator.post<CreatedLink>(`/api/v1/members/${ben.me.member.id}/reset`);
    const client = visit(relay);
    const reset = await client.post('/api/v1/password/reset', {
      secret: linkSecretOf(body.link),
      password: PASSWORD,
    });
    expect([reset.code, client.cookie]).toEqual(['totp_required', '']);
    await later();
    const again = visit(relay);
    expect(
      (await again.post('/api/v1/session', { email: ben.email, password: PASSWORD, code: code(0) })).status,
    ).toBe(200);
    ben.cookie = again.cookie;
  });

  it('is sealed in the database and nowhere in the log', async () => {
    const stored = String(
      await ask(
        relay.store.config('owner'),
        `select m::text from daybook.member m where id = '${ben.me.member.id}'`,
      ),
    );
    expect(stored).not.toContain(secret);
    expect(stored).not.toContain(Buffer.from(Secret.fromBase32(secret).bytes).toString('hex'));
    expect(JSON.stringify(await relay.readLog())).not.toContain(secret);
  });

  it('is no longer wanted when its owner takes it away with the password', async () => {
    expect((await ben.post('/api/v1/totp/remove', { password: 'not mine' })).code).toBe(
      'invalid_credentials',
    );
    expect((await ben.post('/api/v1/totp/remove', { password: PASSWORD })).status).toBe(200);
    expect((await signInWith({})).status).toBe(200);
  });
});

it('none of that puts anything about a person into the log', async () => {
  await setUp(relay);
  const log = JSON.stringify(await relay.readLog());
  expect(log).toContain('session.opened');
  // An account's name is what its owner calls it; the addresses here are those of nobody's account.
  expect(log.replaceAll(/of [a-z]+@example\.com/g, '')).not.toMatch(/@|argon2|127\.0\.0|undici|node\b/i);
});
