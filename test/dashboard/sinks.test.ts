import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ConfiguredSink, SinkRow } from '#server/contract/sinks.ts';
import type { Status } from '#server/contract/status.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { ask, type TestDatabase } from '../support/database.ts';
import { type TestRelay, until } from '../support/relay.ts';
import { isSigned, startReceiver } from '../support/servers/alert-receiver.ts';
import { spawnWorker } from '../support/servers/worker-process.ts';

/** Sinks by the dashboard's API: administrators manage them, auditors see them. */

const URL_OF_SINK = 'https://billing.example.com/canary-path';
const KAFKA = { kind: 'kafka', brokers: ['kafka-1:9093'], topic: 'spend', tls: true, allow_private: false };
const SASL = { mechanism: 'plain', username: 'daybook', password: 'canary' };

let relay: TestRelay;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;

beforeAll(async () => {
  ({ relay, administrator, auditor, ana } = await startPeopledRelay());
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const webhook = (url = URL_OF_SINK, allow_private = false) => ({ kind: 'webhook', url, allow_private });
const list = async (client = auditor): Promise<SinkRow[]> =>
  (await client.get<{ data: SinkRow[] }>('/api/v1/sinks')).body.data;
const named = async (name: string): Promise<SinkRow | undefined> =>
  (await list()).find((sink) => sink.name === name);

test('a sink is added, paused, resumed, moved, configured again and removed, each by an event', async () => {
  const { status, body: added } = await administrator.post<ConfiguredSink>('/api/v1/sinks', {
    name: 'billing',
    config: webhook(),
    account: ana.me.account.id,
  });
  expect(status).toBe(200);
  expect(added).toMatchObject({ object: 'sink', event: { type: 'sink.configured' } });
  expect(added.secret).toMatch(/^whsec_/);
  expect(await named('billing')).toMatchObject({
    ...{ id: added.id, kind: 'webhook', state: 'active', account: ana.me.account.id },
    ...{ delivered: 0, delivered_at: null, failures: 0, error: null, next_attempt_at: null, test: null },
  });

  const event = async (reply: Promise<{ body: unknown }>) =>
    (await reply).body as { event: { type: string } | null };
  const patch = (body: object) => event(administrator.patch('/api/v1/sinks/billing', body));
  expect(await patch({ paused: true })).toMatchObject({ event: { type: 'sink.paused' } });
  expect(await patch({ paused: true })).toMatchObject({ event: null });
  expect(await named('billing')).toMatchObject({ state: 'paused', restored: false });
  expect(await patch({ position: 0 })).toMatchObject({ event: { type: 'sink.rewound' } });
  expect((await named('billing'))?.behind_ms).toBeGreaterThan(0);
  expect(await patch({ paused: false })).toMatchObject({ event: { type: 'sink.resumed' } });
  const { body: again } = await administrator.put<ConfiguredSink>('/api/v1/sinks/billing/config', {
    config: webhook('https://other.example.com/'),
  });
  expect(again).toMatchObject({ id: added.id, position: 0, event: { type: 'sink.configured' } });
  expect(again.secret).not.toBe(added.secret);
  const removed = event(administrator.delete('/api/v1/sinks/billing'));
  expect(await removed).toMatchObject({ event: { type: 'sink.removed' } });
  expect(await list()).toEqual([]);
});

test.each([
  ['a name that exists', { name: 'taken', config: webhook() }, 409, 'already_exists'],
  ['an upper-case name', { name: 'Billing', config: webhook() }, 400, 'invalid_value'],
  ['an address with a user', { name: 'a', config: webhook('https://a:canary@x.com') }, 400, 'invalid_value'],
  ['another scheme', { name: 'a', config: webhook('ftp://example.com/canary') }, 400, 'invalid_value'],
  ['a secret of its own', { name: 'a', config: { ...webhook(), secret: 'canary' } }, 400, 'invalid_value'],
  ['a broker without a port', { name: 'a', config: { ...KAFKA, brokers: ['k'] } }, 400, 'invalid_value'],
  ['a clear password', { name: 'a', config: { ...KAFKA, tls: false, sasl: SASL } }, 400, 'invalid_value'],
  ['an unknown account', { name: 'a', config: webhook(), account: 'Unknown0' }, 404, 'not_found'],
  ['a position to come', { name: 'a', config: webhook(), after: 10 ** 9 }, 400, 'invalid_value'],
])('a sink is not added with %s, and the refusal repeats no secret', async (_, body, status, code) => {
  await administrator.post('/api/v1/sinks', { name: 'taken', config: KAFKA });
  const reply = await administrator.post('/api/v1/sinks', body);
  expect(reply).toMatchObject({ status, code });
  expect(JSON.stringify(reply.body)).not.toContain('canary');
  expect((await list()).map(({ name }) => name)).toEqual(['taken']);
});

test('the kind of a sink stays, and an unknown sink is not found', async () => {
  await administrator.post('/api/v1/sinks', { name: 'kept', config: KAFKA });
  expect(await administrator.put('/api/v1/sinks/kept/config', { config: webhook() })).toMatchObject({
    status: 409,
    code: 'already_exists',
  });
  for (const change of [
    () => administrator.put('/api/v1/sinks/unknown/config', { config: webhook() }),
    () => administrator.patch('/api/v1/sinks/unknown', { paused: true }),
    () => administrator.delete('/api/v1/sinks/UNKNOWN'),
    () => administrator.post('/api/v1/sinks/unknown/test'),
  ])
    expect(await change()).toMatchObject({ status: 404, code: 'not_found' });
  await administrator.delete('/api/v1/sinks/kept');
});

test('members see no sinks, and auditors change none', async () => {
  expect(await ana.get('/api/v1/sinks')).toMatchObject({ status: 403 });
  for (const change of [
    () => auditor.post('/api/v1/sinks', { name: 'a', config: webhook() }),
    () => auditor.patch('/api/v1/sinks/taken', { paused: true }),
    () => auditor.delete('/api/v1/sinks/taken'),
    () => auditor.post('/api/v1/sinks/taken/test'),
  ])
    expect(await change()).toMatchObject({ status: 403, code: 'insufficient_role' });
});

test('a paused sink is tested by a worker, and no event is delivered', async () => {
  await using receiver = await startReceiver();
  const { body: added } = await administrator.post<ConfiguredSink>('/api/v1/sinks', {
    name: 'tested',
    config: webhook(receiver.url, true),
    after: 0,
  });
  await administrator.patch('/api/v1/sinks/tested', { paused: true });
  await administrator.post('/api/v1/sinks/tested/test');
  expect((await named('tested'))?.test).toMatchObject({ state: 'pending' });
  const worker = spawnWorker({
    DATABASE_URL: (relay.store as TestDatabase).url,
    DAYBOOK_DATA: relay.dataDir,
    LOG_LEVEL: 'info',
  });
  try {
    const untilTested = (state: string) =>
      until(
        () => named('tested'),
        (sink) => sink?.test?.state === state,
        'the test',
      );
    expect((await untilTested('accepted'))?.test).toMatchObject({ error: null });
    expect(receiver.received).toHaveLength(1);
    const [received] = receiver.received as [(typeof receiver.received)[number]];
    expect(isSigned(received, added.secret as string)).toBe(true);
    expect(JSON.parse(received.body)).toMatchObject({ type: 'spend_events.test', data: [] });

    receiver.reply = { status: 503 };
    await administrator.post('/api/v1/sinks/tested/test');
    expect((await untilTested('failed'))?.test).toMatchObject({ error: 'http_503' });
    expect(await named('tested')).toMatchObject({ state: 'paused', failures: 0, delivered: 0 });
  } finally {
    await worker.stop();
  }
});

test('the status has each sink with its lag, last error and next attempt, and no address', async () => {
  await ask(
    relay.store.config('owner'),
    `update daybook.sink set paused_at = null, position = 0, failures = 3, failing_since = clock_timestamp(),
      fault = 'http_503', retry_at = clock_timestamp() + interval '4 minutes' where name = 'tested'
      returning id`,
  );
  const { body } = await auditor.get<Status>('/api/v1/status');
  expect(body.sinks.find(({ name }) => name === 'tested')).toMatchObject({
    ...{ state: 'failing', position: 0, behind: body.log.position, failures: 3, error: 'http_503' },
    next_attempt_at: expect.any(String),
  });
  expect(JSON.stringify(body)).not.toContain('canary');
  expect(JSON.stringify(await list(administrator))).not.toMatch(/canary|whsec|127\.0\.0\.1/);
});
