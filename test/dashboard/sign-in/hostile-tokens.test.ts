import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { setUp, type SignedInClient } from '../../support/dashboard.ts';
import {
  type Forge,
  type HostileIssuer,
  signed,
  startHostileIssuer,
  type Token,
  unsigned,
  withPublicKeyAsSecret,
} from '../../support/oidc/hostile-issuer.ts';
import { Walker } from '../../support/oidc/walk.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';

/** Forged ID tokens: each is valid but for one thing, and would make its bearer an administrator. */

const CLIENT = 'daybook';
let relay: TestRelay;
let administrator: SignedInClient;
let issuer: HostileIssuer;
let origin: string;

beforeAll(async () => {
  relay = await startRelay();
  origin = `http://127.0.0.1:${relay.port}`;
  issuer = await startHostileIssuer(CLIENT);
  administrator = await setUp(relay);
  for (const name of ['acme', 'other'])
    expect(
      (
        await administrator.put(`/api/v1/identity-providers/${name}`, {
          label: name,
          issuer: issuer.issuer,
          client_id: CLIENT,
          client_secret: 'secret',
          network: 'private',
          rules: [{ group: 'administrators', role: 'administrator', account: null }],
        })
      ).status,
    ).toBe(200);
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await issuer?.[Symbol.asyncDispose]();
});

/** The page at the end of a sign-in, and whether it gave a session. */
async function signInWith(
  forge: (token: Token) => string,
  walker = new Walker(),
  alter: (callback: string) => string = (callback) => callback,
): Promise<string> {
  issuer.makeToken = (nonce) => forge(issuer.valid(nonce));
  const callback = await walker.walk(`${origin}/sign-in/acme/start`, '', (url) => url.includes('/callback'));
  return finish(walker, alter(callback));
}
async function finish(walker: Walker, callback: string): Promise<string> {
  const reply = await walker.fetch(callback);
  const hasSession = /(?:^|; )daybook=/.test(walker.cookiesOf(origin));
  return `${hasSession ? 'signed in' : 'refused'} ${reply.headers.get('location')}`;
}
const INVALID = 'refused /sign-in?error=provider_response_invalid';
const nowS = (): number => Math.floor(Date.now() / 1_000);
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
  'alg None, in other letters': () => withHeader({ alg: 'nOnE' }, unsigned),
  'no signature': () => unsigned,
  'HS256 with the public key in PEM': () =>
    withHeader({ alg: 'HS256' }, withPublicKeyAsSecret(issuer.publicPem)),
  'HS256 with the client secret': () => withHeader({ alg: 'HS256' }, withPublicKeyAsSecret('secret')),
  'another key with the same id': () => signed(issuer.otherKey),
  'an unknown key id': () => withHeader({ kid: 'two' }, signed(issuer.otherKey)),
  'a key within its header': () =>
    withHeader({ jwk: issuer.otherKey.export({ format: 'jwk' }) }, signed(issuer.otherKey)),
  'a critical extension': () => withHeader({ crit: ['exp'] }, signed(issuer.privateKey)),
  'changed claims under the signature of others': () => (token) => {
    const [header, , signature] = signed(issuer.privateKey)(token).split('.');
    const claims = Buffer.from(JSON.stringify({ ...token.claims, sub: 'eve' })).toString('base64url');
    return [header, claims, signature].join('.');
  },
  'another audience': () => withClaims({ aud: 'another-client' }),
  'several audiences without an authorized party': () => withClaims({ aud: [CLIENT, 'another-client'] }),
  'another authorized party': () => withClaims({ aud: [CLIENT, 'other'], azp: 'other' }),
  'no audience': () => withClaims({ aud: undefined }),
  'another issuer': () => withClaims({ iss: 'https://login.example.com' }),
  'no issuer': () => withClaims({ iss: undefined }),
  'no subject': () => withClaims({ sub: undefined }),
  'an empty subject': () => withClaims({ sub: '' }),
  expired: () => withClaims({ exp: nowS() - 60 }),
  'no expiry': () => withClaims({ exp: undefined }),
  'an expiry that is a text': () => withClaims({ exp: '9999999999' }),
  'not valid yet': () => withClaims({ nbf: nowS() + 120 }),
  'no time of issue': () => withClaims({ iat: undefined }),
  'the nonce of another sign-in': () => withClaims({ nonce: 'of-another-sign-in' }),
  'no nonce': () => withClaims({ nonce: undefined }),
  'no token at all': () => () => '',
  'no token but text': () => () => 'a.b.c',
};

