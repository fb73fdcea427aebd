import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raiseAlerts } from '#db/alerts/alert-log.ts';
import type { Alert } from '#db/alerts/alerts.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { chat } from '../support/client.ts';
import { changeControl, until, upstreamsVariable } from '../support/relay.ts';
import { isSigned, type Receiver, startReceiver } from '../support/servers/alert-receiver.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { type MailServer, startMailServer } from '../support/servers/mail-server.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';

/** Slack, Microsoft Teams and email: the command line, a worker, and receivers on real sockets. */

const WITHIN_MS = 30_000;

let database: TestDatabase;
let dataDir: string;
let client: Client;
let slack: Receiver;
let teams: Receiver;
let mail: MailServer;
let worker: WorkerProcess;

const env = () => ({
  DATABASE_URL: database.url,
  DAYBOOK_DATA: dataDir,
  LOG_LEVEL: 'debug',
  PUBLIC_URL: 'https://daybook.example.com',
  SMTP_URL: mail.url,
  SMTP_FROM: 'daybook@example.com',
});
const { daybook, json } = commandLine(env);

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  client = await connectAs(database, 'worker');
  [slack, teams, mail] = [await startReceiver(), await startReceiver(), await startMailServer()];
  await changeControl(database, dataDir, async () => undefined);
  worker = spawnWorker(env());
  await until(
    async () => (await client.query('select from daybook.queue_pool')).rowCount,
    (workers) => workers === 1,
    'the worker',
    WITHIN_MS,
  );
});

