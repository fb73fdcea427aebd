import type { SpendEvent } from '#db/spend/spend-event.ts';
import type { Ground } from '../chaos/ground.ts';
import type { Finding } from '../chaos/verdict.ts';
import { startKafkaBroker } from './kafka-broker.ts';
import { fetchKafka, missingForKafka } from './kafka-jars.ts';
import { killAroundKafka, type Victim } from './kafka-kills.ts';

export type KafkaKillsVerdict = {
  kills: number;
  events: number;
  /** Records beyond the first of each event. */
  repeated: number;
  cost_nanousd: string;
  violations: Finding[];
};

const VICTIMS: readonly Victim[] = ['worker', 'broker', 'server', 'worker'];
const TOPIC = 'kills';

/**
 * Kills worker, server and a real Kafka broker `n` times in turn. In the end the topic has each spend event
 * of the log, unchanged, and by their ids its sum is the log's. Fetches Kafka where it is missing.
 */
export async function killKafka(
  ground: Ground,
  { n, seed }: { n: number; seed: number },
): Promise<KafkaKillsVerdict> {
  await fetchKafka();
  const missing = await missingForKafka();
  if (missing !== null) throw new Error(`no Kafka broker can be started: ${missing}`);
  await using broker = await startKafkaBroker();
  await broker.createTopic(TOPIC, 3);
  const victims = Array.from({ length: n }, (_, index) => VICTIMS[index % VICTIMS.length] ?? 'worker');
  const { events, records } = await killAroundKafka(broker, ground, { topic: TOPIC, victims, seed });

  const violations: Finding[] = [];
  const found = (message: string): unknown => violations.push({ rule: 'spend', request: '', message });
  const received = new Map<string, SpendEvent>();
  for (const { value } of records) {
    const event = JSON.parse(value) as SpendEvent;
    const known = received.get(event.id);
    if (known !== undefined && JSON.stringify(known) !== value) found(`${event.id} has changed`);
    received.set(event.id, event);
  }
  for (const event of events)
    if (JSON.stringify(received.get(event.id)) !== JSON.stringify(event))
      found(`${event.id} is missing or differs from the log`);
  if (received.size !== events.length)
    found(`${received.size} events are in the topic, and the log has ${events.length}`);
  const logged = sumOf(events);
  const sum = sumOf([...received.values()]);
  if (sum !== logged) found(`the topic's sum is ${sum} n$, the log's ${logged}`);
  const repeated = records.length - received.size;
  return { kills: n, events: events.length, repeated, cost_nanousd: String(logged), violations };
}

const sumOf = (events: readonly SpendEvent[]): bigint =>
  events.reduce((sum, { cost_nanousd = 0 }) => sum + BigInt(cost_nanousd), 0n);
