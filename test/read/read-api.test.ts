import { afterAll, beforeAll, expect, test } from 'vitest';
import { uuidv7 } from '#db/ids.ts';
import { accepted, extended, openLivingWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type ApiReader, readerWith } from '../support/reader.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/** Lists of requests and the story of one, over a real socket, from a log that a test has written. */

let relay: TestRelay;
let writer: Writer;

beforeAll(async () => {
  relay = await startRelay();
  writer = await openLivingWriter(relay.store);
});

afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
});

type Tenant = { account: string; key: string; reader: ApiReader };

async function tenant(name: string): Promise<Tenant> {
  const { id: account } = await relay.createAccount(name);
  const { id: key, secret } = await relay.createKey({ account: name });
  return { account, key, reader: readerWith(relay.port, secret) };
}

/** A further key of a tenant's account. */
async function another(of: Tenant, name: string, reads: 'key' | 'account' = 'key'): Promise<Tenant> {
  const { id: key, secret } = await relay.createKey({ account: name });
  if (reads === 'account') {
    await relay.control((control) =>
      control.restrictKey(key, {
        set: { reads },
        drop: [],
        clear: false,
        expiresAt: undefined,
        windows: 'keep',
      }),
    );
  }
  return { account: of.account, key, reader: readerWith(relay.port, secret) };
}

const call = ({ account, key }: Tenant, changes = {}) => accepted({ account, key, ...changes });

test('a key lists its running, ended and rejected requests, newest first, with all fields', async () => {
  const one = await tenant('all kinds');
  const whom = { end_user: 'EndUser000000001', tags: ['Tag0000000000001', 'Tag0000000000002'] };
  const ended = call(one, { model: 'm-1', retry_count: 2, ...whom });
  const [running, cut] = [call(one), call(one)];
  await writer.append([ended, running, cut]);
  const refusal = {
    type: 'request.rejected' as const,
    route: '/v1/chat/completions' as const,
    request: uuidv7(),
    account: one.account,
    key: one.key,
    error_code: 'rate_limit_exceeded',
    status: 429,
    rejected_count: 7,
  };
  const at = await writer.append([
    settled(ended, {
      cost_nanousd: 5,
      upstream_cost_nanousd: 4,
      stated_cost_nanousd: 3,
      price_version: 3,
      cache_read_tokens: 4,
      cache_write_tokens: 6,
      reasoning_tokens: 2,
    }),
    settled(cut, { end_reason: 'upstream_disconnected', usage_source: 'counted', status: 200 }),
    refusal,
  ]);
  await projectAll(relay.store);
  const page = await one.reader.list();
  expect(page.data.map(({ request, outcome }) => [request, outcome])).toEqual([
    [refusal.request, 'refused'],
    [cut.request, 'upstream_failed'],
    [running.request, 'running'],
    [ended.request, 'completed'],
  ]);
  expect(page.data[3]).toEqual({
    request: ended.request,
    accepted_at: expect.any(String) as string,
    ended_at: expect.any(String) as string,
    account: one.account,
    key: one.key,
    model: 'm-1',
    route: '/v1/chat/completions',
    upstream: 'one',
    end_user: 'EndUser000000001',
    session: null,
    tags: ['Tag0000000000001', 'Tag0000000000002'],
    outcome: 'completed',
    end_reason: 'completed',
    error_code: null,
    rejected_count: null,
    status: 200,
    sse: true,
    input_tokens: 10,
    cache_read_tokens: 4,
    cache_write_tokens: 6,
    output_tokens: 20,
    reasoning_tokens: 2,
    usage_source: 'provider',
    corrected: null,
    observed: null,
    cost_nanousd: 5,
    first_byte_ms: 5,
    duration_ms: 50,
    attempt_count: 1,
    retry_count: 2,
    hold_tokens: 500,
    hold_cost_nanousd: null,
    position: at - 5,
    end_position: at - 2,
  });
  expect(page.data[2]).toMatchObject({ ended_at: null, end_reason: null, status: null, end_position: null });
  expect(page.data[0]).toMatchObject({
    error_code: 'rate_limit_exceeded',
    rejected_count: 7,
    status: 429,
    model: null,
  });
  expect(page).toMatchObject({ object: 'list', next: null, to: null, position: at, behind: 0, parked: 0 });
  expect(Date.parse(page.as_of as string)).toBeGreaterThanOrEqual(
    Date.parse(page.data[0]?.ended_at as string),
  );
});

test("a key sees its own requests or its account's, and never another account's", async () => {
  const own = await tenant('seers');
  const sibling = await another(own, 'seers');
  const seer = await another(own, 'seers', 'account');
  const stranger = await tenant('strangers');
  const [mine, siblings, strangers] = [call(own), call(sibling), call(stranger)];
  await writer.append([mine, siblings, strangers]);
  await writer.append([settled(mine), settled(siblings)]);
  await projectAll(relay.store);
  const seen = async ({ reader }: Tenant, query = ''): Promise<string[]> =>
    (await reader.list(query)).data.map(({ request }) => request);
  expect(await seen(own)).toEqual([mine.request]);
  expect(await seen(sibling)).toEqual([siblings.request]);
  expect(await seen(seer)).toEqual([siblings.request, mine.request]);
  expect(await seen(seer, `?key=${own.key}`)).toEqual([mine.request]);
  expect(await seen(stranger, '?outcome=running')).toEqual([strangers.request]);
  // Naming what is another's opens nothing.
  for (const query of [
    `?key=${own.key}`,
    `?account=${own.account}`,
    `?account=${own.account}&key=${own.key}&outcome=running`,
  ])
    expect(await seen(stranger, query)).toEqual([]);
  expect(await seen(own, `?key=${sibling.key}`)).toEqual([]);
  expect(await seen(seer, `?account=${stranger.account}&outcome=running`)).toEqual([]);
  for (const [{ reader }, request, status] of [
    [own, mine, 200],
    [own, siblings, 404],
    [seer, siblings, 200],
    [seer, strangers, 404],
    [stranger, mine, 404],
  ] as const) {
    const answer = await reader.get(`/v1/requests/${request.request}`);
    expect([answer.status, answer.json.error?.code]).toEqual([
      status,
      status === 200 ? undefined : 'request_not_found',
    ]);
  }
});

