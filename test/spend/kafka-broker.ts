import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Admin } from '@platformatic/kafka';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { refusedPort } from '../support/upstream/upstream.ts';
import { CLASS_PATH } from './kafka-jars.ts';

/** A real Kafka broker of one node, with its controller, in a process of its own. */
export type KafkaBroker = AsyncDisposable & {
  /** `host:port` of the listener without encryption or authentication. */
  address: string;
  /** `host:port` of the listener with TLS and SASL; see {@link USERNAME}. */
  secureAddress: string;
  /** The certificate of that listener, in PEM. */
  certificate: string;
  createTopic(name: string, partitions: number): Promise<void>;
  /** All records of a topic, as Kafka's own client reads them. */
  read(topic: string): Promise<KafkaRecord[]>;
  /** SIGKILL; returns when the process is gone. */
  kill(): Promise<void>;
  /** Starts it again with the same data and addresses. */
  start(): Promise<void>;
};

export type KafkaRecord = {
  partition: number;
  offset: number;
  /** In ms. */
  timestamp: number;
  key: string | null;
  headers: Record<string, string>;
  value: string;
};

export const USERNAME = 'daybook';
export const PASSWORD = 'correct horse battery staple';

const LOGIN_MODULE = 'org.apache.kafka.common.security.plain.PlainLoginModule';
const HOST = '127.0.0.1';
const START_MAX_MS = 300_000;
const OUTPUT_MAX_CHARS = 4_000;
/** Small, and quick to start rather than quick later. */
const JAVA = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', CLASS_PATH];

/** Needs what `missingForKafka` looks for. */
export async function startKafkaBroker(): Promise<KafkaBroker> {
  const directory = await makeTestDirectory();
  const [port, securePort, controllerPort] = [await refusedPort(), await refusedPort(), await refusedPort()];
  const address = `${HOST}:${port}`;
  const { certificate, key } = await makeCertificate(directory);
  const file = path.join(directory, 'server.properties');
  await writeFile(file, propertiesOf({ directory, port, securePort, controllerPort, certificate, key }));
  // What `kafka-storage format` writes, without starting a JVM for it.
  await mkdir(path.join(directory, 'data'));
  const identity = 'version=1\ncluster.id=3QgSM3CqSDSub_r5WAH7KQ\nnode.id=1\n';
  await writeFile(path.join(directory, 'data/meta.properties'), identity);

  let broker: BrokerProcess | null = null;
  const start = async (): Promise<void> => {
    broker = spawnBroker(file);
    await untilReady(address, broker);
  };
  const kill = async (): Promise<void> => {
    await broker?.kill();
    broker = null;
  };
  const end = async (): Promise<void> => {
    await kill();
    await removeTestDirectory(directory);
  };
  await start().catch(async (error: unknown) => {
    await end();
    throw error;
  });
  return {
    address,
    secureAddress: `${HOST}:${securePort}`,
    certificate,
    createTopic: (name, partitions) =>
      withAdmin(address, async (admin) => {
        await admin.createTopics({ topics: [name], partitions, replicas: 1 });
      }),
    read: (topic) => readTopic(address, topic),
    kill,
    start,
    [Symbol.asyncDispose]: end,
  };
}

type BrokerProcess = { kill: () => Promise<void>; hasEnded: () => boolean; output: () => string };

function spawnBroker(file: string): BrokerProcess {
  const child = spawn('java', [...JAVA, 'kafka.Kafka', file], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const take = (bytes: Buffer): void => void (output = (output + bytes.toString()).slice(-OUTPUT_MAX_CHARS));
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  const gone = once(child, 'exit');
  return {
    kill: async () => {
      child.kill('SIGKILL');
      await gone;
    },
    hasEnded: () => child.exitCode !== null,
    output: () => output,
  };
}

async function untilReady(address: string, broker: BrokerProcess): Promise<void> {
  const deadlineMs = performance.now() + START_MAX_MS;
  // Its controller registers it some time after its port is open.
  const isReady = (): Promise<boolean> =>
    withAdmin(address, async (admin) => (await admin.metadata({})).brokers.size > 0).catch(() => false);
  while (!(await isReady())) {
    if (broker.hasEnded()) throw new Error(`the Kafka broker ended:\n${broker.output()}`);
    if (performance.now() > deadlineMs) throw new Error(`the Kafka broker is not ready:\n${broker.output()}`);
    await wait(100);
  }
}

async function withAdmin<T>(address: string, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin({
    clientId: 'test',
    bootstrapBrokers: [address],
    connectTimeout: 1_000,
    retries: 0,
  });
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}

/** With Java's source launcher, which compiles the file. */
async function readTopic(address: string, topic: string): Promise<KafkaRecord[]> {
  const source = path.join(import.meta.dirname, 'KafkaTopic.java');
  const { stdout } = await promisify(execFile)('java', [...JAVA, source, address, topic], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as KafkaRecord);
}

type Settings = {
  directory: string;
  port: number;
  securePort: number;
  controllerPort: number;
  certificate: string;
  key: string;
};

function propertiesOf({ directory, port, securePort, controllerPort, certificate, key }: Settings): string {
  const listeners = `PLAINTEXT://${HOST}:${port},SASL_SSL://${HOST}:${securePort}`;
  const login = 'listener.name.sasl_ssl';
  const user = `username="x" password="x" user_${USERNAME}="${PASSWORD}"`;
  const properties = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@${HOST}:${controllerPort}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    listeners: `${listeners},CONTROLLER://${HOST}:${controllerPort}`,
    'advertised.listeners': listeners,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT',
    'log.dirs': path.join(directory, 'data'),
    [`${login}.sasl.enabled.mechanisms`]: 'PLAIN',
    [`${login}.plain.sasl.jaas.config`]: `${LOGIN_MODULE} required ${user};`,
    [`${login}.ssl.keystore.type`]: 'PEM',
    [`${login}.ssl.keystore.certificate.chain`]: oneLine(certificate),
    [`${login}.ssl.keystore.key`]: oneLine(key),
    // A missing topic is an error that the sink has to report.
    'auto.create.topics.enable': false,
    'log.cleaner.enable': false,
    'num.network.threads': 1,
    'num.io.threads': 2,
    // A killed broker is registered again no sooner.
    'broker.session.timeout.ms': 2_000,
    'broker.heartbeat.interval.ms': 500,
  };
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

/** A text with line breaks as the value of a property. */
const oneLine = (text: string): string => text.trim().replaceAll('\n', '\\n');

async function makeCertificate(directory: string): Promise<{ certificate: string; key: string }> {
  const [certificateFile, keyFile] = [path.join(directory, 'cert.pem'), path.join(directory, 'key.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const subject = ['-subj', '/CN=kafka', '-addext', `subjectAltName=IP:${HOST}`];
  execFileSync(
    'openssl',
    ['req', '-x509', ...kind, ...subject, '-keyout', keyFile, '-out', certificateFile],
    {
      stdio: 'ignore',
    },
  );
  return { certificate: await readFile(certificateFile, 'utf8'), key: await readFile(keyFile, 'utf8') };
}
