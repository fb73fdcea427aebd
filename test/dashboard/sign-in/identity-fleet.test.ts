import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Me } from '#server/contract/session.ts';
import { setUp, type SignedInClient, visit } from '../../support/dashboard.ts';
import { type Fleet, startFleet } from '../../support/fleet.ts';
import { startProvider, type TestProvider } from '../../support/oidc/provider.ts';
import { Walker } from '../../support/oidc/walk.ts';
import { until } from '../../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/upstream/upstream.ts';

/** What a change at an identity provider does to three servers, wherever the person signs in. */

let upstream: ScriptedUpstream;
let fleet: Fleet;
let provider: TestProvider;
let administrator: SignedInClient;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({ upstreams: [upstream] });
  provider = await startProvider([`${originOf(0)}/sign-in/acme/callback`]);
  administrator = await setUp({ port: fleet.ports[0] as number, dataDir: fleet.dataDir });
});
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const originOf = (instance: number): string => `http://127.0.0.1:${fleet.ports[instance]}`;
const person = (...groups: string[]) =>
  provider.people.set('ana', { email: 'ana@acme.example', email_verified: true, groups });

/** Signs a person in at the first server. @returns the path at the end. */
async function enter(walker: Walker): Promise<string> {
  const end = await walker.walk(
    `${originOf(0)}/sign-in/acme/start`,
    'ana',
    (url) => url.startsWith(originOf(0)) && !/start|callback/.test(url),
  );
  return end.slice(originOf(0).length);
}
/** The member's role by their session, at each server. */
const rolesOf = (walker: Walker) =>
  Promise.all(
    fleet.ports.map(async (port) => {
      const { status, body } = await visit({ port }, { cookie: walker.cookiesOf(originOf(0)) }).get<Me>(
        '/api/v1/me',
      );
      return status === 200 ? body.member.role : status;
    }),
  );
const callAll = (key: string) =>
  Promise.all(
    fleet.ports.map(async (_, instance) => {
      const body = { model: 's:tokens=1', messages: [{ role: 'user', content: 'Hello' }] };
      return (await fleet.chat(instance, { key, body })).status;
    }),
  );

test('three servers follow a first sign-in, a change of groups and a removal, keys included', async () => {
  const { account, secret } = await fleet.tenant('engineering', {});
  const configured = await administrator.put('/api/v1/identity-providers/acme', {
    label: 'Acme SSO',
    issuer: provider.issuer,
    client_id: provider.clientId,
    client_secret: provider.clientSecret,
    scopes: ['email', 'groups'],
    empty_accounts: 'suspend',
    network: 'private',
    rules: [
      { group: 'auditors', role: 'auditor', account },
      { group: 'engineers', role: 'member', account },
    ],
  });
  expect(configured.status).toBe(200);

  const walker = new Walker();
  person('engineers');
  expect(await enter(walker)).toBe('/');
  await until(
    () => rolesOf(walker),
    (roles) => roles.every((role) => role === 'member'),
    'the member',
  );
  expect(await callAll(secret)).toEqual([200, 200, 200]);

  person('engineers', 'auditors');
  await enter(new Walker());
  await until(
    () => rolesOf(walker),
    (roles) => roles.every((role) => role === 'auditor'),
    'the role',
  );

  person();
  expect(await enter(new Walker())).toBe('/sign-in?error=no_matching_rule');
  await until(
    () => callAll(secret),
    (statuses) => statuses.every((status) => status === 403),
    'the keys',
  );
  expect(await rolesOf(walker)).toEqual([401, 401, 401]);
});