test('the pages of a list have each request once, while new ones are added', async () => {
  const one = await tenant('pages');
  // Of one batch, so that all have the same time, and several batches.
  const calls = Array.from({ length: 5 }, () => Array.from({ length: 7 }, () => call(one)));
  for (const batch of calls) await writer.append(batch);
  await projectAll(relay.store);
  const seen: string[] = [];
  let next: string | null = null;
  do {
    const page = await one.reader.list(`?limit=4${next === null ? '' : `&cursor=${next}`}`);
    seen.push(...page.data.map(({ request }) => request));
    next = page.next;
    const fresh = call(one);
    await writer.append([fresh, settled(fresh)]);
    await projectAll(relay.store);
  } while (next !== null);
  expect(seen).toEqual(
    calls
      .flat()
      .map(({ request }) => request)
      .toReversed(),
  );
});

test('request detail has its events in log order, with positions', async () => {
  const one = await tenant('stories');
  const told = call(one, { hold_tokens: 100, terms_position: 1, admitted_minute: 29_000_000 });
  const others = Array.from({ length: 20 }, () => call(one));
  const first = (await writer.append([told, ...others])) - 20;
  await writer.append([extended(told, { hold_tokens: 300 }), ...others.map((other) => settled(other))]);
  await writer.append([extended(told, { hold_tokens: 900 })]);
  const last = await writer.append([settled(told, { cost_nanousd: 12, price_version: 4 })]);
  await projectAll(relay.store);
  const story = await one.reader.story(told.request);
  expect(story.events.map(({ position, type, hold_tokens }) => [position, type, hold_tokens])).toEqual([
    [first, 'request.accepted', 100],
    [first + 21, 'request.extended', 300],
    [last - 1, 'request.extended', 900],
    [last, 'request.settled', undefined],
  ]);
  expect(story).toMatchObject({
    object: 'request',
    request: told.request,
    start_position: first,
    end_position: last,
    has_all_events: true,
    outcome: 'completed',
    hold_tokens: 900,
    cost_nanousd: 12,
    price_version: 4,
    usage_source: 'provider',
    terms_position: 1,
    admitted_minute: new Date(29_000_000 * 60_000).toISOString(),
    position: last,
    behind: 0,
  });
  expect(story.events[3]).toMatchObject({ end_reason: 'completed', duration_ms: 50, attempt_count: 1 });
});

test('replies say how far behind the projection is, and their point in time', async () => {
  const one = await tenant('behind');
  await writer.append([call(one)]);
  await projectAll(relay.store);
  const before = await one.reader.list();
  const late = call(one);
  await writer.append([late, settled(late)]);
  const after = await one.reader.list();
  expect([after.data.length, after.behind, after.position, after.as_of]).toEqual([
    1,
    2,
    before.position,
    before.as_of,
  ]);
  const unknown = await one.reader.get(`/v1/requests/${late.request}`);
  expect([unknown.status, unknown.json.error.code]).toEqual([404, 'request_not_found']);
  expect(unknown.json.error.message).toContain(`as of ${before.as_of}`);
  expect(unknown.json.error.message).toContain('2 newer events');
  await projectAll(relay.store);
  expect(await one.reader.story(late.request)).toMatchObject({ outcome: 'completed', behind: 0 });
});

test('a parameter that is unknown, doubled or not usable is a 400 that names it', async () => {
  const { reader } = await tenant('mistaken');
  for (const [query, param] of [
    ['requests?modle=a', 'modle'],
    ['requests?limit=0', 'limit'],
    ['requests?limit=201', 'limit'],
    ['requests?limit=many', 'limit'],
    ['requests?limit=1&limit=2', 'limit'],
    ['requests?from=soon', 'from'],
    ['requests?from=2027-01-31T00:00:00', 'from'],
    ['requests?from=2027-02-01&to=2027-01-31', 'from'],
    ['requests?cursor=abc', 'cursor'],
    ['requests?outcome=fine', 'outcome'],
    ['requests?status=99', 'status'],
    ['requests?key=short', 'key'],
    ['requests?format=xml', 'format'],
    ['usage?bucket=week', 'bucket'],
    ['usage?group_by=colour', 'group_by'],
    ['usage?group_by=key,key', 'group_by'],
    ['usage?from=2020-01-01&bucket=minute', null],
  ]) {
    const { status, json } = await reader.get(`/v1/${query}`);
    expect([query, status, json.error?.code, json.error?.param]).toEqual([
      query,
      400,
      'invalid_value',
      param,
    ]);
  }
  for (const id of ['nonsense', uuidv7(), '%00', "'; drop table x --"]) {
    const { status, json } = await reader.get(`/v1/requests/${encodeURIComponent(id)}`);
    expect([id, status, json.error.code]).toEqual([id, 404, 'request_not_found']);
  }
});
