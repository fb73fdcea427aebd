import { readFileSync } from 'node:fs';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { METERED_FIGURES, type SinkConfig, type SinkConfigOf } from '#db/spend/sink-config.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { readSecret, readSecretFile } from '#server/cli/input.ts';
import { type KafkaOptions as Cluster, kafkaConfigOf } from '#server/cli/sinks/kafka.ts';
import { readPosition } from '#server/cli/sinks/position.ts';
import type { Control } from '#server/control/control.ts';
import { requireAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { SinkControl } from '#server/spend/sinks.ts';

/** `daybook sink add <kind> …`: adds a sink, or replaces the configuration of the one with this name. */
export function addCommands(sink: Command): void {
  const add = sink
    .command('add')
    .description('add a sink, or replace the configuration of an existing one, which keeps its position');

  withPlace(add.command('webhook').argument('<name>', "the sink's name").argument('<url>', 'its address'))
    .description('batches signed per Standard Webhooks; the signing secret is printed once')
    .action((name: string, url: string, options: PlaceOptions, command: Command) => {
      const secret = createWebhookSecret();
      const allow_private = options.allowPrivate ?? false;
      return run(
        command,
        async (session) => ({
          ...(await addSink(session, name, { kind: 'webhook', url, secret, allow_private }, options)),
          secret,
        }),
        (added) =>
          `${showAdded(added)}\nIts secret is shown only once; receivers verify signatures with it:\n\n` +
          `  ${secret}\n`,
      );
    });

  withPlace(add.command('cloudevents').argument('<name>', "the sink's name").argument('<url>', 'its address'))
    .description('batches of CloudEvents 1.0 in JSON, for OpenMeter and others')
    .option('--token-file <file>', 'a file with the token for `Authorization: Bearer`')
    .option('--event-type <type>', 'the type of all events; by default `daybook.` and the type in the log')
    .action((name: string, url: string, options: CloudEventsOptions, command: Command) => {
      const { tokenFile, eventType } = options;
      const config: SinkConfigOf<'cloudevents'> = {
        kind: 'cloudevents',
        url,
        ...(tokenFile === undefined ? {} : { token: readSecretFile(tokenFile).trim() }),
        ...(eventType === undefined ? {} : { event_type: eventType }),
        allow_private: options.allowPrivate ?? false,
      };
      return run(command, (session) => addSink(session, name, config, options), showAdded);
    });

  withPlace(add.command('kafka').argument('<name>', "the sink's name"))
    .description('records of a Kafka topic, keyed by account')
    .requiredOption('--brokers <hosts>', 'some brokers, as `host:port`, separated by commas')
    .requiredOption('--topic <topic>', 'the topic, which must exist')
    .option('--tls', 'encrypt connections')
    .option(
      '--ca-file <file>',
      'certificates in PEM to trust in place of the public authorities; needs --tls',
    )
    .option('--sasl <mechanism>', 'plain, scram-sha-256 or scram-sha-512')
    .option('--username <name>', 'for --sasl')
    .option('--password-file <file>', 'for --sasl: a file that contains only the password')
    .action((name: string, options: KafkaOptions, command: Command) =>
      run(command, (session) => addSink(session, name, kafkaConfigOf(options), options), showAdded),
    );

  withPlace(add.command('lago').argument('<name>', "the sink's name"))
    .description('usage events of Lago; the API key is read from standard input or a file')
    .requiredOption('--code <code>', 'the code of the billable metric')
    .option(
      '--subscriptions <file>',
      "a JSON file: external ids of subscriptions by account name or id; by default the account's id",
    )
    .option('--file <file>', 'a file that contains only the API key')
    .option('--url <url>', "the address of Lago's API", 'https://api.getlago.com')
    .action(async (name: string, options: LagoOptions, command: Command) => {
      const api_key = (await readSecret(command, options.file)).trim();
      const { url, code } = options;
      const listed = options.subscriptions === undefined ? null : readIds(options.subscriptions);
      await run(
        command,
        async (session) => {
          const subscriptions =
            listed === null ? {} : { subscriptions: await byAccount(session.control, listed) };
          const allow_private = options.allowPrivate ?? false;
          return addSink(
            session,
            name,
            { kind: 'lago', url, api_key, code, ...subscriptions, allow_private },
            options,
          );
        },
        showAdded,
      );
    });

  withPlace(add.command('stripe').argument('<name>', "the sink's name"))
    .description('Stripe meter events; the API key is read from standard input or a file')
    .requiredOption('--event-name <name>', "the meter's event name")
    .requiredOption('--customers <file>', 'a JSON file: Stripe customers by account name or id')
    .option('--value <figure>', `the figure to meter: ${METERED_FIGURES.join(', ')}`, 'cost_nanousd')
    .option('--file <file>', 'a file that contains only the API key')
    .option('--url <url>', "the address of Stripe's API", 'https://api.stripe.com')
    .action(async (name: string, options: StripeOptions, command: Command) => {
      const api_key = (await readSecret(command, options.file)).trim();
      const listed = readIds(options.customers);
      await run(
        command,
        async (session) => {
          const customers = await byAccount(session.control, listed);
          const { url, eventName, value } = options;
          const rest = { event_name: eventName, value: value as StripeValue, customers };
          const allow_private = options.allowPrivate ?? false;
          return addSink(session, name, { kind: 'stripe', url, api_key, ...rest, allow_private }, options);
        },
        showAdded,
      );
    });
}

type PlaceOptions = { account?: string; from?: string; allowPrivate?: true };
type CloudEventsOptions = PlaceOptions & { tokenFile?: string; eventType?: string };
type KafkaOptions = PlaceOptions & Cluster;
type LagoOptions = PlaceOptions & { code: string; subscriptions?: string; file?: string; url: string };
type StripeOptions = PlaceOptions & {
  eventName: string;
  customers: string;
  value: string;
  file?: string;
  url: string;
};
type StripeValue = SinkConfigOf<'stripe'>['value'];
type Added = { id: string; name: string; position: number; is_new: boolean };

/** The options of every kind. */
function withPlace(command: Command): Command {
  return withJson(command)
    .option('--account <name>', 'only spend events of this account, without upstream costs')
    .option('--from <position>', 'start behind this position; 0: with the first event (default: now)')
    .option('--allow-private', 'allow an address on this machine or in a private network');
}

/** @throws {DecisionError} when the configuration is invalid. */
async function addSink(
  { control, client, config: settings }: Session,
  name: string,
  config: SinkConfig,
  { account, from }: PlaceOptions,
): Promise<Added> {
  const owner =
    account === undefined ? null : requireAccount((await control.load()).accountNamed(account), account).id;
  const after = from === undefined ? 'now' : readPosition(from);
  const pepper = await loadPepper(client, settings);
  const sinks = new SinkControl(control, client);
  const { id, position, is_new } = await sinks.configure(pepper, { name, config, account: owner, after });
  return { id, name, position, is_new };
}

const showAdded = ({ id, name, position, is_new }: Added): string =>
  `Sink "${name}" (${id}) is ${is_new ? 'added' : 'configured again'}, at position ${position}.`;

/** Ids of another system by account, as a file lists them. */
function readIds(file: string): Record<string, string> {
  let listed: unknown;
  try {
    listed = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'it is no JSON';
    throw new DecisionError('invalid', `${file} can't be read (${reason}).`);
  }
  const isMap =
    typeof listed === 'object' &&
    listed !== null &&
    Object.values(listed).every((value) => typeof value === 'string');
  if (!isMap) throw new DecisionError('invalid', `${file} must be an object of ids by account.`);
  return listed as Record<string, string>;
}

/** @throws {DecisionError} naming an account that doesn't exist. */
async function byAccount(control: Control, listed: Record<string, string>): Promise<Record<string, string>> {
  const model = await control.load();
  return Object.fromEntries(
    Object.entries(listed).map(([account, id]) => {
      const found = model.accountNamed(account) ?? model.account(account);
      return [requireAccount(found, account).id, id];
    }),
  );
}
