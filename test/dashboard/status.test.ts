import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AlertRow, DeliveryRow, CreatedDestination, DestinationRow } from '#server/contract/alerts.ts';
import type { Status } from '#server/contract/status.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { ask, type TestDatabase } from '../support/database.ts';
import { projectAll } from '../support/projections/projected.ts';
import { isSigned, startReceiver } from '../support/servers/alert-receiver.ts';
import { type TestRelay, until } from '../support/relay.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { spawnWorker } from '../support/servers/worker-process.ts';

/** How the service is, and its alerts with where they are sent. */

const SECRET = 'sk-canary-upstream-credential';

let relay: TestRelay;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;

beforeAll(async () => {
  ({ relay, administrator, auditor, ana } = await startPeopledRelay({
    upstreams: [
      {
        name: 'far',
        baseUrl: 'https://models.example.com/secret-path/v1',
        apiKey: SECRET,
        models: ['far-*'],
      },
    ],
  }));
});
afterAll(() => relay?.[Symbol.asyncDispose]());

type List<T> = { data: T[] };

test('the status shows processes, log, projections and upstreams, without credentials or paths', async () => {
  await projectAll(relay.store);
  const { status, body } = await auditor.get<Status>('/api/v1/status');
  expect(status).toBe(200);
  expect(body.instances.filter(({ kind, state }) => kind === 'server' && state === 'live')).toHaveLength(1);
  expect(body.instances.map(({ id }) => id)).toContain(body.server.instance);
  expect(body.projections.map(({ name, behind, state }) => [name, behind < 10, state])).toEqual(
    ['directory', 'history', 'quotas', 'requests', 'usage'].map((name) => [name, true, 'live']),
  );
  expect(body.log.position).toBe((await relay.readLog()).at(-1)?.position);
  expect(body).toMatchObject({
    server: { running: 0, viewers: 0, store: 'up', unapplied: [] },
    upstreams: [{ name: 'far', origin: 'https://models.example.com', models: ['far-*'] }, { name: 'demo' }],
  });
  expect(body.postgres).toMatch(/^1[5-9]\.\d/);
  expect(JSON.stringify(body)).not.toMatch(/canary|secret-path/);
});

test('the status is told when a projection is gone', async () => {
  const worker = await connectAs(relay.store, 'worker');
  try {
    await worker.query('alter table projection.account rename to account_gone');
    expect(await auditor.get('/api/v1/status')).toMatchObject({ status: 200 });
    expect(await auditor.get('/api/v1/accounts')).toMatchObject({ status: 503, code: 'store_unavailable' });
    await worker.query('alter table projection.account_gone rename to account');
  } finally {
    await worker.end();
  }
});

test('members see the alerts about their account, those who oversee all; the newest first', async () => {
  const worker = await connectAs(relay.store, 'worker');
  try {
    for (const [topic, kind, account] of [
      ['a', 'quota', ana.me.account.id],
      ['b', 'quota', 'Another1'],
      ['c', 'projector_behind', null],
    ]) {
      await worker.query("select daybook.raise_alert($1, 1, $2, 'raised', $3, '{\"percent\": 50}')", [
        topic,
        kind,
        account,
      ]);
    }
  } finally {
    await worker.end();
  }
  const kinds = async (client: SignedInClient) =>
    (await client.get<List<AlertRow>>('/api/v1/alerts')).body.data.map(({ kind, account }) => [
      kind,
      account,
    ]);
  expect(await kinds(ana)).toEqual([['quota', ana.me.account.id]]);
  expect(await kinds(auditor)).toEqual([
    ['projector_behind', null],
    ['quota', 'Another1'],
    ['quota', ana.me.account.id],
  ]);
  const [alert] = (await ana.get<List<AlertRow>>('/api/v1/alerts')).body.data;
  expect(alert).toMatchObject({
    state: 'raised',
    account_name: ana.me.account.name,
    details: { percent: 50 },
    deliveries: { delivered: 0, pending: 0, failed: 0 },
  });
});

