import { z } from 'zod';
import { ALERT_FILTER_FIELDS, ALERT_KINDS, type AlertFilter } from '#db/alerts/alerts.ts';
import { DESTINATION_KINDS } from '#db/alerts/destination-kinds.ts';
import { Id } from '#db/events/parts.ts';
import { RequestFilter } from '#server/contract/requests.ts';

/** The fields of the filter of requests that alerts have. */
export const AlertsQuery = RequestFilter.pick(
  Object.fromEntries(ALERT_FILTER_FIELDS.map((field) => [field, true])) as Record<keyof AlertFilter, true>,
);

/** One in `GET /api/v1/alerts?key=…`, a list of the newest. Members see alerts of their account. */
export const AlertRow = z.object({
  id: z.string(),
  kind: z.union([z.enum(ALERT_KINDS), z.literal('test')]),
  state: z.enum(['raised', 'recovered']),
  account: z.string().nullable(),
  account_name: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  raised_at: z.string(),
  deliveries: z.object({ delivered: z.number(), pending: z.number(), failed: z.number() }),
});
export type AlertRow = z.infer<typeof AlertRow>;

/**
 * One in `GET /api/v1/destinations`, a list, for administrators and auditors. Destinations aren't events,
 * since their addresses must be erasable.
 */
export const DestinationRow = z.object({
  id: z.string(),
  kind: z.enum(DESTINATION_KINDS),
  /** Of a URL the origin; of email the address. */
  label: z.string(),
  account: z.string().nullable(),
  alerts: z.array(z.enum(ALERT_KINDS)),
  /** It receives only alerts that match; see {@link AlertsQuery}. */
  filter: AlertsQuery.omit({ account: true }),
  allow_private: z.boolean(),
  created_at: z.string(),
  failures: z.number(),
  failing_since: z.string().nullable(),
  disabled_at: z.string().nullable(),
});
export type DestinationRow = z.infer<typeof DestinationRow>;
/** `POST /api/v1/destinations` → {@link CreatedDestination} */
export const CreateDestination = z.strictObject({
  kind: z.enum(DESTINATION_KINDS),
  /** A URL, or the email address. */
  address: z.string().max(2_000),
  account: Id.nullable().default(null),
  alerts: z.array(z.enum(ALERT_KINDS)).min(1),
  filter: AlertsQuery.omit({ account: true }).default({}),
  allow_private: z.boolean().default(false),
});
/** The secret that signs deliveries of a webhook, shown once; null for other kinds. */
export const CreatedDestination = z.object({
  object: z.literal('destination'),
  id: z.string(),
  secret: z.string().nullable(),
});
export type CreatedDestination = z.infer<typeof CreatedDestination>;
/**
 * `DELETE /api/v1/destinations/:destination` → `{object: 'destination', id}`;
 * `POST /api/v1/destinations/:destination/test` → `{object: 'delivery', id}`
 */
export const DeliveriesQuery = z.strictObject({ destination: Id.optional() });
/** One in `GET /api/v1/deliveries?destination=`, a list of the newest, for administrators and auditors. */
export const DeliveryRow = z.object({
  id: z.string(),
  destination: z.string(),
  alert_kind: z.string(),
  state: z.enum(['pending', 'delivered', 'failed']),
  created_at: z.string(),
  ended_at: z.string().nullable(),
  attempts: z.array(
    z.object({
      at: z.string(),
      status: z.number().nullable(),
      error: z.string().nullable(),
      duration_ms: z.number(),
    }),
  ),
});
export type DeliveryRow = z.infer<typeof DeliveryRow>;
