import { z } from 'zod';
import { ALERT_KINDS, type AlertKind } from '#db/alerts/alerts.ts';
import { Id } from '#db/events/parts.ts';

/**
 * What the dashboard and the server say to one another about the service itself, its alerts and its log.
 * Pure.
 */

/**
 * `GET /api/status`, for administrators and auditors. Of a server that is late nobody has heard for some
 * seconds.
 */
export type Status = {
  object: 'status';
  version: string;
  now: string;
  log: { position: number; at: string | null };
  instances: {
    id: number;
    name: string;
    kind: 'server' | 'worker' | 'other';
    started_at: string;
    heartbeat_at: string;
    state: 'live' | 'late';
  }[];
  projections: {
    name: string;
    position: number;
    behind: number;
    as_of: string | null;
    parked: number;
    state: 'live' | 'aside';
  }[];
  /** Open live feeds and running calls of the server that answers. */
  server: { instance: number; running: number; viewers: number; store: string };
  upstreams: { name: string; /** Scheme, host and port. */ origin: string; models: string[] }[];
  postgres: string;
};

/** One in `GET /api/alerts`, a list of the newest. Members see those about their account. */
export type AlertRow = {
  id: string;
  kind: AlertKind | 'test';
  state: 'raised' | 'recovered';
  account: string | null;
  account_name: string | null;
  details: Record<string, unknown>;
  raised_at: string;
  deliveries: { delivered: number; waiting: number; failed: number };
};

/**
 * One in `GET /api/webhooks`, a list, for administrators and auditors. Webhooks are no events: their
 * addresses must be erasable.
 */
export type WebhookRow = {
  id: string;
  origin: string;
  account: string | null;
  alerts: AlertKind[];
  allow_private: boolean;
  created_at: string;
  failures: number;
  failing_since: string | null;
  switched_off_at: string | null;
};
/** `POST /api/webhooks` → {@link WebhookMade} */
export const CreateWebhook = z.strictObject({
  url: z.string().max(2_000),
  account: Id.nullable().default(null),
  alerts: z.array(z.enum(ALERT_KINDS)).min(1),
  allow_private: z.boolean().default(false),
});
/** The secret that deliveries are signed with, this once. */
export type WebhookMade = { object: 'webhook'; id: string; secret: string };
/**
 * `DELETE /api/webhooks/:webhook` → `{object: 'webhook', id}`; `POST /api/webhooks/:webhook/test` → `{object:
 * 'delivery', id}`
 */
export const DeliveriesQuery = z.strictObject({ webhook: Id.optional() });
/** One in `GET /api/deliveries?webhook=`, a list of the newest, for administrators and auditors. */
export type DeliveryRow = {
  id: string;
  webhook: string;
  alert_kind: string;
  state: 'waiting' | 'delivered' | 'failed';
  created_at: string;
  ended_at: string | null;
  attempts: { at: string; status: number | null; fault: string | null; duration_ms: number }[];
};

/** `GET /api/events`: the log, the newest first. Members see what concerns their account. */
export const EventsQuery = z.strictObject({
  /** An event's type, or the beginning of types up to the point: `key`. */
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
  /** One event and those around it: from this position down. */
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
/** An event as it stands in the log: what places it, then its own fields. */
export type EventRow = {
  position: number;
  at: string;
  instance: number;
  stream: string | null;
  version: number | null;
  type: string;
  actor: string | null;
  fields: Record<string, unknown>;
};
export type EventPage = {
  object: 'list';
  data: EventRow[];
  next: string | null;
  /** The newest position of the log. */ head: number;
  /** How far back this page looked. */ looked_to: number;
};
/** `GET /api/events.ndjson` with the same query: one event a line, the oldest first. */
