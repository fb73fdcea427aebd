/** The kinds of sinks, each with its own protocol. */
export const SINK_KINDS = ['webhook', 'cloudevents', 'lago', 'stripe', 'kafka'] as const;
export type SinkKind = (typeof SINK_KINDS)[number];
