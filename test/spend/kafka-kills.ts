import { setTimeout as wait } from 'node:timers/promises';
import { heartbeat, retireInstance } from '#db/instances/instance.ts';
import type { Store } from '#db/postgres/connect.ts';
import { sealSinkConfig } from '#db/spend/sink-config.ts';
import { type SpendEvent, spendEventOf } from '#db/spend/spend-event.ts';
import type { Ground } from '../chaos/ground.ts';
import { type Random, randomFrom } from '../chaos/random.ts';
import { chat } from '../support/client.ts';
import { openSession } from '../support/database.ts';
import { accepted, openWriter, readLog, settled } from '../support/log/log-writer.ts';
import { changeControl, until, upstreamsVariable } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { spawnWorker } from '../support/servers/worker-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import type { KafkaBroker, KafkaRecord } from './kafka-broker.ts';

/** What a run found: the spend events of the log, and what is in the topic. */
export type KafkaVerdict = { events: SpendEvent[]; records: KafkaRecord[] };

export type Victim = 'worker' | 'server' | 'broker';

const SINK = 'KafkaSnk';
const ACCOUNTS = ['Account1', 'Account2', 'Account3'];
const STREAMS = 3;
const CALL_TIMEOUT_MS = 20_000;
const WRITER_PAUSE_MS = 50;
const DELIVERED_WITHIN_MS = 120_000;

/**
 * Kills the victims with SIGKILL, one after the other at random moments, and starts each again, while calls
 * are made, and priced requests are recorded and corrected; then waits until the sink has acknowledged all of
 * the log.
 */
export async function killAroundKafka(
  broker: KafkaBroker,
  ground: Ground,
  { topic, victims, seed }: { topic: string; victims: readonly Victim[]; seed: number },
): Promise<KafkaVerdict> {
  await using cleanup = new AsyncDisposableStack();
  const random = randomFrom(seed);
  const upstream = cleanup.use(await startUpstream());
  const env = {
    DAYBOOK_DATA: ground.dataDir,
    DATABASE_URL: ground.url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_WORKER: 'off',
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  };
  let server = await spawnServer(env);
  cleanup.defer(async () => void (await server.stop()));
  const key = server.firstKey as string;
  let worker = spawnWorker(env);
  cleanup.defer(async () => void (await worker.stop()));
  await addSink(ground.store, ground.dataDir, { brokers: [broker.address], topic });

  const ending = new AbortController();
  const load = [
    ...Array.from({ length: STREAMS }, () => call(() => server, key, ending.signal)),
    recordCalls(ground.store, random, ending.signal),
  ];
  for (const victim of victims) {
    await wait(200 + random.below(1_000));
    switch (victim) {
      case 'worker':
        await worker.kill();
        worker = spawnWorker(env);
        break;
      case 'server':
        await server.kill();
        server = await spawnServer(env);
        break;
      case 'broker':
        await broker.kill();
        await wait(random.below(1_000));
        await broker.start();
    }
  }
  ending.abort();
  await Promise.all(load);
  await server.stop();

  const client = await openSession(ground.store.config('owner'));
  cleanup.defer(() => client.end());
  const isDelivered = async (): Promise<boolean> => {
    // As an administrator would who knows that the broker is up again.
    await client.query('update daybook.sink set retry_at = null where retry_at is not null');
    const { rows } = await client.query<{ is_delivered: boolean }>(
      `select position = daybook.head(0::int2) and not exists (select from daybook.instance
          where closed_at is null and dead_at is null and id <> holder) as is_delivered from daybook.sink`,
    );
    return rows[0]?.is_delivered === true;
  };
  await until(isDelivered, (is) => is, 'the delivery of all events', DELIVERED_WITHIN_MS);
  const log = await readLog(ground.store);
  return {
    events: log.flatMap((placed) => spendEventOf(placed, 1) ?? []),
    records: await broker.read(topic),
  };
}

async function addSink(
  store: Store,
  dataDir: string,
  place: { brokers: string[]; topic: string },
): Promise<void> {
  const config = { kind: 'kafka', tls: false, allow_private: true, ...place } as const;
  const sealed = await changeControl(store, dataDir, async (_, pepper) =>
    sealSinkConfig(pepper, SINK, config),
  );
  const client = await openSession(store.config('owner'));
  await client.query(
    `insert into daybook.sink (id, name, kind, sealed_config, position) values ($1, 'kafka', 'kafka', $2, 0)`,
    [SINK, sealed],
  );
  await client.end();
}

/** Calls again and again; calls that a kill cuts are made anew. */
async function call(server: () => ServerProcess, key: string, signal: AbortSignal): Promise<void> {
  const body = { model: 's:tokens=20,every=5ms', stream: true, messages: [{ role: 'user', content: 'hi' }] };
  while (!signal.aborted) {
    const { status } = await chat({ port: server().port, key, body, timeoutMs: CALL_TIMEOUT_MS });
    if (status === null) await wait(20);
  }
}

/** Records priced requests of several accounts, and corrects some of them. */
async function recordCalls(store: Store, random: Random, signal: AbortSignal): Promise<void> {
  await using writer = await openWriter(store);
  for (let turn = 1; !signal.aborted; turn++) {
    const begun = Array.from({ length: 1 + random.below(20) }, () =>
      accepted({ account: ACCOUNTS[random.below(ACCOUNTS.length)] as string }),
    );
    const ended = begun.map((event) => settled(event, { cost_nanousd: random.below(2 ** 40) }));
    await writer.append([...begun, ...ended]);
    const { request, account, key, model } = ended[0] as (typeof ended)[number];
    await writer.correct([
      {
        type: 'usage.adjusted',
        ...{ request, account, key, model },
        end_reason: 'completed',
        cost_nanousd: -random.below(9),
        reference: `bill ${turn}`,
        reason: 'billed twice',
        adjusted_by: 'test',
      },
    ]);
    await heartbeat(writer.client, writer.instance, null);
    await wait(WRITER_PAUSE_MS);
  }
  await retireInstance(writer.client, writer.instance);
}
