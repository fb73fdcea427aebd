import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROLES, type Role } from '#db/events/parts.ts';
import { uuidv7 } from '#db/ids.ts';
import { apiRoutes } from '#server/dashboard/api.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  type ApiReply,
  callDemo,
  type DashboardClient,
  signIn,
  type SignedInClient,
  startPeopledRelay,
  visit,
} from '../support/dashboard.ts';
import type { TestRelay } from '../support/relay.ts';

/** Who may use which route of the dashboard's API: every route by every role. */

const EVERYBODY = 'member administrator auditor';
const CALLERS = 'member administrator';
const OVERSEERS = 'administrator auditor';

/** Who may do what, as people were told. A route that is not here is one that nobody has thought about. */
const PERMITTED: Record<string, string> = {
  'get /api/welcome': 'anybody',
  'post /api/session': 'anybody',
  'post /api/setup': 'anybody',
  'post /api/registration': 'anybody',
  'post /api/invitation': 'anybody',
  'post /api/invitation/accept': 'anybody',
  'post /api/password/forgotten': 'anybody',
  'post /api/password/reset': 'anybody',

  'get /api/me': EVERYBODY,
  'delete /api/session': EVERYBODY,
  'get /api/sessions': EVERYBODY,
  'delete /api/sessions': EVERYBODY,
  'delete /api/sessions/:session': EVERYBODY,
  'post /api/password': EVERYBODY,
  'post /api/totp': EVERYBODY,
  'put /api/totp': EVERYBODY,
  'post /api/totp/remove': EVERYBODY,

  'get /api/members': EVERYBODY,
  'patch /api/members/:member': 'administrator',
  'delete /api/members/:member': 'administrator',
  'post /api/members/:member/reset': 'administrator',
  'get /api/invitations': OVERSEERS,
  'post /api/invitations': 'administrator',
  'delete /api/invitations/:invitation': 'administrator',
  'get /api/registration': OVERSEERS,
  'put /api/registration': 'administrator',

  'get /api/keys': EVERYBODY,
  'get /api/keys/:key': EVERYBODY,
  'post /api/keys': CALLERS,
  'post /api/keys/:key/rotate': CALLERS,
  'post /api/keys/:key/leaked': CALLERS,
  'post /api/keys/:key/revoke': CALLERS,
  'patch /api/keys/:key': CALLERS,
  'post /api/keys/:key/check': EVERYBODY,
  'get /api/limits': EVERYBODY,
  'get /api/limits/forecasts': EVERYBODY,
  'get /api/models': EVERYBODY,

  'get /api/accounts': OVERSEERS,
  'get /api/accounts/:account': OVERSEERS,
  'post /api/accounts': 'administrator',
  'post /api/accounts/:account/suspend': 'administrator',
  'post /api/accounts/:account/reinstate': 'administrator',
  'put /api/accounts/:account/plan': 'administrator',
  'put /api/accounts/:account/override': 'administrator',
  'get /api/accounts/:account/adjustments': OVERSEERS,
  'post /api/accounts/:account/adjustments': 'administrator',
  'put /api/accounts/:account/parent': 'administrator',
  'get /api/accounts/:account/top-ups': OVERSEERS,
  'post /api/accounts/:account/top-ups': 'administrator',
  'get /api/accounts/:account/corrections': OVERSEERS,
  'get /api/accounts/:account/attribution': CALLERS,
  'post /api/requests/:request/corrections': 'administrator',
  'post /api/accounts/:account/attribution': CALLERS,
  'post /api/accounts/:account/attribution/erase': CALLERS,
  'post /api/accounts/:account/attribution/destroy-key': 'administrator',
  'get /api/plans': OVERSEERS,
  'put /api/plans/:plan': 'administrator',
  'post /api/plans/:plan/retire': 'administrator',
  'get /api/prices': OVERSEERS,
  'put /api/prices': 'administrator',
  'post /api/prices/import': 'administrator',
  'post /api/backtests': 'administrator',

  'get /api/upstreams': OVERSEERS,
  'post /api/upstreams': 'administrator',
  'patch /api/upstreams/:upstream': 'administrator',
  'delete /api/upstreams/:upstream': 'administrator',
  'post /api/upstreams/:upstream/credentials': 'administrator',
  'delete /api/upstreams/:upstream/credentials/:credential': 'administrator',
  'post /api/upstreams/:upstream/test': 'administrator',
  'get /api/upstreams/:upstream/models': 'administrator',
  'get /api/dispatch': OVERSEERS,
  'put /api/dispatch': 'administrator',
  'post /api/dispatch/retire': 'administrator',

  'get /api/status': OVERSEERS,
  'get /api/alerts': EVERYBODY,
  'get /api/destinations': OVERSEERS,
  'post /api/destinations': 'administrator',
  'delete /api/destinations/:destination': 'administrator',
  'post /api/destinations/:destination/test': 'administrator',
  'get /api/deliveries': OVERSEERS,
  'get /api/sinks': OVERSEERS,
  'post /api/sinks': 'administrator',
  'patch /api/sinks/:sink': 'administrator',
  'delete /api/sinks/:sink': 'administrator',
  'put /api/sinks/:sink/config': 'administrator',
  'post /api/sinks/:sink/test': 'administrator',

  'get /api/usage': EVERYBODY,
  'get /api/requests': EVERYBODY,
  'get /api/requests/:request': EVERYBODY,
  'get /api/requests/:request/receipt': EVERYBODY,
  'get /api/spend-events': EVERYBODY,
  'get /api/statements': EVERYBODY,
  'get /api/statement-emails': EVERYBODY,
  'post /api/statement-emails': 'administrator',
  'put /api/statement-emails/schedule': 'administrator',
  'put /api/statement-emails/recipients': 'administrator',
  'get /api/invoices': EVERYBODY,
  'get /api/invoices/:number': EVERYBODY,
  'post /api/invoices': 'administrator',
  'post /api/invoices/:number/credit': 'administrator',
  'get /api/invoices/:number/corrections': OVERSEERS,
  'post /api/invoices/:number/corrections': 'administrator',
  'get /api/issuer': OVERSEERS,
  'put /api/issuer': 'administrator',
  'get /api/events': EVERYBODY,
  'get /api/events.ndjson': EVERYBODY,

  'get /api/reconciliations': OVERSEERS,
  'get /api/reconciliations/:reconciliation': OVERSEERS,
  'get /api/reconciliations/:reconciliation/report': OVERSEERS,
  'post /api/reconciliations': 'administrator',
  'post /api/reconciliations/:reconciliation/apply': 'administrator',

  'get /api/audit/proof': OVERSEERS,
  'get /api/audit/checkpoints': OVERSEERS,
  'get /api/audit/state': OVERSEERS,
  'get /api/audit/checks': OVERSEERS,
  'post /api/audit/checks': OVERSEERS,
  'post /api/audit/receipt': EVERYBODY,

  'post /api/playground/chat/completions': CALLERS,
};

