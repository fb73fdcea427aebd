import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { hostname } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { openKafka } from '../../worker/sinks/kafka.ts';
import type { Delivered } from '../../worker/sinks/sink.ts';
import { databaseGround } from '../chaos/ground.ts';
import { refusedPort } from '../support/upstream/upstream.ts';
import { type KafkaBroker, PASSWORD, startKafkaBroker, USERNAME } from './kafka-broker.ts';
import { missingForKafka } from './kafka-jars.ts';
import { killAroundKafka } from './kafka-verdict.ts';

/** The Kafka sink with a real broker, whose records Kafka's own client reads. */

const missing = await missingForKafka();
if (missing !== null) console.warn(`tests with a Kafka broker: skipped; ${missing}`);

const DELIVERY_MS = 20_000;
const CONTEXT = { id: 'KafkaSnk', source: 'daybook/test' };

type KafkaConfig = SinkConfigOf<'kafka'>;

const spend = (position: number, account: string): SpendEvent => ({
  object: 'spend_event',
  id: `0-${position}`,
  position,
  type: 'request.settled',
  at: '2026-01-01T00:00:00.000Z',
  account,
  cost_nanousd: position,
});

describe.skipIf(missing !== null)('a Kafka sink', () => {
  let broker: KafkaBroker;
  let plain: KafkaConfig;
  let secure: KafkaConfig;

  beforeAll(async () => {
    broker = await startKafkaBroker();
    plain = { kind: 'kafka', brokers: [broker.address], topic: 'plain', tls: false, allow_private: true };
    const sasl = { mechanism: 'plain', username: USERNAME, password: PASSWORD } as const;
    secure = { ...plain, brokers: [broker.secureAddress], tls: true, ca: broker.certificate, sasl };
    await broker.createTopic('plain', 3);
  });

  afterAll(() => broker?.[Symbol.asyncDispose]());

  /** One delivery by a sink of its own. */
  async function deliver(config: KafkaConfig, signal = AbortSignal.timeout(DELIVERY_MS)): Promise<Delivered> {
    const sink = openKafka(config, CONTEXT);
    try {
      return await sink.deliver([spend(1, 'Account1')], signal);
    } finally {
      await sink.close();
    }
  }

  test('writes CloudEvents in binary content mode, keyed by account, over TLS and SASL', async () => {
    const topic = 'encrypted';
    await broker.createTopic(topic, 3);
    const batch = Array.from({ length: 30 }, (_, index) => spend(index + 1, `Account${index % 5}`));
    const sink = openKafka({ ...secure, topic }, CONTEXT);
    const signal = AbortSignal.timeout(DELIVERY_MS);
    expect(await sink.deliver(batch, signal)).toEqual({ acknowledged: 30, fault: null });
    await sink.close();

    const records = await broker.read(topic);
    expect(records.map(({ value }) => JSON.parse(value) as SpendEvent).toSorted(byPosition)).toEqual(batch);
    expect(records.find(({ headers }) => headers['ce_id'] === '0-7')).toMatchObject({
      key: 'Account1',
      headers: {
        'content-type': 'application/json; charset=utf-8',
        ce_specversion: '1.0',
        ce_id: '0-7',
        ce_source: 'daybook/test',
        ce_type: 'daybook.request.settled',
        ce_subject: 'Account1',
        ce_time: '2026-01-01T00:00:00.000Z',
      },
    });
    expectOneOrderedPartitionPerAccount(records);
  });

  test.each<[string, (configs: { plain: KafkaConfig; secure: KafkaConfig }) => KafkaConfig, string]>([
    ['a missing topic', (to) => ({ ...to.plain, topic: 'missing' }), 'unknown_topic_or_partition'],
    ['a wrong password', (to) => withPassword(to.secure, 'guess'), 'sasl_authentication_failed'],
    [
      'a certificate of no known authority',
      ({ secure: to }) => without(to, 'ca'),
      'DEPTH_ZERO_SELF_SIGNED_CERT',
    ],
    [
      'TLS that the broker requires',
      ({ secure: to }) => ({ ...without(to, 'sasl'), tls: false }),
      'tls_required',
    ],
    ['a private address', (to) => ({ ...to.plain, allow_private: false }), 'address_refused'],
    ['a name with a private address', (to) => named(to.plain, hostname()), 'address_refused'],
    ['an unknown name', (to) => ({ ...to.plain, brokers: ['broker.invalid:9092'] }), 'ENOTFOUND'],
  ])('reports %s by a code', async (_, change, fault) => {
    expect(await deliver(change({ plain, secure }))).toEqual({ acknowledged: 0, fault });
  });

  test('reports a broker that refuses connections, and one that closes them', async () => {
    const refusing = { ...plain, brokers: [`127.0.0.1:${await refusedPort()}`] };
    expect(await deliver(refusing)).toEqual({ acknowledged: 0, fault: 'ECONNREFUSED' });
    const server = createServer((socket) => socket.on('error', () => undefined).end('HTTP/1.1 400\r\n\r\n'));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const closing = { ...plain, brokers: [`127.0.0.1:${(server.address() as AddressInfo).port}`] };
    expect(await deliver(closing)).toMatchObject({ acknowledged: 0, fault: expect.any(String) });
    server.close();
  });

  test('gives up with the signal where a broker does not answer', async () => {
    await using server = createServer((socket) => socket.on('error', () => undefined));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const silent = { ...plain, brokers: [`127.0.0.1:${(server.address() as AddressInfo).port}`] };
    const leaving = new AbortController();
    server.once('connection', () => leaving.abort());
    expect(await deliver(silent, leaving.signal)).toEqual({ acknowledged: 0, fault: 'timed_out' });
  });

  test(
    'delivers each event through kills of worker and broker, as the log has it',
    { timeout: 240_000 },
    async () => {
      await broker.createTopic('kills', 3);
      const victims = ['worker', 'receiver', 'worker'] as const;
      await using ground = await databaseGround();
      const options = { topic: 'kills', victims, seed: 5, outageMs: null };
      const { events, records } = await killAroundKafka(broker, ground, options);

      const received = new Map(records.map(({ headers, value }) => [headers['ce_id'], value]));
      expect(received).toEqual(new Map(events.map((event) => [event.id, JSON.stringify(event)])));
      const sums = sumsOf([...received.values()].map((value) => JSON.parse(value) as SpendEvent));
      expect(sums).toEqual(sumsOf(events));
      expect(events.some(({ type }) => type === 'usage.adjusted')).toBe(true);
      expectOneOrderedPartitionPerAccount(records);
    },
  );
});

