import { gunzipSync } from 'node:zlib';
import { request as ask } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CreatedKey, KeyList } from '#server/contract/keys.ts';
import { NAMES_MAX, type Names, type SearchResults } from '#server/contract/reads/search.ts';
import { LISTED_MAX } from '#server/contract/parts.ts';
import { seedKeys } from '../../bench/seed-keys.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { accepted, openLivingWriter, settled } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { until, type TestRelay } from '../support/relay.ts';

/** Names of ids, and the search, in an installation with more keys than a list has. */

let relay: TestRelay;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;
let oldest: CreatedKey;
let call: ReturnType<typeof accepted>;

beforeAll(async () => {
  ({ relay, administrator, auditor, ana, ben } = await startPeopledRelay());
  oldest = (await ana.post<CreatedKey>('/api/v1/keys', { name: 'ci-nightly' })).body;
  await seedKeys(relay.store, LISTED_MAX + 100);
  await using writer = await openLivingWriter(relay.store);
  call = accepted({ account: ana.me.account.id, key: oldest.id, model: 'slow-1' });
  await writer.append([call]);
  await writer.append([settled(call)]);
  await projectAll(relay.store);
  await until(
    () => administrator.get<KeyList>('/api/v1/keys?limit=1'),
    ({ body }) => body.rows_omitted > LISTED_MAX,
    'the read model',
  );
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const names = async (client: SignedInClient, query: string): Promise<Names> =>
  (await client.get<Names>(`/api/v1/names?${query}`)).body;
const search = async (client: SignedInClient, query: object): Promise<string[]> =>
  (await client.post<SearchResults>('/api/v1/search', query)).body.data.map(
    ({ kind, name }) => `${kind} ${name}`,
  );

test('the oldest of more keys than a list has keeps its name', async () => {
  const { body: list } = await administrator.get<KeyList>('/api/v1/keys');
  expect(list.data.map(({ id }) => id)).not.toContain(oldest.id);
  for (const who of [administrator, auditor, ana])
    expect((await names(who, `keys=${oldest.id}`)).keys).toEqual({ [oldest.id]: 'ci-nightly' });
});

test('a member learns the names of his own account alone', async () => {
  const { account, member } = ana.me;
  const query = `keys=${oldest.id}&accounts=${account.id},${ben.me.account.id}&members=${member.id}`;
  expect(await names(ana, query)).toEqual({
    object: 'names',
    keys: { [oldest.id]: 'ci-nightly' },
    accounts: { [account.id]: account.name },
    members: { [member.id]: ana.email },
  });
  expect(await names(ben, query)).toEqual({
    object: 'names',
    keys: {},
    accounts: { [ben.me.account.id]: ben.me.account.name },
    members: {},
  });
  // Auditors see no email addresses.
  expect((await names(auditor, query)).members).toEqual({});
  expect((await names(administrator, query)).members).toEqual({ [member.id]: ana.email });
  for (const q of ['ci-nightly', oldest.id, ana.email, account.name, call.request])
    expect([q, await search(ben, { q })]).toEqual([q, []]);
  expect((await ben.post('/api/v1/search', { account: account.id })).status).toBe(404);
});

test('a request for names is bounded, and takes ids alone', async () => {
  const many = Array.from({ length: NAMES_MAX }, () => oldest.id).join(',');
  expect(Object.keys((await names(ana, `keys=${many}`)).keys)).toEqual([oldest.id]);
  for (const query of [`keys=${many},${oldest.id}`, 'keys=x', `models=${oldest.id}`])
    expect((await ana.get(`/api/v1/names?${query}`)).code).toBe('invalid_value');
});

test('a search finds what has a name by a part of it, and by its id', async () => {
  const { account, member } = ana.me;
  expect(await search(administrator, { q: 'nightly' })).toEqual(['key ci-nightly']);
  expect(await search(ana, { q: 'CI-' })).toEqual(['key ci-nightly']);
  expect(await search(administrator, { q: `dbk_${oldest.id}` })).toEqual(['key ci-nightly']);
  expect(await search(administrator, { kind: 'account', q: account.name.slice(3, 12) })).toEqual([
    `account ${account.name}`,
  ]);
  expect(await search(administrator, { kind: 'member', q: ana.email.slice(1, 9).toUpperCase() })).toEqual([
    `member ${ana.email}`,
  ]);
  expect(await search(auditor, { kind: 'member', q: ana.email })).toEqual([]);
  expect(await search(auditor, { kind: 'member', q: member.id })).toEqual([`member ${member.id}`]);
  expect(await search(ana, { q: 'demo-f' })).toEqual(['model daybook-demo-fail']);
  expect(await search(administrator, { q: 'demo' })).toContain('upstream demo');
  for (const who of [ana, administrator])
    expect(await search(who, { q: call.request.toUpperCase() })).toEqual(['request slow-1']);
  // A percent sign is no wildcard.
  expect(await search(administrator, { kind: 'member', q: '%' })).toEqual([]);
});

test('a search is bounded: of equal matches the newest', async () => {
  expect(await search(administrator, { kind: 'key', q: 'bench', limit: 3 })).toHaveLength(3);
  expect(await search(administrator, { kind: 'key', account: ana.me.account.id })).toEqual([
    'key ci-nightly',
  ]);
  for (const query of [{ limit: 21 }, { q: 'a\u0000' }])
    expect((await administrator.post('/api/v1/search', query)).code).toBe('invalid_value');
});

test('long replies to reads are compressed with gzip, and replies with secrets never', async () => {
  const read = async (method: 'GET' | 'POST', path: string, body: object | null, encoding = 'gzip') => {
    const reply = await ask(administrator.origin + path, {
      method,
      headers: {
        'accept-encoding': encoding,
        cookie: administrator.cookie,
        origin: administrator.origin,
        ...(body === null ? {} : { 'content-type': 'application/json' }),
      },
      body: body === null ? null : JSON.stringify(body),
    });
    const bytes = Buffer.from(await reply.body.arrayBuffer());
    return { bytes, packed: reply.headers['content-encoding'] ?? null, vary: reply.headers['vary'] };
  };
  const packed = await read('GET', '/api/v1/keys', null);
  const plain = await read('GET', '/api/v1/keys', null, 'identity');
  expect([packed.packed, packed.vary, plain.packed]).toEqual(['gzip', 'accept-encoding', null]);
  expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 4);
  expect(JSON.parse(gunzipSync(packed.bytes).toString())).toMatchObject({ object: 'list' });
  expect((await read('GET', '/api/v1/keys?limit=1', null)).packed).toBeNull();
  // Long enough, but it has a secret.
  const terms = { models: Array.from({ length: 100 }, (_, index) => `a-model-with-a-long-name-${index}`) };
  const made = await read('POST', '/api/v1/keys', { name: 'of a long name '.repeat(6), terms });
  expect([made.packed, made.bytes.toString().includes('dbk_')]).toEqual([null, true]);
});
