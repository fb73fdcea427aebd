import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { chat } from '../support/client.ts';
import { ask } from '../support/database.ts';
import { type LiveViewer, lookOn } from '../support/live.ts';
import { hasHadItsTurn, startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** What a viewer of the live feed is shown, over real sockets. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type CallOptions = { key?: string; stream?: boolean; user?: string };
const call = (model: string, { key = relay.key, stream = true, user = randomUUID() }: CallOptions = {}) =>
  chat({ port: relay.port, key, body: { model, stream, messages: [], user } });
const look = (query = '', key = relay.key): Promise<LiveViewer> => lookOn({ port: relay.port, key, query });
const eventsOf = (events: readonly Placed[], request: string) =>
  events.filter(({ event }) => 'request' in event && event.request === request);

test('a running call is shown with progress at most four times a second, then as settled', async () => {
  await using viewer = await look();
  const startedMs = performance.now();
  const running = call('s:tokens=120,every=10ms');
  await viewer.sees(({ frames }) => frames('progress').length >= 2);
  expect(viewer.frames('started')).toHaveLength(1);
  expect(viewer.frames('settled')).toEqual([]);
  const reply = await running;
  const tookMs = performance.now() - startedMs;
  await viewer.sees(({ frames }) => frames('settled').length === 1);

  const [started] = viewer.frames('started');
  const [settled] = viewer.frames('settled');
  const request = reply.requestId ?? '';
  const [begun, ended] = eventsOf(await relay.readLog(), request);
  if (begun?.event.type !== 'request.accepted' || ended?.event.type !== 'request.settled')
    throw new Error('the log has another story');
  expect(started).toEqual({
    ...begun.event,
    type: 'started',
    position: begun.position,
    at: begun.at.toISOString(),
  });
  expect(settled).toEqual({
    ...ended.event,
    type: 'settled',
    outcome: 'completed',
    position: ended.position,
    at: ended.at.toISOString(),
  });

  const told = viewer
    .frames('progress')
    .filter((frame) => frame.request === request)
    .map(({ output_tokens }) => output_tokens);
  expect(told).toEqual([...new Set(told)].toSorted((left, right) => left - right));
  expect(told.at(-1)).toBeLessThanOrEqual(120);
  expect(told.length).toBeLessThanOrEqual(Math.ceil(tookMs / 250));
});

test("a key sees its own calls or its account's, and never another account's", async () => {
  const { id: other } = await relay.createAccount('other');
  const stranger = await relay.createKey({ account: 'other' });
  const second = await relay.createKey();
  const reader = await relay.createKey();
  await relay.control((control) =>
    control.restrictKey(reader.id, {
      set: { reads: 'account' },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  await using own = await look();
  await using seconds = await look('', second.secret);
  await using accounts = await look('', reader.secret);
  await using strangers = await look('', stranger.secret);
  const ids = new Map<string, string | null>();
  for (const key of [relay.key, second.secret, stranger.secret])
    ids.set(key, (await call('ok', { key })).requestId);
  const end =
    (await relay.waitFor((events) => eventsOf(events, ids.get(stranger.secret) ?? '').length === 2)).at(-1)
      ?.position ?? 0;
  await strangers.sees(({ position }) => position >= end);
  await relay.createKey();
  await accounts.sees(({ frames }) => frames('notice').length > 0);

  const settledBy = (viewer: LiveViewer): (string | null)[] =>
    viewer.frames('settled').map(({ request }) => request);
  expect(settledBy(own)).toEqual([ids.get(relay.key)]);
  expect(settledBy(seconds)).toEqual([ids.get(second.secret)]);
  expect(settledBy(accounts)).toEqual([ids.get(relay.key), ids.get(second.secret)]);
  expect(settledBy(strangers)).toEqual([ids.get(stranger.secret)]);
  expect(
    strangers.messages
      .flatMap(({ frames }) => frames)
      .filter((frame) => 'account' in frame && frame.account !== other),
  ).toEqual([]);
  expect(own.frames('hello')).toMatchObject([{ key: expect.any(String) }]);
  expect(accounts.frames('hello')).toMatchObject([{ key: null }]);
});

test('equal rejections within a second are one frame with their count', async () => {
  const { id, secret } = await relay.createKey();
  await relay.control((control) =>
    control.restrictKey(id, {
      set: { models: ['ok'] },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  await using viewer = await look('', secret);
  const replies = await Promise.all(
    Array.from({ length: 5 }, () => call('s:tokens=1', { key: secret, user: 'same' })),
  );
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 403));
  await viewer.sees(
    ({ frames }) => frames('refused').reduce((sum, { rejected_count }) => sum + rejected_count, 0) === 5,
  );
  expect(viewer.frames('refused').length).toBeLessThanOrEqual(2);
  expect(viewer.frames('refused')[0]).toMatchObject({
    key: id,
    error_code: 'model_not_permitted',
    status: 403,
    route: '/v1/chat/completions',
    model: 's:tokens=1',
  });
  expect(viewer.frames('started')).toEqual([]);
});

test('what endings add to usage comes with them, key by key and model by model', async () => {
  const { id, secret } = await relay.createKey();
  await using viewer = await look('', secret);
  for (const model of ['s:tokens=5', 's:tokens=7', 's:tokens=9,end=cut@3'])
    await call(model, { key: secret });
  await viewer.sees(({ frames }) => frames('settled').length === 3);
  const rows = viewer.frames('usage').flatMap((frame) => frame.rows);
  const settled = viewer.frames('settled');
  const sum = (numbers: (number | undefined)[]): number =>
    numbers.reduce<number>((total, each) => total + (each ?? 0), 0);
  expect(sum(rows.map((row) => row.output_tokens))).toBe(sum(settled.map((frame) => frame.output_tokens)));
  expect(sum(rows.map((row) => row.input_tokens))).toBe(sum(settled.map((frame) => frame.input_tokens)));
  expect([sum(rows.map((row) => row.completed)), sum(rows.map((row) => row.upstream_failed))]).toEqual([
    2, 1,
  ]);
  expect(new Set(rows.map((row) => `${row.key} ${row.model}`))).toEqual(
    new Set(settled.map(({ model }) => `${id} ${model}`)),
  );
});

test('a filter drops other calls, and a filter for running calls includes their end', async () => {
  const { secret } = await relay.createKey();
  await using ofModel = await look('model=ok', secret);
  await using failed = await look('outcome=upstream_failed', secret);
  await using running = await look('outcome=running', secret);
  await using status = await look('status=200', secret);
  for (const model of ['ok', 's:end=cut@head']) await call(model, { key: secret });
  await Promise.all([
    running.sees(({ frames }) => frames('settled').length === 2),
    ...[ofModel, failed, status].map((viewer) => viewer.sees(({ frames }) => frames('settled').length === 1)),
  ]);
  await hasHadItsTurn(relay.port);
  const seen = (viewer: LiveViewer) =>
    (['started', 'settled'] as const).map((type) => viewer.frames(type).map(({ model }) => model));
  expect(seen(ofModel)).toEqual([['ok'], ['ok']]);
  expect(seen(failed)).toEqual([[], ['s:end=cut@head']]);
  expect(seen(running)).toEqual([
    ['ok', 's:end=cut@head'],
    ['ok', 's:end=cut@head'],
  ]);
  expect(seen(status)).toEqual([[], ['ok']]);
  expect(running.frames('usage')).toEqual([]);
  expect(status.frames('usage').flatMap(({ rows }) => rows)).toMatchObject([{ model: 'ok', completed: 1 }]);
});

test('changes of an account, its plan and keys are notices by kind, without digests', async () => {
  const { id: account } = await relay.createAccount('noticed');
  const reader = await relay.createKey({ account: 'noticed' });
  const other = await relay.createKey({ account: 'noticed' });
  await relay.control((control) =>
    control.restrictKey(reader.id, {
      set: { reads: 'account' },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  await using viewer = await look('', reader.secret);
  await using narrow = await look('', other.secret);
  await relay.control(async (control) => {
    await control.definePlan('noticed', {}, 'keep');
    await control.definePlan('elsewhere', {}, 'keep');
    await control.setPlan('noticed', 'noticed', 'keep');
  });
  await relay.control(async (control, pepper) => {
    await control.definePlan('noticed', { concurrent_requests: 5 }, 'keep');
    await control.definePlan('elsewhere', { concurrent_requests: 5 }, 'keep');
    await control.rotateKey(pepper, reader.id, 60_000);
  });
  // The definition is noticed, too, where the feed reads it together with the account's change to that plan.
  const changes = (of = viewer) => of.frames('notice').filter(({ kind }) => kind !== 'plan.defined');
  await viewer.sees(() => changes().length >= 3);
  expect(changes().map(({ kind, account: of, key, plan }) => ({ kind, of, key, plan }))).toEqual([
    { kind: 'account.plan_changed', of: account, key: undefined, plan: 'noticed' },
    { kind: 'plan.changed', of: undefined, key: undefined, plan: 'noticed' },
    { kind: 'key.rotated', of: account, key: reader.id, plan: undefined },
  ]);
  await narrow.sees(() => changes(narrow).length === 2);
  const said = JSON.stringify([viewer.messages, narrow.messages]);
  const digests = (await relay.readLog()).flatMap(({ event }) => ('digest' in event ? [event.digest] : []));
  expect(digests.filter((digest) => said.includes(digest))).toEqual([]);
});

test('a projected quota change is sent to the viewers that it limits', async () => {
  const { id, secret } = await relay.createKey();
  const { secret: sibling } = await relay.createKey();
  await using viewer = await look('', secret);
  await using other = await look('', sibling);
  const projector = relay.store.config('worker');
  const row = { position: viewer.position + 1, used: 7, held: 3 };
  await ask(
    projector,
    `with owner as (select account from daybook.events() where key = '${id}' limit 1)
     insert into projection.quota_window
       (cap, used, held, reset_position, position, window_start,
        meter, window_kind, per, enforcement, subject, holder, account)
     select 10, ${row.used}, ${row.held}, 0, ${row.position}, 29_000_000,
       2, 3, 0, 0, subject, subject, account
     from owner, unnest(array['key/${id}', 'account/' || account]) subject`,
  );
  await ask(projector, "select pg_notify('daybook_projected', '1')");
  await viewer.sees(({ frames }) => frames('quota').length === 2);
  expect(viewer.frames('quota')).toContainEqual({
    type: 'quota',
    position: row.position,
    subject: `key/${id}`,
    account: expect.any(String),
    meter: 'tokens',
    window: 'day',
    window_start: 29_000_000,
    cap: 10,
    used: 7,
    reserved: 3,
    reset_position: 0,
    enforcement: 'soft',
  });
  await other.sees(({ frames }) => frames('quota').length === 1);
  expect(other.frames('quota')[0]?.subject).toMatch(/^account\//);
});
