import type { SinkConfig } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import type { Ground } from '../chaos/ground.ts';
import { randomFrom } from '../chaos/random.ts';
import { compareReceived, runAroundSink, type SpendRun, sumOf, type Victim } from './spend-run.ts';
import { alertFaults, victimsOf } from '../chaos/spend.ts';
import type { Finding } from '../chaos/verdict.ts';
import { type KafkaBroker, type KafkaRecord, startKafkaBroker } from './kafka-broker.ts';
import { fetchKafka, missingForKafka } from './kafka-jars.ts';

export type KafkaKillsVerdict = Omit<SpendRun, 'events'> & {
  events: number;
  /** Records beyond the first of each event. */
  repeated: number;
  cost_nanousd: string;
  violations: Finding[];
};

const VICTIMS: readonly Victim[] = ['worker', 'receiver', 'server', 'postgres'];
const TOPIC = 'kills';

/**
 * Kills worker, server, PostgreSQL and a real Kafka broker `n` times one after another, and keeps the broker
 * down for a part of the run. In the end the topic has each spend event of the log, unchanged, and by their
 * ids its sum is the log's. Fetches Kafka where it is missing.
 * @param options.outageMs how long the broker is down; 0: for half of the kills.
 */
export async function killKafka(
  ground: Ground,
  { n, seed, outageMs = 0 }: { n: number; seed: number; outageMs?: number },
): Promise<KafkaKillsVerdict> {
  await fetchKafka();
  const missing = await missingForKafka();
  if (missing !== null) throw new Error(`no Kafka broker can be started: ${missing}`);
  await using broker = await startKafkaBroker();
  await broker.createTopic(TOPIC, 3);
  const options = { topic: TOPIC, victims: victimsOf(VICTIMS, n), seed, outageMs };
  const { records, ...run } = await killAroundKafka(broker, ground, options);

  const received = new Map<string, SpendEvent>();
  const changed: string[] = [];
  for (const { value } of records) {
    const event = JSON.parse(value) as SpendEvent;
    const known = received.get(event.id);
    if (known !== undefined && JSON.stringify(known) !== value) changed.push(`${event.id} has changed`);
    received.set(event.id, event);
  }
  const found = [...changed, ...compareReceived(run.events, received), ...alertFaults(run)];
  return {
    ...run,
    events: run.events.length,
    repeated: records.length - received.size,
    cost_nanousd: String(sumOf(run.events)),
    violations: found.map((message) => ({ rule: 'spend', request: '', message })),
  };
}

type KafkaKillsOptions = {
  topic: string;
  victims: readonly Victim[];
  seed: number;
  outageMs: number | null;
};

/** Runs kills around a sink of a broker's topic. @returns the run, and all records of the topic. */
export async function killAroundKafka(
  broker: KafkaBroker,
  ground: Ground,
  { topic, victims, seed, outageMs }: KafkaKillsOptions,
): Promise<SpendRun & { records: KafkaRecord[] }> {
  const config: SinkConfig = {
    ...{ kind: 'kafka', brokers: [broker.address], topic, tls: false },
    allow_private: true,
  };
  const run = await runAroundSink(
    ground,
    {
      config,
      kill: async () => {
        await broker.kill();
        await broker.start();
      },
      setDown: (isDown) => (isDown ? broker.kill() : broker.start()),
    },
    { random: randomFrom(seed), victims, outageMs },
  );
  return { ...run, records: await broker.read(topic) };
}
