import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROLES, type Role } from '#db/events/parts.ts';
import { uuidv7 } from '#db/ids.ts';
import {
  type ApiReply,
  callDemo,
  type DashboardClient,
  signIn,
  type SignedInClient,
  startPeopledRelay,
  visit,
} from '../support/dashboard.ts';
import { listApiRoutes } from '../layout/api-routes.ts';
import type { TestRelay } from '../support/relay.ts';

/** Who may use which route of the dashboard's API: every route by every role. */

const EVERYBODY = 'member administrator auditor';
const CALLERS = 'member administrator';
const OVERSEERS = 'administrator auditor';

/** Who may do what, as people were told. A route that is not here is one that nobody has thought about. */
const PERMITTED: Record<string, string> = {
  'get /api/v1/welcome': 'anybody',
  'post /api/v1/session': 'anybody',
  'post /api/v1/setup': 'anybody',
  'post /api/v1/registration': 'anybody',
  'post /api/v1/invitation': 'anybody',
  'post /api/v1/invitation/accept': 'anybody',
  'post /api/v1/password/forgotten': 'anybody',
  'post /api/v1/password/reset': 'anybody',

  'get /api/v1/me': EVERYBODY,
  'delete /api/v1/session': EVERYBODY,
  'get /api/v1/sessions': EVERYBODY,
  'delete /api/v1/sessions': EVERYBODY,
  'delete /api/v1/sessions/:session': EVERYBODY,
  'post /api/v1/password': EVERYBODY,
  'post /api/v1/totp': EVERYBODY,
  'put /api/v1/totp': EVERYBODY,
  'post /api/v1/totp/remove': EVERYBODY,

  'get /api/v1/members': EVERYBODY,
  'patch /api/v1/members/:member': 'administrator',
  'delete /api/v1/members/:member': 'administrator',
  'post /api/v1/members/:member/reset': 'administrator',
  'get /api/v1/invitations': OVERSEERS,
  'post /api/v1/invitations': 'administrator',
  'delete /api/v1/invitations/:invitation': 'administrator',
  'get /api/v1/registration': OVERSEERS,
  'put /api/v1/registration': 'administrator',
  'get /api/v1/identity-providers': OVERSEERS,
  'put /api/v1/identity-providers/:provider': 'administrator',
  'delete /api/v1/identity-providers/:provider': 'administrator',
  'get /api/v1/workloads': OVERSEERS,
  'get /api/v1/workloads/:workload/keys': OVERSEERS,
  'put /api/v1/workloads/:workload': 'administrator',
  'delete /api/v1/workloads/:workload': 'administrator',
  'get /api/v1/sign-in-settings': OVERSEERS,
  'put /api/v1/sign-in-settings': 'administrator',

  'get /api/v1/management-keys': EVERYBODY,
  'post /api/v1/management-keys': CALLERS,
  'post /api/v1/management-keys/:management_key/revoke': CALLERS,
  'get /api/v1/keys': EVERYBODY,
  'get /api/v1/keys/:key': EVERYBODY,
  'post /api/v1/keys': CALLERS,
  'post /api/v1/keys/:key/rotate': CALLERS,
  'post /api/v1/keys/:key/leaked': CALLERS,
  'post /api/v1/keys/:key/revoke': CALLERS,
  'patch /api/v1/keys/:key': CALLERS,
  'post /api/v1/keys/:key/check': EVERYBODY,
  'get /api/v1/names': EVERYBODY,
  'post /api/v1/search': EVERYBODY,
  'get /api/v1/limits': EVERYBODY,
  'get /api/v1/limits/forecasts': EVERYBODY,
  'get /api/v1/models': EVERYBODY,

  'get /api/v1/accounts': OVERSEERS,
  'get /api/v1/accounts/:account': OVERSEERS,
  'post /api/v1/accounts': 'administrator',
  'post /api/v1/accounts/:account/suspend': 'administrator',
  'post /api/v1/accounts/:account/reinstate': 'administrator',
  'put /api/v1/accounts/:account/plan': 'administrator',
  'put /api/v1/accounts/:account/override': 'administrator',
  'get /api/v1/accounts/:account/adjustments': OVERSEERS,
  'post /api/v1/accounts/:account/adjustments': 'administrator',
  'put /api/v1/accounts/:account/parent': 'administrator',
  'get /api/v1/accounts/:account/top-ups': OVERSEERS,
  'post /api/v1/accounts/:account/top-ups': 'administrator',
  'get /api/v1/accounts/:account/corrections': OVERSEERS,
  'get /api/v1/accounts/:account/attribution': CALLERS,
  'post /api/v1/requests/:request/corrections': 'administrator',
  'post /api/v1/accounts/:account/attribution': CALLERS,
  'post /api/v1/accounts/:account/attribution/erase': CALLERS,
  'post /api/v1/accounts/:account/attribution/destroy-key': 'administrator',
  'get /api/v1/plans': OVERSEERS,
  'put /api/v1/plans/:plan': 'administrator',
  'post /api/v1/plans/:plan/retire': 'administrator',
  'get /api/v1/prices': OVERSEERS,
  'put /api/v1/prices': 'administrator',
  'post /api/v1/prices/import': 'administrator',
  'post /api/v1/backtests': 'administrator',

  'get /api/v1/upstreams': OVERSEERS,
  'post /api/v1/upstreams': 'administrator',
  'patch /api/v1/upstreams/:upstream': 'administrator',
  'delete /api/v1/upstreams/:upstream': 'administrator',
  'post /api/v1/upstreams/:upstream/credentials': 'administrator',
  'delete /api/v1/upstreams/:upstream/credentials/:credential': 'administrator',
  'post /api/v1/upstreams/:upstream/test': 'administrator',
  'get /api/v1/upstreams/:upstream/models': 'administrator',
  'get /api/v1/dispatch': OVERSEERS,
  'put /api/v1/dispatch': 'administrator',
  'post /api/v1/dispatch/retire': 'administrator',
  'post /api/v1/desired-state/plan': 'administrator',
  'post /api/v1/desired-state/apply': 'administrator',

  'get /api/v1/status': OVERSEERS,
  'get /api/v1/alerts': EVERYBODY,
  'get /api/v1/destinations': OVERSEERS,
  'post /api/v1/destinations': 'administrator',
  'delete /api/v1/destinations/:destination': 'administrator',
  'post /api/v1/destinations/:destination/test': 'administrator',
  'get /api/v1/deliveries': OVERSEERS,
  'get /api/v1/sinks': OVERSEERS,
  'post /api/v1/sinks': 'administrator',
  'patch /api/v1/sinks/:sink': 'administrator',
  'delete /api/v1/sinks/:sink': 'administrator',
  'put /api/v1/sinks/:sink/config': 'administrator',
  'post /api/v1/sinks/:sink/test': 'administrator',

  'get /api/v1/usage': EVERYBODY,
  'get /api/v1/errors': EVERYBODY,
  'get /api/v1/requests': EVERYBODY,
  'get /api/v1/requests/:request': EVERYBODY,
  'get /api/v1/requests/:request/receipt': EVERYBODY,
  'get /api/v1/spend-events': EVERYBODY,
  'get /api/v1/statements': EVERYBODY,
  'get /api/v1/statement-emails': EVERYBODY,
  'post /api/v1/statement-emails': 'administrator',
  'put /api/v1/statement-emails/schedule': 'administrator',
  'put /api/v1/statement-emails/recipients': 'administrator',
  'get /api/v1/invoices': EVERYBODY,
  'get /api/v1/invoices/:number': EVERYBODY,
  'post /api/v1/invoices': 'administrator',
  'post /api/v1/invoices/:number/credit': 'administrator',
  'get /api/v1/invoices/:number/corrections': OVERSEERS,
  'post /api/v1/invoices/:number/corrections': 'administrator',
  'get /api/v1/issuer': OVERSEERS,
  'put /api/v1/issuer': 'administrator',
  'get /api/v1/events': EVERYBODY,
  'get /api/v1/events.ndjson': EVERYBODY,

  'get /api/v1/reconciliations': OVERSEERS,
  'get /api/v1/reconciliations/:reconciliation': OVERSEERS,
  'get /api/v1/reconciliations/:reconciliation/report': OVERSEERS,
  'post /api/v1/reconciliations': 'administrator',
  'post /api/v1/reconciliations/:reconciliation/apply': 'administrator',

  'get /api/v1/audit/proof': OVERSEERS,
  'get /api/v1/audit/checkpoints': OVERSEERS,
  'get /api/v1/audit/state': OVERSEERS,
  'get /api/v1/audit/checks': OVERSEERS,
  'post /api/v1/audit/checks': OVERSEERS,
  'post /api/v1/audit/receipt': EVERYBODY,

  'post /api/v1/playground/chat/completions': CALLERS,
};