afterAll(async () => {
  await worker?.stop();
  await closeClient(client);
  for (const each of [slack, teams, mail]) await each?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

const ALERT: Alert = {
  topic: 'key_expiring/Key00001',
  ordinal: 1,
  kind: 'key_expiring',
  state: 'raised',
  account: 'Account1',
  details: { account_name: 'Acme', key: 'Key00001', key_name: 'laptop', days: 7 },
};
const LINE = 'Key “laptop” expires in 7 days.';

const add = (kind: string, address: string) =>
  json<{ id: string; secret: string | null; label: string }>(
    'destination',
    'add',
    kind,
    address,
    '--allow-private',
  );
const delivered = async (): Promise<number> =>
  (await client.query("select from daybook.alert_delivery where state = 'delivered'")).rowCount ?? 0;
const countAttempts = async (destination: string | undefined): Promise<number> =>
  (
    await client.query(
      `select from daybook.alert_attempt t join daybook.alert_delivery d on d.id = t.delivery
        where d.destination = $1`,
      [destination],
    )
  ).rowCount ?? 0;

test('an alert reaches Slack, Microsoft Teams and an inbox, once each through a restart', async () => {
  const made = [
    await add('slack', slack.url),
    await add('teams', teams.url),
    await add('email', 'Ops@b.example'),
  ];
  expect(made.map(({ secret, label }) => [secret, label])).toEqual([
    [null, new URL(slack.url).origin],
    [null, new URL(teams.url).origin],
    [null, 'ops@b.example'],
  ]);
  // Teams doesn't respond before the worker ends, so that the next one repeats the attempt.
  teams.reply = { status: null };
  await raiseAlerts(client, [ALERT]);
  await until(
    async () => [await delivered(), teams.received.length],
    ([done, posted]) => done === 2 && posted === 1,
    'two deliveries and an attempt',
    WITHIN_MS,
  );
  expect(await worker.stop()).toBe(0);
  teams.reply = { status: 202 };
  worker = spawnWorker(env());
  await until(delivered, (done) => done === 3, 'the third delivery', WITHIN_MS);
  await raiseAlerts(client, [ALERT]);

  expect(slack.received.map(({ body }) => body)).toEqual([expect.stringContaining('"plain_text"')]);
  expect(slack.received[0]?.body).toContain(LINE);
  expect(new Set(teams.received.map(({ body }) => body)).size).toBe(1);
  // An attempt that the end of the worker aborts is not counted, and is the only one without a result.
  const counted = await countAttempts(made[1]?.id);
  expect([counted, counted + 1]).toContain(teams.received.length);
  expect(teams.received.length).toBeGreaterThan(1);
  expect(teams.received.at(-1)?.body).toContain('"AdaptiveCard"');
  expect(mail.mails.map(({ to }) => to)).toEqual(['ops@b.example']);
  expect(mail.mails[0]?.text).toContain('Subject: [Daybook] Key expires soon: Acme');
  const text = mail.mails[0]?.text.replaceAll('=\n', '').replaceAll('=3D', '=');
  expect(text).toContain('https://daybook.example.com/keys?account=Account1');
  for (const { headers } of [...slack.received, ...teams.received])
    expect(headers['webhook-signature']).toBeUndefined();
});

test('a call over its budget is reported by signed webhook, Slack, Microsoft Teams and email', async () => {
  await using upstream = await startUpstream();
  await using webhook = await startReceiver();
  const { secret } = await add('webhook', webhook.url);
  const key = await changeControl(database, dataDir, async (control, pepper) => {
    const quota = { meter: 'tokens', window: 'month', limit: 1_000, enforcement: 'soft' } as const;
    await control.definePlan('budget', { quotas: [quota] }, 'keep');
    await control.createAccount('Initech', 'budget');
    return control.createKey(pepper, { account: 'Initech', name: 'key', expiresAt: null });
  });
  const { DATABASE_URL, DAYBOOK_DATA } = env();
  const server = await spawnServer({
    ...{ DATABASE_URL, DAYBOOK_DATA, DAYBOOK_WORKER: 'off', LOG_LEVEL: 'silent' },
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
  });
  try {
    const body = { model: 's:tokens=1200', messages: [{ role: 'user', content: 'hi' }] };
    const reply = await chat({ port: server.port, key: key.secret, body });
    expect(reply.status).toBe(200);
  } finally {
    await server.stop();
  }
  const reports = () => [
    webhook.received.filter((received) => isSigned(received, secret ?? '')).map((each) => each.body),
    slack.received.map((each) => each.body),
    teams.received.map((each) => each.body),
    mail.mails.map(({ text }) => text.replaceAll('=\n', '')),
  ];
  const ofBudget = () => reports().map((bodies) => bodies.filter((each) => each.includes('Initech')));
  await until(ofBudget, (found) => found.every(({ length }) => length > 0), 'four reports', WITHIN_MS);

  const [[signed = ''] = [], ...others] = ofBudget();
  const wanted = { type: 'quota.raised', data: { meter: 'tokens', percent: 100, limit: 1_000 } };
  expect(JSON.parse(signed)).toMatchObject(wanted);
  for (const bodies of others) expect(bodies).toEqual([expect.stringContaining('Monthly tokens: 100% used')]);
});

test('the URL of Slack or Microsoft Teams is in no list, log line or row', async () => {
  const { rows } = await client.query<{ text: string }>(
    `select concat((select string_agg(d::text, '') from daybook.alert_destination d),
      (select string_agg(a::text, '') from daybook.alert_attempt a),
      (select string_agg(j::text, '') from graphile_worker._private_jobs j)) as text`,
  );
  const { stdout } = await daybook('destination', 'list');
  expect(stdout).toMatch(/slack.+\n.*teams.+\n.*email +on +ops@b\.example/);
  for (const text of [rows[0]?.text, worker.output(), stdout]) expect(text).not.toContain('canary-path');
});

test('an email that the mail server rejects is retried, and its reply says why', async () => {
  await client.query('delete from daybook.alert_destination; delete from daybook.alert');
  const { id } = await add('email', 'full@b.example');
  mail.reject = { to: 'full@b.example', reply: '452 mailbox full' };
  expect(await json('destination', 'test', id)).toMatchObject({ state: 'failed', reply: '452' });
  await raiseAlerts(client, [ALERT]);
  const attempts = async () =>
    (
      await client.query<{ state: string; status: number | null }>(
        `select d.state, t.status from daybook.alert_delivery d join daybook.alert a on a.id = d.alert
          join daybook.alert_attempt t on t.delivery = d.id where a.kind <> 'test'`,
      )
    ).rows;
  expect(await until(attempts, ([first]) => first !== undefined, 'the attempt', WITHIN_MS)).toEqual([
    { state: 'waiting', status: 452 },
  ]);
});
