import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Role } from '#db/events/parts.ts';
import { randomBase62 } from '#db/ids.ts';
import type { CreatedLink } from '#server/contract/members.ts';
import type { Me } from '#server/contract/session.ts';
import { chat } from './client.ts';
import { type RelayOptions, startRelay, type TestRelay } from './relay.ts';

/** A reply of the dashboard's API. `body` is what it says, an error's too; `code` is an error's code. */
export type ApiReply<T = unknown> = { status: number; body: T; code: string | null; headers: Headers };

/** A browser as far as the API sees one: it keeps its cookie, and says where its page is from. */
export type DashboardClient = {
  readonly origin: string;
  /** As a request sends it; empty when signed out. */
  cookie: string;
  /** By which the browser is known after it has signed in once. */
  device: string;
  get<T = unknown>(path: string): Promise<ApiReply<T>>;
  post<T = unknown>(path: string, body?: unknown): Promise<ApiReply<T>>;
  put<T = unknown>(path: string, body?: unknown): Promise<ApiReply<T>>;
  patch<T = unknown>(path: string, body?: unknown): Promise<ApiReply<T>>;
  delete<T = unknown>(path: string): Promise<ApiReply<T>>;
};

export type SignedInClient = DashboardClient & { me: Me; email: string };

/** The password of everybody whom these functions make. */
export const PASSWORD = 'correct horse battery';
const ADMINISTRATOR = 'administrator@example.com';

/** A browser that has not signed in. @param headers sent with each request besides. */
export function visit(relay: { port: number }, headers: Record<string, string> = {}): DashboardClient {
  const origin = `http://127.0.0.1:${relay.port}`;
  async function send<T>(method: string, place: string, body?: unknown): Promise<ApiReply<T>> {
    const reply = await fetch(origin + place, {
      method,
      headers: {
        origin,
        ...(client.cookie + client.device === ''
          ? {}
          : { cookie: [client.cookie, client.device].filter((pair) => pair !== '').join('; ') }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    for (const set of reply.headers.getSetCookie()) {
      const [pair = ''] = set.split(';');
      const cookie = pair.endsWith('=') ? '' : pair;
      if (pair.includes('daybook-device=')) client.device = cookie;
      else client.cookie = cookie;
    }
    const text = await reply.text();
    const isJson = reply.headers.get('content-type')?.startsWith('application/json') === true;
    const said = (isJson ? JSON.parse(text) : text) as T & { error?: { code: string } };
    return { status: reply.status, body: said, code: said.error?.code ?? null, headers: reply.headers };
  }
  const client: DashboardClient = {
    origin,
    cookie: '',
    device: '',
    get: (place) => send('GET', place),
    post: (place, body) => send('POST', place, body),
    put: (place, body) => send('PUT', place, body),
    patch: (place, body) => send('PATCH', place, body),
    delete: (place) => send('DELETE', place),
  };
  return client;
}

/** The secret part of a link. */
export const linkSecretOf = (link: string): string => link.slice(link.indexOf('#') + 1);

/** In order, for replies of which it does not matter whose is whose. */
export const statuses = (replies: readonly ApiReply[]): number[] =>
  replies.map(({ status }) => status).toSorted((one, other) => one - other);

/** The administrator of each relay that was set up. */
const administrators = new WeakMap<object, Promise<SignedInClient>>();

/** The first administrator, by the setup link that the start left in a file. Asked again: the same. */
export function setUp(relay: Pick<TestRelay, 'port' | 'dataDir'>): Promise<SignedInClient> {
  const made = administrators.get(relay) ?? claim(relay);
  administrators.set(relay, made);
  return made;
}

async function claim(relay: Pick<TestRelay, 'port' | 'dataDir'>): Promise<SignedInClient> {
  const client = visit(relay);
  const link = (await readFile(path.join(relay.dataDir, 'setup-link.txt'), 'utf8')).trim();
  const reply = await client.post<Me>('/api/v1/setup', {
    secret: linkSecretOf(link),
    email: ADMINISTRATOR,
    password: PASSWORD,
  });
  return signedIn(client, reply, ADMINISTRATOR);
}

/** Somebody who comes by an invitation: to an account, or with one of their own. */
export async function addMember(
  relay: TestRelay,
  {
    role = 'member',
    account = null,
    email = `${randomBase62(12).toLowerCase()}@example.com`,
  }: { role?: Role; account?: string | null; email?: string } = {},
): Promise<SignedInClient> {
  const administrator = await setUp(relay);
  const made = await administrator.post<CreatedLink>('/api/v1/invitations', { account, role });
  if (made.status !== 200) throw new Error(`no invitation was made: ${JSON.stringify(made.body)}`);
  const client = visit(relay);
  const reply = await client.post<Me>('/api/v1/invitation/accept', {
    secret: linkSecretOf(made.body.link),
    email,
    password: PASSWORD,
    ...(account === null ? { account_name: `of ${email}` } : {}),
  });
  return signedIn(client, reply, email);
}

/**
 * A relay and who comes to it: an administrator, an auditor, and two members; each has an account of their
 * own.
 */
export type PeopledRelay = {
  relay: TestRelay;
  administrator: SignedInClient;
  auditor: SignedInClient;
  ana: SignedInClient;
  ben: SignedInClient;
};

/** Whoever disposes of its relay has disposed of all of it. */
export async function startPeopledRelay(options: RelayOptions = {}): Promise<PeopledRelay> {
  await using started = new AsyncDisposableStack();
  const relay = started.use(await startRelay(options));
  const administrator = await setUp(relay);
  // One after the other: those who are not signed in share a connection, for which nobody waits long.
  const auditor = await addMember(relay, { role: 'auditor' });
  const [ana, ben] = [await addMember(relay), await addMember(relay)];
  started.move();
  return { relay, administrator, auditor, ana, ben };
}

/** What a call to the demo comes to: its status and, where it was refused, the code. */
export async function callDemo(relay: TestRelay, secret: string, model = 'daybook-demo'): Promise<string> {
  const { status, body } = await chat({
    port: relay.port,
    key: secret,
    body: { model, messages: [{ role: 'user', content: 'hi' }] },
  });
  const { error } = JSON.parse(body.toString()) as { error?: { code: string } };
  return error ? `${status} ${error.code}` : String(status);
}

/** Signs in with the password that everybody has. */
export async function signIn(
  relay: { port: number },
  email: string,
  password: string = PASSWORD,
): Promise<SignedInClient> {
  const client = visit(relay);
  return signedIn(client, await client.post<Me>('/api/v1/session', { email, password }), email);
}

function signedIn(client: DashboardClient, reply: ApiReply<Me>, email: string): SignedInClient {
  if (reply.status !== 200 || client.cookie === '')
    throw new Error(`not signed in: ${reply.status} ${JSON.stringify(reply.body)}`);
  return Object.assign(client, { me: reply.body, email });
}