/** These end the session of whoever may use them. */
const SIGN_OUT = new Set(['delete /api/v1/session', 'delete /api/v1/sessions']);

const routes = listApiRoutes().map(({ method, path, contract }) => ({
  name: `${method} ${path}`,
  method,
  path,
  hasBody: contract.body !== undefined,
  contract,
}));
type Listed = (typeof routes)[number];

const UNKNOWN: Record<string, string> = { request: uuidv7() };
/** The path with something for each of its parameters; what is not named is something that is not there. */
const pathOf = ({ path }: Listed, named: Record<string, string> = {}): string =>
  path.replace(/:(\w+)/g, (_all, name: string) => named[name] ?? UNKNOWN[name] ?? 'Unknown0');

function send(client: DashboardClient, listed: Listed, named?: Record<string, string>): Promise<ApiReply> {
  // Who waits for a checkpoint here waits in vain.
  const path =
    pathOf(listed, named) + (listed.name === 'get /api/v1/requests/:request/receipt' ? '?wait=0' : '');
  const body = listed.hasBody ? {} : undefined;
  if (listed.method === 'get' || listed.method === 'delete') return client[listed.method](path);
  return client[listed.method](path, body);
}

let relay: TestRelay;
let people: Record<Role, SignedInClient>;
let stranger: SignedInClient;

