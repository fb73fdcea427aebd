import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import type { SinkKind } from '#db/spend/sink-kinds.ts';

/**
 * Sinks: receivers of spend events outside of Daybook. Pure.
 *
 * To add a kind: add its name to `SINK_KINDS` (db/spend/sink-kinds.ts), its configuration to
 * {@link SinkConfig}, its client to worker/sinks/open-sink.ts, its command to server/cli/sinks/ and its
 * form to web/features/sinks/. The compiler names all but the command.
 */

const Url = z.url({ protocol: /^https?$/ }).max(2_000);
/** `host:port`; the host is a name, an IPv4 address, or an IPv6 address in brackets. */
export const BROKER = /^(?:[^\s:[\]/@]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})$/;
const Secret = z.string().min(1).max(10_000);
/** Whether addresses in private networks and on this machine may be connected to. */
const allow_private = z.boolean();

/** Batches in one JSON body each, signed per Standard Webhooks. */
const Webhook = z.strictObject({ kind: z.literal('webhook'), url: Url, secret: Secret, allow_private });

/** Batches of CloudEvents 1.0 in JSON, as OpenMeter accepts them. */
const CloudEvents = z.strictObject({
  kind: z.literal('cloudevents'),
  url: Url,
  /** Sent as `Authorization: Bearer`. */
  token: Secret.optional(),
  /** The `type` of events; absent: `daybook.` and the type of the spend event. */
  event_type: z.string().min(1).max(200).optional(),
  allow_private,
});

/** The figures that a meter can count. `tokens`: of prompts, replies and abandoned requests. */
export const METERED_FIGURES = [
  'cost_nanousd',
  'tokens',
  'input_tokens',
  'output_tokens',
  'requests',
] as const;

/** Stripe meter events, one request for each spend event. */
const Stripe = z.strictObject({
  kind: z.literal('stripe'),
  /** The address of Stripe's API. */
  url: Url,
  api_key: Secret,
  event_name: z.string().min(1).max(100),
  value: z.enum(METERED_FIGURES),
  /** Stripe's customers by account. Events of other accounts are not sent. */
  customers: z.record(Id, z.string().min(1).max(200)),
  allow_private,
});

/** Usage events of Lago, in batches. */
const Lago = z.strictObject({
  kind: z.literal('lago'),
  /** The address of Lago's API. */
  url: Url,
  api_key: Secret,
  /** The code of the billable metric. */
  code: z.string().min(1).max(200),
  /**
   * External ids of Lago's subscriptions by account; events of other accounts are not sent. Absent: the
   * account's id is that of its subscription.
   */
  subscriptions: z.record(Id, z.string().min(1).max(200)).optional(),
  allow_private,
});

/** A topic of a Kafka cluster. */
const Kafka = z.strictObject({
  kind: z.literal('kafka'),
  /** `host:port` of some brokers. */
  brokers: z.array(z.string().max(300).regex(BROKER, 'must be host:port')).min(1).max(20),
  topic: z.string().regex(/^[A-Za-z0-9._-]{1,249}$/),
  tls: z.boolean(),
  /** Certificates in PEM that replace the public authorities. */
  ca: z.string().min(1).max(100_000).optional(),
  sasl: z
    .strictObject({
      mechanism: z.enum(['plain', 'scram-sha-256', 'scram-sha-512']),
      username: z.string().min(1).max(300),
      password: Secret,
    })
    .optional(),
  allow_private,
});

export const SinkConfig = z.discriminatedUnion('kind', [Webhook, CloudEvents, Lago, Stripe, Kafka]);
export type SinkConfig = z.infer<typeof SinkConfig>;
export type SinkConfigOf<K extends SinkKind> = Extract<SinkConfig, { kind: K }>;

/** As a form has it: the secret of a webhook is made by the server. */
export const SinkConfigInput = z.discriminatedUnion('kind', [
  Webhook.omit({ secret: true }),
  CloudEvents,
  Lago,
  Stripe,
  Kafka,
]);
export type SinkConfigInput = z.infer<typeof SinkConfigInput>;
