import path from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import type { AttributionTerms } from '#db/events/attribution-events.ts';
import type { Placed } from '#db/events/events.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { restoreBackup } from '#db/backup/restore.ts';
import { backUp } from '../support/audit/backup-fixture.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { filesWith, tablesWith } from '../support/everywhere.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Who calls are for: in the log as pseudonyms, beside the log sealed, and erased permanently on request. */

type Attributed = { end_user?: string; session?: string; tags?: string[] };

let upstream: ScriptedUpstream;
let relay: TestRelay;
const lines: string[] = [];
beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, name: 'all', models: ['ok'], routes: RELAYED_ROUTES }],
    onLine: (line) => lines.push(line),
  });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const database = (): TestDatabase => relay.store as TestDatabase;
const { json, daybook } = commandLine(() => ({
  DATABASE_URL: database().url,
  DAYBOOK_DATA: relay.dataDir,
  LOG_LEVEL: 'silent',
}));

/** Sends a call. @returns its status, its error code, and the attribution of its events. */
async function call(
  headers: Record<string, string>,
  { key = relay.key, body = {} }: { key?: string; body?: object } = {},
): Promise<{ status: number; code: unknown; text: string; events: Attributed[] }> {
  const reply = await fetch(`${relay.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'ok', messages: [{ role: 'user', content: 'hi' }], ...body }),
  });
  const text = await reply.text();
  const id = reply.headers.get('x-request-id');
  const isOf = ({ event }: Placed): boolean => 'request' in event && event.request === id;
  const log = await relay.waitFor(
    (events) =>
      reply.status === 400 || events.some((each) => isOf(each) && each.event.type !== 'request.accepted'),
  );
  const { error } = JSON.parse(text) as { error?: { code: unknown } };
  return {
    status: reply.status,
    code: error?.code,
    text,
    events: log.filter(isOf).map(({ event }) => {
      const { end_user, session, tags } = event as Attributed;
      return { ...(end_user && { end_user }), ...(session && { session }), ...(tags && { tags }) };
    }),
  };
}

/** An account with a key, by its name. */
async function createAccount(name: string): Promise<{ account: string; id: string; key: string }> {
  await relay.createAccount(name);
  const key = await relay.createKey({ account: name });
  return { account: name, id: key.id, key: key.secret };
}

const show = (account: string, ...named: string[]): Promise<{ pseudonym: string; value: string | null }> =>
  json('attribution', 'show', '--account', account, ...named);

/** Servers store values some time after their calls. */
async function stored(account: string, pseudonym: string): Promise<string | null> {
  await expect.poll(async () => (await show(account, '--pseudonym', pseudonym)).value).not.toBeNull();
  return (await show(account, '--pseudonym', pseudonym)).value;
}

async function restrict(id: string, attribution: AttributionTerms): Promise<void> {
  const restriction = { set: { attribution }, drop: [], clear: false, expiresAt: undefined };
  await relay.control((control) => control.restrictKey(id, { ...restriction, windows: 'keep' }));
}

async function figures(): Promise<unknown> {
  const log = await relay.readLog();
  return log.flatMap(({ event }) =>
    event.type === 'request.settled' ? [[event.request, event.end_user, event.input_tokens]] : [],
  );
}

test('every event of a call has its pseudonyms, and only commands show the values', async () => {
  const { account, key } = await createAccount('names');
  const headers = { 'x-daybook-user': 'Ada', 'x-daybook-session': 's-1', 'x-daybook-tags': 'team:a, b' };
  const { status, events } = await call(headers, { key });
  const [accepted, settled] = events as [Attributed, Attributed];
  expect([status, events.length]).toEqual([200, 2]);
  expect(accepted).toEqual({
    end_user: expect.stringMatching(/^[0-9A-Za-z]{16}$/),
    session: expect.stringMatching(/^[0-9A-Za-z]{16}$/),
    tags: [expect.any(String), expect.any(String)],
  });
  expect(settled).toEqual(accepted);
  // The same value is the same pseudonym, whichever source it is from.
  expect((await call({}, { key, body: { user: ' Ada ' } })).events[0]).toEqual({
    end_user: accepted.end_user,
  });

  expect(await stored(account, accepted.end_user as string)).toBe('Ada');
  expect(await stored(account, accepted.tags?.[0] as string)).toBe('team:a');
  expect(await show(account, '--user', 'Ada')).toMatchObject({ pseudonym: accepted.end_user, value: 'Ada' });
  expect(await show(account, '--tag', 'Ada')).not.toMatchObject({ pseudonym: accepted.end_user });
});

test('reads what the SDKs of providers send', async () => {
  const { key } = await createAccount('sdks');
  const openai = new OpenAI({ baseURL: relay.baseUrl, apiKey: key, maxRetries: 0 });
  const anthropic = new Anthropic({
    baseURL: relay.baseUrl.replace(/\/v1$/, ''),
    apiKey: key,
    maxRetries: 0,
  });
  const session = '5f0c7b1a-2d3e-4f50-8a9b-0c1d2e3f4a5b';
  const messages = [{ role: 'user' as const, content: 'hi' }];
  await openai.chat.completions.create({ model: 'ok', messages, user: 'Ada' });
  await openai.chat.completions.create({ model: 'ok', messages, metadata: { user_id: 'Ada', tags: 'a' } });
  await openai.responses.create({
    model: 'ok',
    input: 'hi',
    safety_identifier: 'Ada',
    prompt_cache_key: session,
  });
  const user_id = `user_${'a1'.repeat(32)}_account__session_${session}`;
  await anthropic.messages.create({ model: 'ok', messages, max_tokens: 9, metadata: { user_id: 'Ada' } });
  await anthropic.messages.create({ model: 'ok', messages, max_tokens: 9, metadata: { user_id } });
  const { id } = await relay.control((control) => control.loadAccount('sdks'));
  const log = await relay.readLog();
  const accepted = log.flatMap(({ event }) =>
    event.type === 'request.accepted' && event.account === id ? [event as Attributed] : [],
  );
  const [ada, sessions] = [accepted[0]?.end_user, accepted[2]?.session];
  expect(
    accepted.map((each) => [each.end_user === ada, each.session ?? null, each.tags?.length ?? 0]),
  ).toEqual([
    [true, null, 0],
    [true, null, 1],
    [true, sessions, 0],
    [true, null, 0],
    [false, sessions, 0],
  ]);
  expect([ada, sessions]).toEqual([expect.stringMatching(/^\w{16}$/), expect.stringMatching(/^\w{16}$/)]);
});

test('the same value has unrelated pseudonyms in two accounts', async () => {
  const [one, other] = [await createAccount('one'), await createAccount('other')];
  const [{ events: first }, { events: second }] = [
    await call({ 'x-daybook-user': 'Ada' }, one),
    await call({ 'x-daybook-user': 'Ada' }, other),
  ];
  expect(first[0]?.end_user).not.toBe(second[0]?.end_user);
  const pseudonym = first[0]?.end_user as string;
  const shown = await daybook('attribution', 'show', '--account', other.account, '--pseudonym', pseudonym);
  expect([shown.code, shown.stderr]).toEqual([3, expect.stringContaining('--kind')]);
});

test('calls with unusable values are recorded without them', async () => {
  const { status, events } = await call({ 'x-daybook-user': 'x'.repeat(300), 'x-daybook-tags': ',,' });
  expect([status, events]).toEqual([200, [{}, {}]]);
});

test('rejected calls have the attribution, each kind an event', async () => {
  const { id, key } = await createAccount('rejected');
  await relay.control((control) =>
    control.restrictKey(id, {
      set: { models: ['other'] },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  const [{ code, events: one }, { events: other }] = await Promise.all([
    call({ 'x-daybook-user': 'Ada' }, { key }),
    call({ 'x-daybook-user': 'Grace' }, { key }),
  ]);
  expect(code).toBe('model_not_permitted');
  expect(one[0]?.end_user).toMatch(/^\w{16}$/);
  expect(other[0]?.end_user).toMatch(/^\w{16}$/);
  expect(one[0]?.end_user).not.toBe(other[0]?.end_user);
});

test('a key requires values, or gives its own in place of the client’s', async () => {
  const { account, id, key } = await createAccount('required');
  await restrict(id, { end_user: 'required', session: { fixed: 'batch' }, tags: { fixed: ['nightly'] } });
  const refused = await call({ 'x-daybook-session': 'mine' }, { key });
  expect([refused.status, refused.code, refused.events]).toEqual([400, 'attribution_required', []]);
  expect(refused.text).toContain('x-daybook-user');
  const { events } = await call({ 'x-daybook-user': 'Ada', 'x-daybook-session': 'mine' }, { key });
  expect(await stored(account, events[0]?.session as string)).toBe('batch');
  expect(await stored(account, events[0]?.tags?.[0] as string)).toBe('nightly');
});

test('key restrict reads the terms of attribution', async () => {
  const { id } = await createAccount('restricted');
  const restricted = async (...terms: string[]): Promise<unknown> =>
    (
      await json<{ terms: object }>(
        'key',
        'restrict',
        id,
        ...terms.flatMap((each) => ['--attribution', each]),
      )
    ).terms;
  expect(await restricted('end_user=required', 'tags=fixed:web,eu')).toEqual({
    attribution: { end_user: 'required', tags: { fixed: ['web', 'eu'] } },
  });
  expect(await restricted('any')).toEqual({});
  expect((await daybook('key', 'restrict', id, '--attribution', 'user=x')).stderr).toContain(
    'end_user=required',
  );
});

test('an erased value is nowhere, is not stored again, and changes no figure', async () => {
  const { account, key } = await createAccount('erased');
  const value = 'erased-canary-7f3a9c51@example.com';
  const headers = { 'x-daybook-user': value, 'x-daybook-session': 'kept-session' };
  const [{ end_user = '', session = '' } = {}] = (await call(headers, { key })).events;
  expect(await stored(account, end_user)).toBe(value);
  const before = await figures();

  const erase = ['attribution', 'erase', '--account', account, '--user', value];
  expect(await json(...erase)).toEqual({ kind: 'end_user', pseudonym: end_user, changed: true });
  expect(await json(...erase)).toMatchObject({ changed: false });
  expect(await show(account, '--pseudonym', end_user)).toMatchObject({ value: null });
  expect(await stored(account, session)).toBe('kept-session');
  expect(await figures()).toEqual(before);

  // A later call has the same pseudonym, and nothing readable.
  const [again] = (await call({ ...headers, 'x-daybook-tags': 'after' }, { key })).events;
  expect(again?.end_user).toBe(end_user);
  expect(await stored(account, again?.tags?.[0] as string)).toBe('after');
  expect(await show(account, '--pseudonym', end_user)).toMatchObject({ value: null });

  const { directory } = await backUp(database(), relay.dataDir);
  const superuser = await database().superuser();
  expect(await tablesWith(superuser, value)).toEqual([]);
  expect(await tablesWith(superuser, end_user)).not.toEqual([]);
  expect(await filesWith(path.dirname(directory), value)).toEqual([]);
  await superuser.end();
  const client = await database().superuser();
  expect((await verifyDatabase(client)).findings).toEqual([]);
  await client.end();

  // A restored backup has no readable value, and still refuses the erased one.
  await using restored = await createEmptyDatabase();
  await restoreBackup({ store: restored, directory, evenDamaged: false });
  const rows = await restored.superuser();
  const { rows: counts } = await rows.query(
    `select (select count(*)::int from daybook.attribution_value) as values,
      (select count(*)::int from daybook.attribution_erased) as erased,
      (select count(*)::int > 0 from daybook.attribution_key) as keys`,
  );
  expect(counts).toEqual([{ values: 0, erased: 1, keys: true }]);
  await rows.end();
});

test('a destroyed key leaves nothing to recover, and later calls have other pseudonyms', async () => {
  const { account, key } = await createAccount('destroyed');
  const headers = { 'x-daybook-user': 'Grace' };
  const [{ end_user = '' } = {}] = (await call(headers, { key })).events;
  expect(await stored(account, end_user)).toBe('Grace');
  expect(await json('attribution', 'destroy-key', '--account', account)).toMatchObject({ values: 1 });
  const log = await relay.readLog();
  const position = log.findLast(({ event }) => event.type === 'attribution.key_destroyed')?.position ?? 0;
  await relay.control(async () => undefined); // The server has read the event.
  expect(position).toBeGreaterThan(0);
  const [{ end_user: later = '' } = {}] = (await call(headers, { key })).events;
  expect(later).not.toBe(end_user);
  expect(await stored(account, later)).toBe('Grace');
  expect((await daybook('attribution', 'show', '--account', account, '--pseudonym', end_user)).code).toBe(3);
});

test('no line of the log of the process has a value', () => {
  expect(lines.length).toBeGreaterThan(0);
  for (const value of ['Ada', 'Grace', 'erased-canary', 'kept-session', 'team:a'])
    expect(lines.filter((line) => line.includes(value))).toEqual([]);
});