describe('an ID token is refused, and creates no member:', () => {
  test.each(Object.keys(FORGERIES))('%s', async (name) => {
    const before = (await relay.readLog()).length;
    expect(await signInWith((FORGERIES[name] as () => Forge)())).toBe(INVALID);
    expect(await relay.readLog()).toHaveLength(before);
  });
});

describe('a callback is refused', () => {
  test('with another state, an absent one, or that of another sign-in', async () => {
    const valid = signed(issuer.privateKey);
    const withState = (state: string | null) => (callback: string) => {
      const url = new URL(callback);
      if (state === null) url.searchParams.delete('state');
      else url.searchParams.set('state', state);
      return url.href;
    };
    for (const state of ['forged', null])
      expect(await signInWith(valid, new Walker(), withState(state))).toBe(INVALID);
    // The victim's browser opens a callback that the attacker began.
    issuer.makeToken = (nonce) => valid(issuer.valid(nonce));
    const begin = (walker: Walker) =>
      walker.walk(`${origin}/sign-in/acme/start`, '', (url) => url.includes('/callback'));
    const attackers = await begin(new Walker());
    expect(await finish(new Walker(), attackers)).toBe('refused /sign-in?error=sign_in_expired');
    const victim = new Walker();
    await begin(victim);
    expect(await finish(victim, attackers)).toBe(INVALID);
  });

  test('a second time, and at the callback of another provider', async () => {
    const walker = new Walker();
    issuer.makeToken = (nonce) => signed(issuer.privateKey)(issuer.valid(nonce));
    const callback = await walker.walk(`${origin}/sign-in/acme/start`, '', (url) =>
      url.includes('/callback'),
    );
    expect(await finish(walker, callback.replace('/acme/', '/other/'))).toBe(
      'refused /sign-in?error=sign_in_expired',
    );
    expect(await finish(walker, callback)).toBe('refused /sign-in?error=sign_in_expired');
  });

  test('with a cookie that was changed', async () => {
    const walker = new Walker();
    const callback = await walker.walk(`${origin}/sign-in/acme/start`, '', (url) =>
      url.includes('/callback'),
    );
    const [, sealed = ''] = /daybook-oidc=([^;]+)/.exec(walker.cookiesOf(origin)) ?? [];
    walker.setCookie(origin, 'daybook-oidc', `${sealed.slice(0, -2)}AA`);
    expect(await finish(walker, callback)).toBe('refused /sign-in?error=sign_in_expired');
  });

  test('where the provider sends an error', async () => {
    const denied = (callback: string): string => {
      const url = new URL(callback);
      url.searchParams.delete('code');
      url.searchParams.set('error', 'access_denied');
      return url.href;
    };
    expect(await signInWith(signed(issuer.privateKey), new Walker(), denied)).toBe(
      'refused /sign-in?error=provider_denied',
    );
  });
});

test('a token that names another source for its groups removes no member', async () => {
  const overage = withClaims({ groups: undefined, _claim_names: { groups: 'src1' } });
  expect(await signInWith(signed(issuer.privateKey))).toBe('signed in /');
  const before = (await relay.readLog()).length;
  expect(await signInWith(overage)).toBe(INVALID);
  expect(await relay.readLog()).toHaveLength(before);
});

test('clocks that differ by less than half a minute are tolerated, and a valid token signs in', async () => {
  const late = withClaims({ exp: nowS() - 5, iat: nowS() - 60, nbf: nowS() + 5 });
  const walker = new Walker();
  expect(await signInWith(late, walker)).toBe('signed in /');
  const events = await relay.readLog();
  expect(events.map(({ event }) => event.type)).toEqual(
    expect.arrayContaining(['member.added', 'session.opened']),
  );
  expect(JSON.stringify(events)).not.toContain('mallory');
});
