import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The parts of a token before they are signed. */
export type Token = { header: Record<string, unknown>; claims: Record<string, unknown> };
/** How a token is forged: the signed text for its parts. */
export type Forge = (token: Token) => string;

const text = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const input = ({ header, claims }: Token): string => `${text(header)}.${text(claims)}`;

export const signed =
  (key: KeyObject): Forge =>
  (token) =>
    `${input(token)}.${sign('sha256', Buffer.from(input(token)), key).toString('base64url')}`;
export const unsigned: Forge = (token) => `${input(token)}.`;
/** The confusion of keys: the public key, which everyone has, as the secret of an HMAC. */
export const withPublicKeyAsSecret =
  (secret: string | Buffer): Forge =>
  (token) =>
    `${input(token)}.${createHmac('sha256', secret).update(input(token)).digest('base64url')}`;

/** An issuer whose tokens are what a test makes of them; everything else is as it should be. */
export type HostileIssuer = AsyncDisposable & {
  issuer: string;
  privateKey: KeyObject;
  publicPem: string;
  /** Another key pair with the same id, which it doesn't publish. */
  otherKey: KeyObject;
  /** The ID token for a nonce. */
  makeToken: (nonce: string) => string;
  /** Parts of a valid token. */
  valid(nonce: string): Token;
  /** Its public key as it publishes it. */
  jwk: Record<string, unknown>;
  /** How often its keys were read. */
  keysRead: number;
  /** Fields of its metadata that replace the usual ones. */
  metadata: Record<string, unknown>;
};

export async function startHostileIssuer(clientId: string): Promise<HostileIssuer> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const { privateKey: otherKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let nonce = '';
  const hostile: HostileIssuer = {
    issuer,
    privateKey,
    otherKey,
    publicPem: createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }),
    metadata: {},
    jwk: { ...publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig' },
    keysRead: 0,
    makeToken: (of) => signed(privateKey)(hostile.valid(of)),
    valid: (of) => ({
      header: { alg: 'RS256', kid: 'one', typ: 'JWT' },
      claims: {
        iss: issuer,
        sub: 'mallory',
        aud: clientId,
        nonce: of,
        iat: Math.floor(Date.now() / 1_000),
        exp: Math.floor(Date.now() / 1_000) + 300,
        email: 'mallory@example.com',
        email_verified: true,
        groups: ['administrators'],
      },
    }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  server.on('request', (request, response) => {
    const url = new URL(request.url ?? '/', issuer);
    const json = (value: object): void => {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    };
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
        return json({
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/jwks`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none'],
          ...hostile.metadata,
        });
      case '/jwks':
        hostile.keysRead++;
        return json({ keys: [hostile.jwk] });
      case '/authorize': {
        nonce = url.searchParams.get('nonce') ?? '';
        const back = new URL(url.searchParams.get('redirect_uri') ?? '');
        back.search = new URLSearchParams({
          code: 'a-code',
          state: url.searchParams.get('state') ?? '',
        }).toString();
        response.writeHead(303, { location: back.href }).end();
        return;
      }
      case '/token':
        return json({ access_token: 'at', token_type: 'Bearer', id_token: hostile.makeToken(nonce) });
      default:
        response.writeHead(404).end();
    }
  });
  return hostile;
}
