import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';

/** A person as the provider knows them. Changes take effect at their next sign-in. */
export type Person = { email: string; email_verified: boolean; groups: string[] };

/** A certified OpenID provider on a port of its own. Anyone of `people` signs in with any password. */
export type TestProvider = AsyncDisposable & {
  issuer: string;
  clientId: string;
  clientSecret: string;
  people: Map<string, Person>;
};

/** @param redirectUris those that its one client registered. */
export async function startProvider(redirectUris: readonly string[]): Promise<TestProvider> {
  const people = new Map<string, Person>();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const [clientId, clientSecret] = ['daybook', 'the-client-secret-of-daybook'];
  const provider = new Provider(issuer, {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: redirectUris }],
    pkce: { required: () => true },
    scopes: ['openid', 'email', 'groups'],
    claims: { email: ['email', 'email_verified'], groups: ['groups'] },
    cookies: { keys: ['of the tests'] },
    findAccount: (_context: unknown, id: string) => {
      const person = people.get(id);
      return person && { accountId: id, claims: () => ({ sub: id, ...person }) };
    },
  });
  const answer = provider.callback();
  server.on('request', (request, response) => void answer(request, response));
  return {
    issuer,
    clientId,
    clientSecret,
    people,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
