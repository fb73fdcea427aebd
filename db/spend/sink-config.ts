import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import type { SinkKind } from '#db/events/sink-events.ts';
import { seal, unseal } from '#db/secrets/seal.ts';

/**
 * Sinks: receivers of spend events outside of Daybook, and how their configuration is stored.
 *
 * To add a kind: add its name to `SINK_KINDS` (db/events/sink-events.ts), its configuration to
 * {@link SinkConfig}, its client to worker/sinks/open-sink.ts and its command to server/cli/sinks/. The
 * compiler names the first two of them.
 */

const Url = z.url({ protocol: /^https?$/ }).max(2_000);
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

/** A topic of a Kafka cluster. */
const Kafka = z.strictObject({
  kind: z.literal('kafka'),
  /** `host:port` of some brokers. */
  brokers: z.array(z.string().min(1).max(300)).min(1).max(20),
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

export const SinkConfig = z.discriminatedUnion('kind', [Webhook, CloudEvents, Stripe, Kafka]);
export type SinkConfig = z.infer<typeof SinkConfig>;
export type SinkConfigOf<K extends SinkKind> = Extract<SinkConfig, { kind: K }>;

const PURPOSE = 'daybook sink configuration';

/** Seals the configuration of the sink with this id: addresses are often secrets themselves. */
export function sealSinkConfig(pepper: Buffer, id: string, config: SinkConfig): Buffer {
  return seal(pepper, PURPOSE, id, JSON.stringify(config));
}

/** @throws {Error} if it was sealed under another pepper or for another sink, or was modified. */
export function unsealSinkConfig(pepper: Buffer, id: string, sealed: Buffer): SinkConfig {
  return SinkConfig.parse(JSON.parse(unseal(pepper, PURPOSE, id, sealed)));
}