const byPosition = (one: SpendEvent, other: SpendEvent): number => one.position - other.position;

const named = (config: KafkaConfig, host: string): KafkaConfig => ({
  ...config,
  brokers: [`${host}:${config.brokers[0]?.split(':')[1]}`],
  allow_private: false,
});

function without(config: KafkaConfig, name: 'ca' | 'sasl'): KafkaConfig {
  const copy = { ...config };
  delete copy[name];
  return copy;
}

const withPassword = (config: KafkaConfig, password: string): KafkaConfig => ({
  ...config,
  sasl: { mechanism: 'plain', username: USERNAME, password },
});

/** What each account was charged, in nano-dollars. */
function sumsOf(events: readonly SpendEvent[]): Map<string, bigint> {
  const sums = new Map<string, bigint>();
  for (const { account, cost_nanousd = 0 } of events)
    sums.set(account, (sums.get(account) ?? 0n) + BigInt(cost_nanousd));
  return sums;
}

/** The first time that each event was written, in the order of the log. */
function expectOneOrderedPartitionPerAccount(
  records: readonly { partition: number; offset: number; key: string | null; value: string }[],
): void {
  const byAccount = Map.groupBy(records, ({ key }) => key);
  for (const written of byAccount.values()) {
    expect(new Set(written.map(({ partition }) => partition)).size).toBe(1);
    const inOrder = written.toSorted((one, other) => one.offset - other.offset);
    const positions = [...new Set(inOrder.map(({ value }) => (JSON.parse(value) as SpendEvent).position))];
    expect(positions).toEqual(positions.toSorted((one, other) => one - other));
  }
}
