import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import { SinkName } from '#db/events/sink-events.ts';
import { SinkConfigInput } from '#db/spend/sink-config.ts';
import type { SinkKind } from '#db/spend/sink-kinds.ts';
import type { Change } from '#server/contract/keys.ts';

/** Sinks, the receivers of spend events. Pure. */

/**
 * One in `GET /api/v1/sinks`, a list by name, for administrators and auditors; `GET /api/v1/status` has them,
 * too.
 */
export type SinkRow = {
  id: string;
  name: string;
  kind: SinkKind;
  /** The one account whose spend events it gets; null: all. */
  account: string | null;
  /** `failing`: no delivery has succeeded since the last failed one. */
  state: 'active' | 'paused' | 'failing';
  created_at: string;
  paused_at: string | null;
  /** A restore paused it: the original may still deliver. */
  restored: boolean;
  /** It has acknowledged every event up to here. */
  position: number;
  /** Positions of the log that it lacks, and the age of the oldest of them in ms. */
  behind: number;
  behind_ms: number;
  delivered: number;
  delivered_at: string | null;
  /** Failed deliveries in a row, since when, why the newest failed, and when the next one is due. */
  failures: number;
  failing_since: string | null;
  error: string | null;
  next_attempt_at: string | null;
  /** The newest test event; `pending`: no worker has sent it yet. */
  test: { state: 'pending' | 'accepted' | 'failed'; at: string; error: string | null } | null;
};

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
export type ConfiguredSink = Change & {
  object: 'sink';
  id: string;
  position: number;
  /** It signs deliveries of a webhook, and is shown once; null for other kinds. */
  secret: string | null;
};
/** `PATCH /api/v1/sinks/:sink` → `Change`: pauses, resumes, or continues behind another position. */
export const ChangeSink = z.union([
  z.strictObject({ paused: z.boolean() }),
  z.strictObject({ position: z.number().int().min(0) }),
]);
/** `DELETE /api/v1/sinks/:sink` → `Change`; `POST /api/v1/sinks/:sink/test` → `{object: 'sink', id}` */
