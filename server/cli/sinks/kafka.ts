import { readFileSync } from 'node:fs';
import { BROKER, type SinkConfigOf } from '#db/spend/sink-config.ts';
import { readSecretFile } from '#server/cli/input.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The options of `daybook sink add kafka`. */
export type KafkaOptions = {
  brokers: string;
  topic: string;
  tls?: true;
  caFile?: string;
  sasl?: string;
  username?: string;
  passwordFile?: string;
  allowPrivate?: true;
};

type KafkaConfig = SinkConfigOf<'kafka'>;
type Sasl = NonNullable<KafkaConfig['sasl']>;

const MECHANISMS: readonly Sasl['mechanism'][] = ['plain', 'scram-sha-256', 'scram-sha-512'];
const PORT_MAX = 65_535;

/** @throws {DecisionError} where options are missing, contradict one another, or name no readable file. */
export function kafkaConfigOf(options: KafkaOptions): KafkaConfig {
  const { topic, caFile } = options;
  const tls = options.tls ?? false;
  if (caFile !== undefined && !tls) throw new DecisionError('invalid', '--ca-file needs --tls.');
  const sasl = saslOf(options);
  return {
    kind: 'kafka',
    brokers: brokersOf(options.brokers),
    topic,
    tls,
    ...(caFile === undefined ? {} : { ca: readCertificates(caFile) }),
    ...(sasl === null ? {} : { sasl }),
    allow_private: options.allowPrivate ?? false,
  };
}

function brokersOf(listed: string): string[] {
  return listed.split(',').map((each) => {
    const broker = each.trim();
    const port = BROKER.exec(broker)?.[1];
    if (port === undefined || Number(port) < 1 || Number(port) > PORT_MAX)
      throw new DecisionError('invalid', 'A broker in --brokers is not host:port, such as kafka-1:9092.');
    return broker;
  });
}

function saslOf({ sasl, username, passwordFile, tls }: KafkaOptions): Sasl | null {
  if (sasl === undefined) {
    if (username === undefined && passwordFile === undefined) return null;
    throw new DecisionError('invalid', '--username and --password-file need --sasl.');
  }
  const mechanism = MECHANISMS.find((each) => each === sasl);
  if (mechanism === undefined)
    throw new DecisionError('invalid', `--sasl must be one of: ${MECHANISMS.join(', ')}.`);
  if (username === undefined || passwordFile === undefined)
    throw new DecisionError('invalid', '--sasl needs --username and --password-file.');
  if (mechanism === 'plain' && tls !== true)
    throw new DecisionError('invalid', '--sasl plain would send the password in clear text: add --tls.');
  return { mechanism, username, password: readSecretFile(passwordFile).replace(/\r?\n$/, '') };
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new DecisionError('invalid', `${file} can't be read (${code}).`);
  }
}