test.each([
  ['another scheme', { address: 'ftp://example.com/' }],
  ['an address with a user', { address: 'https://me:canary@example.com/' }],
  ['no address', { address: 'example' }],
  ['alerts that are none', { address: 'https://example.com/', alerts: ['quotas'] }],
  ['no alerts', { address: 'https://example.com/', alerts: [] }],
])('a destination is not added with %s, and the refusal does not repeat it', async (_what, body) => {
  const reply = await administrator.post('/api/v1/destinations', {
    kind: 'webhook',
    alerts: ['quota'],
    ...body,
  });
  expect(reply).toMatchObject({ status: 400, code: 'invalid_value' });
  expect(JSON.stringify(reply.body)).not.toContain('canary');
});

test('a destination is for an account that is there, and a test needs a worker', async () => {
  expect(
    await administrator.post('/api/v1/destinations', {
      kind: 'webhook',
      address: 'https://example.com/',
      alerts: ['quota'],
      account: 'Unknown0',
    }),
  ).toMatchObject({ status: 404, code: 'not_found' });
  const { body } = await administrator.post<CreatedDestination>('/api/v1/destinations', {
    kind: 'webhook',
    address: 'https://example.com/x',
    alerts: ['quota'],
  });
  expect(await administrator.post(`/api/v1/destinations/${body.id}/test`)).toMatchObject({
    status: 409,
    code: 'not_allowed',
  });
  expect(await administrator.delete(`/api/v1/destinations/${body.id}`)).toMatchObject({ status: 200 });
  expect(await administrator.delete(`/api/v1/destinations/${body.id}`)).toMatchObject({
    status: 404,
    code: 'not_found',
  });
  expect(await administrator.post('/api/v1/destinations/Unknown0/test')).toMatchObject({
    status: 404,
    code: 'not_found',
  });
});

test('a webhook is added, tested, listed without URL and secret, removed with its deliveries', async () => {
  await using receiver = await startReceiver();
  const worker = spawnWorker({
    DATABASE_URL: (relay.store as TestDatabase).url,
    DAYBOOK_DATA: relay.dataDir,
    LOG_LEVEL: 'info',
  });
  try {
    await until(
      () => ask(relay.store.config('worker'), 'select count(*)::int from daybook.queue_pool'),
      (count) => count === 1,
      'the worker',
    );
    const { body: made } = await administrator.post<CreatedDestination>('/api/v1/destinations', {
      kind: 'webhook',
      address: receiver.url,
      alerts: ['quota', 'quota'],
      allow_private: true,
    });
    expect(made.secret).toMatch(/^whsec_/);
    const { body: tested } = await administrator.post<{ object: string; id: string }>(
      `/api/v1/destinations/${made.id}/test`,
    );
    const deliveries = async () =>
      (await auditor.get<List<DeliveryRow>>(`/api/v1/deliveries?destination=${made.id}`)).body.data;
    const [delivery] = await until(deliveries, ([newest]) => newest?.state === 'delivered', 'the delivery');
    expect(delivery).toMatchObject({
      id: tested.id,
      destination: made.id,
      alert_kind: 'test',
      attempts: [{ status: 204, error: null }],
    });
    expect(receiver.received.some((sent) => isSigned(sent, made.secret as string))).toBe(true);
    const { body: listed } = await auditor.get<List<DestinationRow>>('/api/v1/destinations');
    expect(listed.data).toMatchObject([
      {
        id: made.id,
        kind: 'webhook',
        label: new URL(receiver.url).origin,
        account: null,
        alerts: ['quota'],
        allow_private: true,
        failures: 0,
        disabled_at: null,
      },
    ]);
    expect(JSON.stringify(listed)).not.toMatch(/canary|whsec/);
    await administrator.delete(`/api/v1/destinations/${made.id}`);
    expect(await deliveries()).toEqual([]);
  } finally {
    await worker.stop();
  }
});
