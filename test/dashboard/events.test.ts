import { afterAll, beforeAll, expect, test } from 'vitest';
import { uuidv7 } from '#db/ids.ts';
import { type EventPage, type EventRow, EventsQuery } from '#server/contract/events.ts';
import { EVENTS, listEvents } from '#server/dashboard/events/list.ts';
import { ReadStore } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { accepted, extended, openWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import type { TestRelay } from '../support/relay.ts';

/** The log as people see it who are signed in. */

let relay: TestRelay;
let writer: Writer;
let administrator: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;
let anasKey: { id: string; secret: string };
let call: ReturnType<typeof accepted>;

beforeAll(async () => {
  ({ relay, administrator, ana, ben } = await startPeopledRelay());
  anasKey = await relay.createKey({ account: ana.me.account.name });
  const bensKey = await relay.createKey({ account: ben.me.account.name });
  // That an administrator looks at the list is put down once, here.
  await administrator.get('/api/v1/events');
  writer = await openWriter(relay.store);
  call = accepted({ account: ana.me.account.id, key: anasKey.id });
  const other = accepted({ account: ben.me.account.id, key: bensKey.id });
  await writer.append([call, other]);
  await writer.append([extended(call), settled(other)]);
  await writer.append([settled(call)]);
  await projectAll(relay.store);
});

afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
});

async function page(client: SignedInClient, query = ''): Promise<EventPage> {
  const { status, body } = await client.get<EventPage>(`/api/v1/events${query}`);
  if (status !== 200) throw new Error(`${query}: ${status} ${JSON.stringify(body)}`);
  return body;
}

/** All pages, one after the other. */
async function all(client: SignedInClient, query: string): Promise<EventRow[]> {
  const rows: EventRow[] = [];
  for (let next: string | null = ''; next !== null;) {
    const got: EventPage = await page(client, `?${query}${next === '' ? '' : `&cursor=${next}`}`);
    rows.push(...got.data);
    ({ next } = got);
  }
  return rows;
}

const positions = (rows: readonly EventRow[]): number[] => rows.map(({ position }) => position);
/** What the log itself has, newest first. */
async function logged(fits: (event: Record<string, unknown>) => boolean): Promise<number[]> {
  const log = await relay.readLog();
  return log
    .filter(({ event }) => fits(event as Record<string, unknown>))
    .map(({ position }) => position)
    .toReversed();
}

test('those who oversee see every event as it stands in the log, and no digest of a secret', async () => {
  const [newest] = (await page(administrator, '?limit=1')).data;
  const log = await relay.readLog();
  const last = log.at(-1);
  expect(newest).toMatchObject({
    position: last?.position,
    at: last?.at.toISOString(),
    instance: last?.instance,
    type: 'request.settled',
    stream: null,
    version: null,
    actor: null,
  });
  expect(newest?.fields).toMatchObject({
    request: call.request,
    account: call.account,
    key: call.key,
    input_tokens: 10,
  });
  expect(positions(await all(administrator, 'limit=7'))).toEqual(
    log.map(({ position }) => position).toReversed(),
  );
  const [created] = await all(administrator, `type=key.created&key=${anasKey.id}`);
  expect(created).toMatchObject({
    stream: `key/${anasKey.id}`,
    version: 1,
    actor: expect.any(String),
    fields: { account: ana.me.account.id, name: 'key', last4: expect.any(String) },
  });
  const digests = log.flatMap(({ event }) => ('digest' in event ? [event.digest] : []));
  const told = JSON.stringify(await all(administrator, 'limit=200'));
  expect(digests.length).toBeGreaterThan(0);
  expect(digests.filter((digest) => told.includes(digest))).toEqual([]);
});

test('members see events of their own account only, with any filter', async () => {
  const account = ana.me.account.id;
  expect(positions(await all(ana, 'limit=3'))).toEqual(await logged((event) => event['account'] === account));
  for (const query of [
    `account=${ben.me.account.id}`,
    'type=invitation',
    'type=registration',
    `member=${administrator.me.member.id}`,
  ]) {
    expect([query, await all(ana, query)]).toEqual([query, []]);
  }
  const [bens] = (await page(ben, '?type=request.accepted')).data;
  expect(await all(ana, `request=${String(bens?.fields['request'])}`)).toEqual([]);
});