beforeAll(async () => {
  const { ana, ben, administrator, auditor, ...started } = await startPeopledRelay();
  relay = started.relay;
  people = { administrator, auditor, member: ana };
  stranger = ben;
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const anyRole = (name: string): boolean => PERMITTED[name] === 'anybody';

test('every route is one of which is known who may use it, and none is missing', () => {
  expect(routes.map(({ name }) => name).toSorted()).toEqual(Object.keys(PERMITTED).toSorted());
  expect(routes.length).toBeGreaterThan(50);
});

test.each(routes.filter(({ name }) => !anyRole(name)))(
  '$name is for nobody who is not signed in',
  async (listed) => {
    expect(await send(visit(relay), listed)).toMatchObject({ status: 401, code: 'unauthenticated' });
  },
);

test.each(routes.filter(({ name }) => anyRole(name)))('$name asks nobody to sign in', async (listed) => {
  const reply = await send(visit(relay), listed);
  expect(reply.code).not.toBe('unauthenticated');
  expect(reply.status).toBeLessThan(500);
});

describe.each(ROLES)('%s', (role) => {
  test.each(routes.filter(({ name }) => !anyRole(name) && !SIGN_OUT.has(name)))('$name', async (listed) => {
    const reply = await send(people[role], listed);
    if (PERMITTED[listed.name]?.split(' ').includes(role) === true) {
      expect([401, 403]).not.toContain(reply.status);
      expect(reply.status).toBeLessThan(500);
      if (reply.status === 200 && listed.contract.type === undefined)
        expect(listed.contract.reply.safeParse(reply.body).error).toBeUndefined();
    } else expect(reply).toMatchObject({ status: 403, code: 'insufficient_role' });
  });
});

describe('what is of another account', () => {
  test("another account's objects are 404 on every route, and stay unchanged", async () => {
    const member = people.member;
    const { body: key } = await member.post<{ id: string; secret: string }>('/api/v1/keys', { name: 'key' });
    await callDemo(relay, key.secret);
    const log = await relay.waitFor((events) =>
      events.some(({ event }) => event.type === 'request.settled' && event.key === key.id),
    );
    const accepted = log.findLast(({ event }) => event.type === 'request.accepted');
    const named = {
      key: key.id,
      session: member.me.session,
      request: accepted?.event.type === 'request.accepted' ? accepted.event.request : '',
    };
    const before = log.at(-1)?.position;
    const naming = routes.filter(
      ({ name, path }) => path.includes(':') && PERMITTED[name]?.split(' ').includes('member') === true,
    );
    expect(naming.length).toBeGreaterThan(7);
    for (const listed of naming) {
      const [theirs, none] = [await send(stranger, listed, named), await send(stranger, listed)];
      expect({ route: listed.name, ...said(theirs) }).toEqual({ route: listed.name, ...said(none) });
    }
    for (const action of ['revoke', 'leaked'])
      expect(await stranger.post(`/api/v1/keys/${key.id}/${action}`)).toMatchObject({
        status: 404,
        code: 'not_found',
      });
    expect((await relay.readLog()).at(-1)?.position).toBe(before);
    expect((await member.get('/api/v1/me')).status).toBe(200);
  });
});

/** What a reply says, but for what differs from one to the next. */
function said({ status, body }: ApiReply): object {
  const { error } = body as { error?: { message: string; code: string } };
  return {
    status,
    error: error && { ...error, message: error.message.replace(/as of \S+|\d+ newer events? (is|are)/g, '') },
  };
}

describe('a request that comes from elsewhere', () => {
  const FOREIGN: [string, Record<string, string>][] = [
    ['from a page of another site', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    ['from a neighbour on the same site', { 'sec-fetch-site': 'same-site' }],
    ['from an older browser on another site', { origin: 'https://evil.example' }],
    ['from a sandboxed frame', { origin: 'null' }],
  ];

  test.each(FOREIGN)(
    '%s is refused by every route, whoever is signed in, and nothing happens',
    async (_where, headers) => {
      const before = (await relay.readLog()).at(-1)?.position;
      const client = Object.assign(visit(relay, headers), { cookie: people.administrator.cookie });
      for (const listed of routes) {
        const reply = await send(client, listed);
        expect({ route: listed.name, status: reply.status, code: reply.code }).toEqual({
          route: listed.name,
          status: 403,
          code: 'cross_site_request',
        });
      }
      expect((await relay.readLog()).at(-1)?.position).toBe(before);
    },
  );

  test('a change without an Origin header is rejected as well', async () => {
    for (const listed of routes.filter(({ method }) => method !== 'get')) {
      const headers = { cookie: people.administrator.cookie, 'content-type': 'application/json' };
      const reply = await fetch(people.administrator.origin + pathOf(listed), {
        method: listed.method.toUpperCase(),
        headers,
        ...(listed.hasBody ? { body: '{}' } : {}),
      });
      const { error } = (await reply.json()) as { error: { code: string } };
      expect({ route: listed.name, status: reply.status, code: error.code }).toEqual({
        route: listed.name,
        status: 403,
        code: 'cross_site_request',
      });
    }
  });
});

test.each([...SIGN_OUT])('%s is for every role, and ends its session', async (name) => {
  for (const role of ROLES) {
    const client = await signIn(relay, people[role].email);
    const listed = routes.find((each) => each.name === name) as Listed;
    const cookie = client.cookie;
    expect(await send(client, listed)).toMatchObject({ status: 200 });
    expect(await Object.assign(client, { cookie }).get('/api/v1/me')).toMatchObject({
      status: 401,
      code: 'unauthenticated',
    });
  }
});
