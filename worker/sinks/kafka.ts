import { isIP } from 'node:net';
import type { Producer } from '@platformatic/kafka';
import { reachOf, reachOfHost } from '#db/addresses.ts';
import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { mayReceive, RefusedAddressError } from '../receiver.ts';
import { kafkaFault } from './kafka-fault.ts';
import type { Sink, SinkContext } from './sink.ts';

type KafkaConfig = SinkConfigOf<'kafka'>;
type SpendProducer = Producer<string, string, string, string>;

/** About 200 kB, of the 1 MB that brokers accept by default. */
const BATCH_MAX = 200;
const CONNECT_MAX_MS = 4_000;
const REQUEST_MAX_MS = 5_000;
/** With less than 2, the client retries an idempotent batch without end. */
const RETRIES = 2;
const RETRY_PAUSE_MS = 250;

/**
 * Records of a Kafka topic, one for each spend event, as CloudEvents 1.0 in binary content mode: the value is
 * the spend event, and the headers identify it. The key is the account, so that a partition has all events of
 * an account, in the order of the log.
 *
 * A batch is acknowledged by all in-sync replicas. The producer is idempotent: its own retries write
 * nothing twice. After a failure it is replaced, and a batch that was already written in part is repeated.
 */
export function openKafka(config: KafkaConfig, { id, source }: SinkContext): Sink {
  let producer: SpendProducer | null = null;

  const close = async (): Promise<void> => {
    const closing = producer;
    producer = null;
    if (closing !== null) await closeProducer(closing);
  };

  /** @returns the fault; null: all in-sync replicas have the records. */
  async function send(records: readonly SpendRecord[], signal: AbortSignal): Promise<string | null> {
    try {
      producer ??= await openProducer(config, id);
      signal.throwIfAborted();
      const messages = records.map((record) => ({ ...record, topic: config.topic }));
      await orAborted(producer.send({ messages }), signal);
      return null;
    } catch (error) {
      await close();
      return signal.aborted ? 'timed_out' : kafkaFault(error);
    }
  }

  return {
    batchMax: BATCH_MAX,
    deliver: async (batch, signal) => {
      const fault = await send(
        batch.map((event) => recordOf(event, source)),
        signal,
      );
      return { acknowledged: fault === null ? batch.length : 0, fault };
    },
    test: (event, signal) => {
      const at = new Date().toISOString();
      const test = { object: 'spend_event', id: event, type: 'test', at, account: 'test' } as const;
      return send([recordOf(test, source)], signal);
    },
    close,
  };
}

type SpendRecord = { key: string; value: string; headers: Record<string, string> };
type Recorded = Pick<SpendEvent, 'object' | 'id' | 'at' | 'account'> & { type: SpendEvent['type'] | 'test' };

function recordOf(event: Recorded, source: string): SpendRecord {
  return {
    key: event.account,
    value: JSON.stringify(event),
    headers: {
      'content-type': 'application/json; charset=utf-8',
      ce_specversion: '1.0',
      ce_id: event.id,
      ce_source: source,
      ce_type: `daybook.${event.type}`,
      ce_subject: event.account,
      ce_time: event.at,
    },
  };
}

async function openProducer(config: KafkaConfig, id: string): Promise<SpendProducer> {
  // It takes 60 MB, and most workers never need it.
  const { compatibilityPartitioner, Producer, stringSerializers } = await import('@platformatic/kafka');
  const producer = new Producer({
    clientId: `daybook-${id}`,
    bootstrapBrokers: config.brokers,
    serializers: stringSerializers,
    // The partitions that Java's client chooses by default.
    partitioner: compatibilityPartitioner,
    idempotent: true,
    autocreateTopics: false,
    retries: RETRIES,
    retryDelay: RETRY_PAUSE_MS,
    connectTimeout: CONNECT_MAX_MS,
    requestTimeout: REQUEST_MAX_MS,
    timeout: REQUEST_MAX_MS,
    ...tlsOf(config),
    ...saslOf(config),
  });
  guardConnections(producer, config.allow_private);
  return producer;
}

function tlsOf({ tls, ca, brokers }: KafkaConfig) {
  if (!tls) return {};
  // The server name is sent to brokers that have names; TLS has none for addresses.
  const isNamed = brokers.every((broker) => isIP(hostOf(broker)) === 0);
  return { tls: ca === undefined ? {} : { ca }, tlsServerName: isNamed };
}

const hostOf = (broker: string): string => broker.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');

const MECHANISMS = {
  plain: 'PLAIN',
  'scram-sha-256': 'SCRAM-SHA-256',
  'scram-sha-512': 'SCRAM-SHA-512',
} as const;

function saslOf({ sasl }: KafkaConfig) {
  return sasl === undefined ? {} : { sasl: { ...sasl, mechanism: MECHANISMS[sasl.mechanism] } };
}

/**
 * Refuses addresses that a receiver may not have, of configured brokers and of those that they name. The
 * addresses of a name are checked as they are resolved: those are connected to.
 */
function guardConnections(producer: SpendProducer, allowPrivate: boolean): void {
  producer.connections.on('connecting', ({ broker, connection }) => {
    // The client listens for the first error of a connection only, and another would end the worker.
    connection.on('error', () => undefined);
    const refuse = (): void => void connection.socket.destroy(new RefusedAddressError());
    // The socket is made after this event, and connects or resolves its name in a later turn.
    process.nextTick(() => {
      const reach = reachOfHost(broker.host);
      if (reach !== null && !mayReceive(reach, allowPrivate)) return refuse();
      connection.socket.on('lookup', (error, address) => {
        if (error === null && !mayReceive(reachOf(address), allowPrivate)) refuse();
      });
    });
  });
}

/** Ends connections at once, as a broker that does not answer would not end them. */
async function closeProducer(producer: SpendProducer): Promise<void> {
  const sockets = [...producer.connections].map(([, connection]) => connection.socket);
  const closed = producer.close();
  for (const socket of sockets) socket?.destroy();
  await closed.catch(() => undefined);
}

/** @throws the signal's reason when it is aborted first. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
