import { z } from 'zod';
import { Control, Count, Id } from '#db/events/parts.ts';
import { SINK_KINDS } from '#db/spend/sink-kinds.ts';

/** Sinks, the receivers of spend events. Their addresses and secrets are never in events. Pure. */

export const SinkName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'must be lower-case letters, digits, ".", "_" and "-"');

/** The sink was added, or its configuration was replaced. */
export const SinkConfigured = Control.extend({
  type: z.literal('sink.configured'),
  sink: SinkName,
  kind: z.enum(SINK_KINDS),
  /** The one account whose spend events it gets; absent: all. No event of that account. */
  only_account: Id.optional(),
  /** The position behind which it starts; absent: where it was. */
  position: Count.optional(),
});
export const SinkRemoved = Control.extend({ type: z.literal('sink.removed'), sink: SinkName });
/** Nothing is delivered until it is resumed. */
export const SinkPaused = Control.extend({ type: z.literal('sink.paused'), sink: SinkName });
export const SinkResumed = Control.extend({ type: z.literal('sink.resumed'), sink: SinkName });
/** Delivery continues behind another position, earlier or later. */
export const SinkRewound = Control.extend({
  type: z.literal('sink.rewound'),
  sink: SinkName,
  from_position: Count,
  position: Count,
});
