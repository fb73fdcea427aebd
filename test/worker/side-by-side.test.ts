import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raiseAlerts } from '#db/alerts/alert-log.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { sealTarget } from '#db/alerts/destinations.ts';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { randomFrom } from '../chaos/random.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, connectAs, openWriter, settled } from '../support/log/log-writer.ts';
import { type Receiver, startReceiver } from '../support/servers/alert-receiver.ts';
import { changeControl, openLog, until } from '../support/relay.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';

/**
 * Two workers on one database, one of which is killed again and again: what is to happen once happens once.
 */

const WITHIN_MS = 60_000;
/** Calls in each round: most of the quota, then the rest. */
const ROUNDS = [85, 20];
const LIFE_MS = 1_500;
const SEED = 20_261_121;

let database: TestDatabase;
let dataDir: string;
let client: Client;
let receiver: Receiver;
let log: ReturnType<typeof openLog>;
let account: string;
let workers: WorkerProcess[];
const start = (): WorkerProcess =>
  spawnWorker({ DATABASE_URL: database.url, DAYBOOK_DATA: dataDir, LOG_LEVEL: 'warn' });

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  workers = [start(), start()];
  client = await connectAs(database, 'worker');
  receiver = await startReceiver();
  log = openLog(database);
  account = await changeControl(database, dataDir, async (control, pepper) => {
    const { id } = await control.createAccount('acme');
    await control.overrideTerms(
      'acme',
      { quotas: [{ meter: 'requests', window: 'month', limit: 100, enforcement: 'soft' }] },
      'keep',
    );
    const destination = publicId();
    const target = { kind: 'webhook' as const, url: receiver.url, secret: createWebhookSecret() };
    await client.query(
      `insert into daybook.alert_destination (id, kind, label, sealed_target, alerts, allow_private)
        values ($1, 'webhook', 'here', $2, '{quota}', true)`,
      [destination, sealTarget(pepper, destination, target)],
    );
    return id;
  });
  await until(
    async () => (await client.query('select from daybook.queue_pool')).rowCount,
    (count) => count === 2,
    'two workers',
    WITHIN_MS,
  );
});

afterAll(async () => {
  for (const worker of workers) await worker.stop();
  await closeClient(client);
  await log.close();
  await receiver[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

/** So many calls of the account, each charged to its quota. */
async function call(count: number): Promise<void> {
  const termsPosition =
    (await log.read()).findLast(({ event }) => event.type === 'account.terms_overridden')?.position ?? 0;
  const admission = { terms_position: termsPosition, admitted_minute: minuteOf(Date.now()) };
  const calls = Array.from({ length: count }, () => accepted({ account, ...admission }));
  await using writer = await openWriter(database);
  await writer.append(calls);
  await writer.append(calls.map((each) => settled(each, admission)));
}

test(
  'each key expires once, each quota threshold raises one alert, and each alert is delivered',
  async () => {
    const random = randomFrom(SEED);
    const keys: string[] = [];
    for (const calls of ROUNDS) {
      keys.push(
        ...(await changeControl(database, dataDir, async (control, pepper) => {
          const expiresAt = new Date(Date.now() + LIFE_MS);
          const ids: string[] = [];
          for (let count = 0; count < 5; count++)
            ids.push((await control.createKey(pepper, { account: 'acme', name: 'short', expiresAt })).id);
          return ids;
        })),
      );
      await call(calls);
      // Somewhere between the calls and the end of the keys, and whatever it had taken.
      await new Promise((resolve) => setTimeout(resolve, random.below(2 * LIFE_MS)));
      const at = random.below(workers.length);
      await workers[at]?.kill();
      workers[at] = start();
    }

    const ended = async () =>
      (await log.read()).flatMap(({ event }) => (event.type === 'key.expired' ? [event.key] : []));
    await until(ended, (seen) => new Set(seen).size === keys.length, 'the end of each key', WITHIN_MS);
    const deliveries = async () =>
      (
        await client.query<{ state: string; percent: number }>(
          `select d.state, (a.details->>'percent')::int as percent
            from daybook.alert_delivery d join daybook.alert a on a.id = d.alert
            order by a.raised_at`,
        )
      ).rows;
    await until(
      deliveries,
      (rows) => rows.at(-1)?.percent === 100 && rows.every(({ state }) => state === 'delivered'),
      'the deliveries',
      WITHIN_MS,
    );

    expect((await ended()).toSorted()).toEqual(keys.toSorted());
    const percents = (await deliveries()).map(({ percent }) => percent);
    // The two may be seen as one.
    expect([[80, 100], [100]]).toContainEqual(percents);
    // A worker that was killed between sending and noting it has it sent again, under the same id.
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(percents.length);
  },
  3 * WITHIN_MS,
);

test(
  'what a killed worker had in hand another does, by itself and within seconds',
  async () => {
    receiver.received.length = 0;
    receiver.reply = { status: null };
    await raiseAlerts(client, [
      { topic: 'in hand', ordinal: 1, kind: 'quota', state: 'raised', account, details: {} },
    ]);
    await until(
      () => receiver.received.length,
      (count) => count === 1,
      'the attempt',
      WITHIN_MS,
    );
    const { rows } = await client.query<{ name: string }>(
      `select i.name from graphile_worker.jobs j
        join daybook.queue_pool p on p.pool = j.locked_by
        join daybook.instance i on i.id = p.instance
        where j.key like 'deliver-%'`,
    );
    const at = workers.findIndex(({ pid }) => rows[0]?.name.endsWith(` ${pid}`));
    await workers[at]?.kill();
    workers.splice(at, 1);
    receiver.reply = { status: 204 };
    await until(
      () => receiver.received.length,
      (count) => count === 2,
      'the attempt of another',
      WITHIN_MS,
    );
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  },
  2 * WITHIN_MS,
);
