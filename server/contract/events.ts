import { z } from 'zod';
import { Id } from '#db/events/parts.ts';

/** `GET /api/v1/events`: the log, newest first. Members see events of their account. */
export const EventsQuery = z.strictObject({
  /** An event type, or a prefix up to the dot, such as `key`. */
  type: z
    .string()
    .regex(
      /^[a-z_]{1,30}(\.[a-z_]{1,30})?$/,
      'must be a type such as key.rotated, or its beginning such as key',
    )
    .optional(),
  account: Id.optional(),
  key: Id.optional(),
  member: Id.optional(),
  request: z.uuid('must be the id of a request').optional(),
  /** Events from this position downwards. */
  at: z.coerce.number().int().min(1).optional(),
  from: z.iso
    .datetime({ offset: true })
    .transform((text) => new Date(text))
    .optional(),
  to: z.iso
    .datetime({ offset: true })
    .transform((text) => new Date(text))
    .optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(100).optional(),
});
export type EventsQuery = z.infer<typeof EventsQuery>;
/** An event of the log: its position, then its own fields. */
export const EventRow = z.object({
  position: z.number(),
  at: z.string(),
  instance: z.number(),
  stream: z.string().nullable(),
  version: z.number().nullable(),
  type: z.string(),
  actor: z.string().nullable(),
  fields: z.record(z.string(), z.unknown()),
});
export type EventRow = z.infer<typeof EventRow>;
export const EventPage = z.object({
  object: z.literal('list'),
  data: z.array(EventRow),
  next: z.string().nullable(),
  /** The newest position of the log. */
  head: z.number(),
  /** The oldest position that this page scanned. */
  scanned_to: z.number(),
});
export type EventPage = z.infer<typeof EventPage>;
/** `GET /api/v1/events.ndjson` with the same query: one event a line, the oldest first. */