/** These end the session of whoever may use them. */
const SIGN_OUT = new Set(['delete /api/session', 'delete /api/sessions']);

// Only the list is wanted, and what its routes would work with is never asked.
const nothing: unknown = new Proxy(() => nothing, {
  get: (_target, name) => (name === Symbol.toPrimitive ? () => '' : nothing),
  apply: () => nothing,
});
const routes = apiRoutes(nothing as Dashboard).map(({ method, path, body }) => ({
  name: `${method} ${path}`,
  method,
  path,
  hasBody: body !== null,
}));
type Listed = (typeof routes)[number];

const UNKNOWN: Record<string, string> = { request: uuidv7() };
/** The path with something for each of its parameters; what is not named is something that is not there. */
const pathOf = ({ path }: Listed, named: Record<string, string> = {}): string =>
  path.replace(/:(\w+)/g, (_all, name: string) => named[name] ?? UNKNOWN[name] ?? 'Unknown0');

function send(client: DashboardClient, listed: Listed, named?: Record<string, string>): Promise<ApiReply> {
  // Who waits for a checkpoint here waits in vain.
  const path =
    pathOf(listed, named) + (listed.name === 'get /api/requests/:request/receipt' ? '?wait=0' : '');
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
    } else expect(reply).toMatchObject({ status: 403, code: 'insufficient_role' });
  });
});

describe('what is of another account', () => {
  test("another account's objects are 404 on every route, and stay unchanged", async () => {
    const member = people.member;
    const { body: key } = await member.post<{ id: string; secret: string }>('/api/keys', { name: 'key' });
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
      expect(await stranger.post(`/api/keys/${key.id}/${action}`)).toMatchObject({
        status: 404,
        code: 'not_found',
      });
    expect((await relay.readLog()).at(-1)?.position).toBe(before);
    expect((await member.get('/api/me')).status).toBe(200);
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
    expect(await Object.assign(client, { cookie }).get('/api/me')).toMatchObject({
      status: 401,
      code: 'unauthenticated',
    });
  }
});
