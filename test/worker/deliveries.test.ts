import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { raiseAlerts } from '#db/alerts/alert-log.ts';
import { type Alert, ALERT_KINDS, type AlertKind } from '#db/alerts/alerts.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { sealTarget } from '#db/alerts/destinations.ts';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { ask, createDatabase, openSession, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { countLockWaiters } from '../support/lock-waiters.ts';
import { isSigned, type Receiver, startReceiver } from '../support/servers/alert-receiver.ts';
import { changeControl, until } from '../support/relay.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';

/** Destinations as an operator has them: the command line, a worker, and a receiver on a real socket. */

const WITHIN_MS = 30_000;

let database: TestDatabase;
let dataDir: string;
let worker: WorkerProcess;
let client: Client;
/** Waits look again and again: over a session of their own, since a connection takes 15 ms of CPU time. */
let owner: Client;
let receiver: Receiver;
let pepper: Buffer;
const env = () => ({ DATABASE_URL: database.url, DAYBOOK_DATA: dataDir, LOG_LEVEL: 'debug' });

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  worker = spawnWorker(env());
  client = await connectAs(database, 'worker');
  owner = await openSession(database.config('owner'));
  receiver = await startReceiver();
  pepper = await changeControl(database, dataDir, async (_control, made) => made);
  await untilAtWork();
});

const count = async (query: string): Promise<number | undefined> =>
  (await owner.query<[number]>({ text: query, rowMode: 'array' })).rows[0]?.[0];

/** Waits for a worker to take jobs. */
const untilAtWork = () =>
  until(
    () => count('select count(*)::int from daybook.queue_pool'),
    (workers) => workers === 1,
    'the worker',
    WITHIN_MS,
  );

