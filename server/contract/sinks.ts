import { z } from 'zod';
import { ChangeReply } from '#server/contract/parts.ts';
import { Id } from '#db/events/parts.ts';
import { SinkName } from '#db/events/sink-events.ts';
import { SinkConfigInput } from '#db/spend/sink-config.ts';
import { SINK_KINDS } from '#db/spend/sink-kinds.ts';

/** Sinks, the receivers of spend events. Pure. */

/**
 * One in `GET /api/v1/sinks`, a list by name, for administrators and auditors; `GET /api/v1/status` has them,
 * too.
 */
export const SinkRow = z.object({
  id: z.string(),
  name: z.string(),
  kind: z.enum(SINK_KINDS),
  /** The one account whose spend events it gets; null: all. */
  account: z.string().nullable(),
  /** `failing`: no delivery has succeeded since the last failed one. */
  state: z.enum(['active', 'paused', 'failing']),
  created_at: z.string(),
  paused_at: z.string().nullable(),
  /** A restore paused it: the original may still deliver. */
  restored: z.boolean(),
  /** It has acknowledged every event up to here. */
  position: z.number(),
  /** Positions of the log that it lacks, and the age of the oldest of them in ms. */
  behind: z.number(),
  behind_ms: z.number(),
  delivered: z.number(),
  delivered_at: z.string().nullable(),
  /** Failed deliveries in a row, since when, why the newest failed, and when the next one is due. */
  failures: z.number(),
  failing_since: z.string().nullable(),
  error: z.string().nullable(),
  next_attempt_at: z.string().nullable(),
  /** The newest test event; `pending`: no worker has sent it yet. */
  test: z
    .object({
      state: z.enum(['pending', 'accepted', 'failed']),
      at: z.string(),
      error: z.string().nullable(),
    })
    .nullable(),
});
export type SinkRow = z.infer<typeof SinkRow>;

/** `POST /api/v1/sinks` → {@link ConfiguredSink} */
export const CreateSink = z.strictObject({
  name: SinkName,
  config: SinkConfigInput,
  account: Id.nullable().default(null),
  /** The position behind which it starts; `now`: with the next event. */
  after: z.union([z.literal('now'), z.number().int().min(0)]).default('now'),
});
/**
 * `PUT /api/v1/sinks/:sink/config` → {@link ConfiguredSink}: replaces the whole configuration, which is never
 * shown. The kind stays.
 */
export const ReplaceSinkConfig = z.strictObject({ config: SinkConfigInput });
export const ConfiguredSink = z.object({
  ...ChangeReply.shape,
  object: z.literal('sink'),
  id: z.string(),
  position: z.number(),
  /** It signs deliveries of a webhook, and is shown once; null for other kinds. */
  secret: z.string().nullable(),
});
export type ConfiguredSink = z.infer<typeof ConfiguredSink>;
/** `PATCH /api/v1/sinks/:sink` → `Change`: pauses, resumes, or continues behind another position. */
export const ChangeSink = z.union([
  z.strictObject({ paused: z.boolean() }),
  z.strictObject({ position: z.number().int().min(0) }),
]);
/** `DELETE /api/v1/sinks/:sink` → `Change`; `POST /api/v1/sinks/:sink/test` → `{object: 'sink', id}` */
