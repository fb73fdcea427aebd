import { SINK_KINDS, type SinkKind } from '#db/spend/sink-kinds.ts';

/** Texts for sinks. Pure. */

export const KINDS: Record<SinkKind, { name: string; about: string }> = {
  webhook: { name: 'Webhook', about: 'Signed batches of JSON, per Standard Webhooks.' },
  cloudevents: { name: 'CloudEvents', about: 'Batches of CloudEvents 1.0, such as for OpenMeter.' },
  lago: { name: 'Lago', about: 'Usage events of a billable metric.' },
  stripe: { name: 'Stripe', about: 'Meter events of your customers.' },
  kafka: { name: 'Kafka', about: 'Records of a topic, keyed by account.' },
};
export const KIND_CHOICES = SINK_KINDS.map((value) => ({
  value,
  label: KINDS[value].name,
  hint: KINDS[value].about,
}));

/** The figures that a Stripe meter can count. */
export const FIGURES = {
  cost_nanousd: 'Cost in nano-dollars',
  tokens: 'Tokens',
  input_tokens: 'Input tokens',
  output_tokens: 'Output tokens',
  requests: 'Requests',
} as const;