test('each filter finds what the log has, alone and with others, in pages of any size', async () => {
  const member = ana.me.member.id;
  const cases: [query: string, fits: (event: Record<string, unknown>) => boolean][] = [
    [`account=${ana.me.account.id}`, (event) => event['account'] === ana.me.account.id],
    [`key=${anasKey.id}`, (event) => event['key'] === anasKey.id],
    [
      `key=${anasKey.id}&type=request.settled`,
      (event) => event['key'] === anasKey.id && event['type'] === 'request.settled',
    ],
    [
      `key=${anasKey.id}&type=key`,
      (event) => event['key'] === anasKey.id && String(event['type']).startsWith('key.'),
    ],
    [`request=${call.request}`, (event) => event['request'] === call.request],
    ['type=member', (event) => String(event['type']).startsWith('member.')],
    ['type=session.opened', (event) => event['type'] === 'session.opened'],
    [`member=${member}`, (event) => event['member'] === member || event['actor'] === `member/${member}`],
    [
      `member=${member}&type=session`,
      (event) => event['member'] === member && String(event['type']).startsWith('session.'),
    ],
  ];
  for (const [query, fits] of cases) {
    const expected = await logged(fits);
    expect([query, expected.length > 0]).toEqual([query, true]);
    for (const limit of [1, 2, 200])
      expect([query, positions(await all(administrator, `${query}&limit=${limit}`))]).toEqual([
        query,
        expected,
      ]);
  }
});

test('a part of the log is found by position and by time', async () => {
  const log = await relay.readLog();
  const some = log[Math.floor(log.length / 2)];
  if (!some) throw new Error('the log is empty');
  expect(positions(await all(administrator, `at=${some.position}&limit=5`))).toEqual(
    log
      .filter(({ position }) => position <= some.position)
      .map(({ position }) => position)
      .toReversed(),
  );
  const [from, to] = [some.at, log.at(-1)?.at ?? some.at];
  const within = log
    .filter(({ at }) => at >= from && at < to)
    .map(({ position }) => position)
    .toReversed();
  const query = new URLSearchParams({ from: from.toISOString(), to: to.toISOString() });
  expect(within.length).toBeGreaterThan(0);
  expect(positions(await all(administrator, query.toString()))).toEqual(within);
  expect(await all(administrator, 'from=2100-01-01T00:00:00Z')).toEqual([]);
  expect(await all(administrator, 'to=2000-01-01T00:00:00Z')).toEqual([]);
});

test('an export has every event that is meant, the oldest first, and says that it is whole', async () => {
  const { body, headers } = await ana.get<string>('/api/v1/events.ndjson');
  expect(headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
  const lines = body
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as EventRow & { end?: true });
  const events = lines.slice(0, -1);
  expect(positions(events)).toEqual(
    (await logged((event) => event['account'] === ana.me.account.id)).toReversed(),
  );
  expect(events).toEqual((await all(ana, 'limit=200')).toReversed());
  expect(lines.at(-1)).toEqual({
    end: true,
    events: events.length,
    is_cut: false,
    next: null,
    head: (await page(ana)).head,
  });
  const [begun] = events;
  const rest = (await ana.get<string>(`/api/v1/events.ndjson?cursor=${begun?.position}`)).body
    .trimEnd()
    .split('\n');
  expect(rest).toHaveLength(lines.length - 1);
});

test('a rare event in a long log is found by bounded pages, and at once where projections help', async () => {
  await using own = await openWriter(relay.store);
  const busy = Array.from({ length: 400 }, () => accepted({ account: ben.me.account.id, key: 'BensKey1' }));
  await own.append(busy.flatMap((each) => [each, settled(each)]));
  const reads = new ReadStore(relay.store.config('relay'));
  const look = { positions: 50, steps: 3 };
  const look50 = async (cursor: number | null): Promise<EventPage> => {
    const query = EventsQuery.parse({ type: 'request.settled' });
    const read = await reads.read(EVENTS, (client, asOf) =>
      listEvents(client, { account: call.account, key: null }, query, cursor, asOf, look),
    );
    if (read instanceof ApiError) throw new Error(read.message);
    return read.found;
  };
  try {
    // The tables are behind: what is not in them may be anywhere.
    const seen: EventPage[] = [];
    for (let next: string | null = ''; next !== null; next = seen.at(-1)?.next ?? null)
      seen.push(await look50(next === '' ? null : Number(next)));
    expect(seen.length).toBeGreaterThan(5);
    for (const [index, { scanned_to, next }] of seen.entries()) {
      const from = index === 0 ? (seen[0]?.head ?? 0) : Number(seen[index - 1]?.next);
      expect(from - scanned_to).toBeLessThan(look.positions * look.steps);
      if (next !== null) expect(Number(next)).toBe(scanned_to - 1);
    }
    expect(seen.flatMap(({ data }) => data).map(({ fields }) => fields['request'])).toEqual([call.request]);
    await projectAll(relay.store);
    const known = await look50(null);
    expect(known.data.map(({ fields }) => fields['request'])).toEqual([call.request]);
    // A call that runs may be given more to spend anywhere: nothing is passed over until it has ended.
    const running = accepted({ account: call.account, key: call.key });
    await own.append([running]);
    await own.append(busy.map((each) => ({ ...each, request: uuidv7() })));
    await projectAll(relay.store);
    expect((await look50(null)).data).toEqual([]);
  } finally {
    await reads.close();
  }
});