afterAll(async () => {
  await worker?.stop();
  await closeClient(client);
  await owner?.end();
  await receiver[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

afterEach(async () => {
  await client.query('delete from daybook.alert_destination; delete from daybook.alert');
  // An attempt that is under way would arrive in the next test.
  const running =
    "select count(*)::int from graphile_worker.jobs where key like 'deliver-%' and locked_at is not null";
  await until(
    () => count(running),
    (attempts) => attempts === 0,
    'the attempts under way',
    WITHIN_MS,
  );
  receiver.reply = { status: 204 };
  receiver.received.length = 0;
});

const { daybook, json } = commandLine(env);

/** What `destination add` does, in this process. */
async function add(
  url: string = receiver.url,
  { alerts = [...ALERT_KINDS], allowPrivate = true }: { alerts?: AlertKind[]; allowPrivate?: boolean } = {},
) {
  const [id, secret] = [publicId(), createWebhookSecret()];
  await client.query(
    `insert into daybook.alert_destination (id, kind, label, sealed_target, alerts, allow_private)
      values ($1, 'webhook', $2, $3, $4, $5)`,
    [id, new URL(url).origin, sealTarget(pepper, id, { kind: 'webhook', url, secret }), alerts, allowPrivate],
  );
  return { id, secret };
}

const alert = (kind: AlertKind = 'quota', account: string | null = 'Account1'): Alert => ({
  topic: `test/${Math.random()}`,
  ordinal: 1,
  kind,
  state: 'raised',
  account,
  details: { percent: 80 },
});
const states = async () =>
  (
    await client.query<{ state: string; status: number | null; fault: string | null }>(
      `select d.state, t.status, t.fault
        from daybook.alert_delivery d left join daybook.alert_attempt t on t.delivery = d.id
        order by t.attempted_at`,
    )
  ).rows;
/**
 * Looks until it is as wanted, and lets none of so many attempts wait for its time meanwhile. One that is
 * due already is left alone: a worker may be taking it, and it would be made twice.
 */
const hurried = <T>(
  attempts: number,
  look: () => T | Promise<T>,
  condition: (seen: T) => boolean,
  what: string,
): Promise<T> =>
  until(
    async () => {
      await client.query(
        `select daybook.queue_attempt(d.id, d.destination, interval '0') from daybook.alert_delivery d
          where d.state = 'waiting'
            and (select count(*) from daybook.alert_attempt t where t.delivery = d.id) < $1
            and exists (select from graphile_worker.jobs j
              where j.key = 'deliver-' || d.id and j.locked_at is null and j.run_at > clock_timestamp())`,
        [attempts],
      );
      return look();
    },
    condition,
    what,
    WITHIN_MS,
  );
const queued = () => count("select count(*)::int from graphile_worker.jobs where key like 'deliver-%'");
/** What `destination test` does, in this process. */
async function tested(id: string): Promise<unknown> {
  await ask(database.config('relay'), `select daybook.test_destination('${id}')`);
  const [first] = await until(states, ([seen]) => seen !== undefined && seen.state !== 'waiting', 'the test');
  return [first?.state, first?.status ?? first?.fault];
}

describe('a delivery', () => {
  test("reaches the receiver once, signed with the webhook's secret, and describes the alert", async () => {
    const { secret } = await add();
    await raiseAlerts(client, [alert()]);
    await until(states, ([first]) => first?.state === 'delivered', 'the delivery');
    const [sent, ...more] = receiver.received;
    expect(more).toEqual([]);
    expect(sent && isSigned(sent, secret)).toBe(true);
    expect(Math.abs(Number(sent?.headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(60);
    expect(JSON.parse(sent?.body ?? '')).toMatchObject({
      type: 'quota.raised',
      data: { account: 'Account1', percent: 80 },
    });
  });

  test("goes only to destinations subscribed to the alert's kind and account", async () => {
    await client.query(
      `insert into daybook.alert_destination (id, kind, label, sealed_target, account, alerts, allow_private)
        values ('Another1', 'webhook', 'x', '', 'Account2', '{quota}', true)`,
    );
    const { id } = await add(receiver.url, { alerts: ['quota'] });
    await raiseAlerts(client, [alert('quota'), alert('key_expiring'), alert('upstream_failing', null)]);
    const { rows } = await client.query<{ destination: string; kind: string }>(
      'select d.destination, a.kind from daybook.alert_delivery d join daybook.alert a on a.id = d.alert',
    );
    expect(rows).toEqual([{ destination: id, kind: 'quota' }]);
  });

  test('is retried under the same id until accepted; response bodies are not stored', async () => {
    receiver.reply = { status: 500 };
    await add();
    await raiseAlerts(client, [alert()]);
    await until(states, (rows) => rows.length === 1, 'the first attempt');
    const later = `select count(*)::int from graphile_worker.jobs
        where key like 'deliver-%' and run_at > now() and locked_at is null`;
    await until(
      () => count(later),
      (jobs) => jobs === 1,
      'the next attempt',
    );
    receiver.reply = { status: 302, headers: { location: `${receiver.url}/elsewhere` } };
    await hurried(2, states, (rows) => rows.length === 2, 'the second attempt');
    receiver.reply = { status: 200 };
    await hurried(3, states, (rows) => rows.at(-1)?.state === 'delivered', 'the delivery');
    expect((await states()).map(({ status }) => status)).toEqual([500, 302, 200]);
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(receiver.received).toHaveLength(3);
  });

  test('fails for the last time after ten attempts over a day', async () => {
    receiver.reply = { status: 500 };
    await add();
    await raiseAlerts(client, [alert()]);
    await hurried(10, states, (rows) => rows[0]?.state === 'failed', 'the end');
    expect(await states()).toHaveLength(10);
    await until(queued, (jobs) => jobs === 0, 'the queue');
  });

  test.each([
    ['a private address without leave', 'http://127.0.0.1:1/', false, 'address_refused'],
    ['a name that leads to one', 'http://localhost:1/', false, 'address_refused'],
    ['a metadata service even with leave', 'http://169.254.169.254/latest/', true, 'address_refused'],
    ['nobody', 'http://127.0.0.1:1/', true, 'ECONNREFUSED'],
  ])('to %s fails and says so', async (_name, url, allowPrivate, fault) => {
    const { id } = await add(url, { allowPrivate });
    expect(await tested(id)).toEqual(['failed', fault]);
  });
});

describe('a destination', () => {
  test('that has failed for a day is disabled and logged; a successful test enables it', async () => {
    const { id } = await add();
    receiver.reply = { status: 503 };
    await client.query(
      "update daybook.alert_destination set failures = 9, failing_since = now() - interval '25 hours'",
    );
    await raiseAlerts(client, [alert()]);
    await until(states, ([first]) => first?.state === 'failed', 'the end');
    await until(
      () => worker.output(),
      (output) => output.includes(`"destination":"${id}"`),
      'the log line',
    );
    await client.query('delete from daybook.alert');
    await raiseAlerts(client, [alert()]);
    expect(await states()).toEqual([]);
    receiver.reply = { status: 204 };
    expect(await tested(id)).toEqual(['delivered', 204]);
    expect(
      (await client.query('select failures, failing_since, switched_off_at from daybook.alert_destination'))
        .rows,
    ).toEqual([{ failures: 0, failing_since: null, switched_off_at: null }]);
  });

  test('that returns 410 Gone is disabled at once', async () => {
    await add();
    receiver.reply = { status: 410 };
    await raiseAlerts(client, [alert()]);
    await until(states, ([first]) => first?.state === 'failed', 'the end');
    expect(
      await ask(
        database.config('relay'),
        'select switched_off_at is not null from daybook.alert_destination',
      ),
    ).toBe(true);
  });

  test('that is removed cancels its queued deliveries', async () => {
    receiver.reply = { status: 500 };
    const { id } = await add();
    await raiseAlerts(client, [alert()]);
    await until(states, (rows) => rows.length === 1, 'the first attempt');
    await until(queued, (jobs) => jobs === 1, 'the next attempt');
    await ask(database.config('relay'), `delete from daybook.alert_destination where id = '${id}'`);
    await client.query("update graphile_worker._private_jobs set run_at = now() where key like 'deliver-%'");
    await until(queued, (jobs) => jobs === 0, 'the queue');
    expect(receiver.received).toHaveLength(1);
  });

  test('can be removed while the result of an attempt is recorded, without a deadlock', async () => {
    const { id } = await add();
    await client.query('begin');
    try {
      // The row that a removal takes first, long enough for the worker to come to it.
      await client.query(`select from daybook.alert_destination where id = '${id}' for no key update`);
      await ask(
        database.config('owner'),
        `select daybook.raise_alert('test/removed', 1, 'quota', 'raised', 'Account1', '{}')`,
      );
      await until(
        () => countLockWaiters(client),
        (jobs) => jobs === 1,
        'the worker at the destination',
        WITHIN_MS,
      );
      // What the removal takes next is not in the hands of who waits for it.
      await client.query('select from daybook.alert_delivery for update nowait');
      await client.query(`delete from daybook.alert_destination where id = '${id}'`);
    } finally {
      await client.query('commit');
    }
    await until(queued, (jobs) => jobs === 0, 'the queue', WITHIN_MS);
    expect(receiver.received).toHaveLength(1);
    expect(await states()).toEqual([]);
  });

  test('exposes neither its URL nor its secret in the database, logs, lists or to a server', async () => {
    const { secret } = await add();
    receiver.reply = { status: 500 };
    await raiseAlerts(client, [alert()]);
    await until(states, (rows) => rows.length === 1, 'an attempt');
    const { rows } = await client.query<{ text: string }>(
      `select concat(
          (select string_agg(w::text, '') from daybook.alert_destination w),
          (select string_agg(d::text, '') from daybook.alert_delivery d),
          (select string_agg(t::text, '') from daybook.alert_attempt t),
          (select string_agg(j::text, '') from graphile_worker._private_jobs j),
          (select string_agg(l::text, '') from daybook.log l),
          encode((select sealed_target from daybook.alert_destination limit 1), 'escape')) as text`,
    );
    const bare = secret.replace('whsec_', '');
    for (const text of [rows[0]?.text, worker.output(), (await daybook('destination', 'list')).stdout]) {
      expect(text).not.toMatch(/canary-path|what a receiver says/);
      expect(text).not.toContain(bare);
    }
    await expect(
      ask(database.config('relay'), 'select sealed_target from daybook.alert_destination'),
    ).rejects.toThrow(/permission denied/);
    await expect(ask(database.config('auditor'), 'select id from daybook.alert_destination')).rejects.toThrow(
      /permission denied/,
    );
  });
});

describe('the command line', () => {
  test('adds, lists, tests and removes a destination, and shows its deliveries', async () => {
    const { id, secret, label } = await json<{ id: string; secret: string; label: string }>(
      'destination',
      'add',
      'webhook',
      receiver.url,
      '--allow-private',
      '--alerts',
      'quota,key_expiring',
    );
    expect(label).toBe(new URL(receiver.url).origin);
    expect(await json('destination', 'test', id)).toMatchObject({ state: 'delivered', reply: '204' });
    expect(receiver.received.map((sent) => isSigned(sent, secret))).toEqual([true]);
    expect(await json('destination', 'list')).toMatchObject([
      { id, kind: 'webhook', label, account: null, alerts: ['quota', 'key_expiring'], switched_off_at: null },
    ]);
    expect(await json('destination', 'deliveries', id)).toMatchObject([
      { destination: id, alert: 'test.raised', state: 'delivered', attempts: 1, reply: '204' },
    ]);
    expect(await json('destination', 'remove', id)).toEqual({ id });
  });

  test('rejects invalid input in one line, and repeats no secret', async () => {
    const refused = await Promise.all([
      daybook('destination', 'add', 'webhook', 'ftp://example.com/'),
      daybook('destination', 'add', 'webhook', 'https://user:canary@example.com/'),
      daybook('destination', 'add', 'webhook', 'https://example.com/', '--alerts', 'quota,everything'),
      daybook('destination', 'test', 'Unknown1'),
    ]);
    expect(
      refused.map(({ code, stderr }) => [code, stderr.replace(/(such as|is not one of) .*/, '$1')]),
    ).toEqual([
      [1, 'daybook: The address must be one such as\n'],
      [1, 'daybook: The address must have no user and no password.\n'],
      [1, 'daybook: --alerts: "everything" is not one of\n'],
      [3, 'daybook: There is no destination Unknown1.\n'],
    ]);
  });
});

test('a stopping worker aborts an unanswered delivery, and the next worker retries it', async () => {
  receiver.reply = { status: null };
  await add();
  await raiseAlerts(client, [alert()]);
  await until(
    () => receiver.received.length,
    (jobs) => jobs === 1,
    'the attempt',
  );
  expect(await worker.stop()).toBe(0);
  expect(await states()).toEqual([{ state: 'waiting', status: null, fault: null }]);
  receiver.reply = { status: 204 };
  worker = spawnWorker(env());
  await until(states, ([first]) => first?.state === 'delivered', 'the delivery', WITHIN_MS);
  expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
});

test('a destination with a filter receives only the alerts that match', async () => {
  const ids: Record<string, string> = {};
  for (const [name, filter] of Object.entries({
    all: {},
    upstream: { upstream: 'one' },
    model: { upstream: 'one', model: 'tide' },
    user: { end_user: 'User000000000001' },
  })) {
    ids[name] = (await add()).id;
    await client.query('update daybook.alert_destination set filter = $2 where id = $1', [ids[name], filter]);
  }
  const about = (topic: string, details: Alert['details']): Alert => ({ ...alert(), topic, details });
  await raiseAlerts(client, [
    about('a', { upstream: 'one', model: 'tide' }),
    about('b', { upstream: 'one' }),
    about('c', { end_user: 'User000000000001' }),
  ]);
  const { rows } = await client.query<{ destination: string; topics: string }>(
    `select d.destination, string_agg(a.topic, '' order by a.topic) as topics
      from daybook.alert_delivery d join daybook.alert a on a.id = d.alert group by d.destination`,
  );
  const topics = new Map(rows.map((row) => [row.destination, row.topics]));
  expect(Object.entries(ids).map(([name, id]) => [name, topics.get(id)])).toEqual([
    ['all', 'abc'],
    ['upstream', 'ab'],
    ['model', 'a'],
    ['user', 'c'],
  ]);
});

test('a worker without the pepper reports it, and delivers once it has one', async () => {
  await add();
  await worker.stop();
  const elsewhere = await makeTestDirectory();
  const blind = spawnWorker({ ...env(), DAYBOOK_DATA: elsewhere });
  await raiseAlerts(client, [alert()]);
  await until(
    () => blind.output(),
    (text) => text.includes('DAYBOOK_PEPPER_FILE is needed'),
    'the line',
    WITHIN_MS,
  );
  expect(await blind.stop()).toBe(0);
  expect(receiver.received).toEqual([]);
  worker = spawnWorker(env());
  await hurried(
    1,
    () => receiver.received.length,
    (jobs) => jobs === 1,
    'what waited',
  );
  await removeTestDirectory(elsewhere);
});
