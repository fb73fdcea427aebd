import { z } from 'zod';
import { ALERT_FILTER_FIELDS, ALERT_KINDS, type AlertFilter, type AlertKind } from '#db/alerts/alerts.ts';
import { DESTINATION_KINDS, type DestinationKind } from '#db/alerts/destination-kinds.ts';
import { Id } from '#db/events/parts.ts';
import { RequestFilter } from '#server/contract/requests.ts';

/** The fields of the filter of requests that alerts have. */
export const AlertsQuery = RequestFilter.pick(
  Object.fromEntries(ALERT_FILTER_FIELDS.map((field) => [field, true])) as Record<keyof AlertFilter, true>,
);

/** One in `GET /api/v1/alerts?key=…`, a list of the newest. Members see alerts of their account. */
export type AlertRow = {
  id: string;
  kind: AlertKind | 'test';
  state: 'raised' | 'recovered';
  account: string | null;
  account_name: string | null;
  details: Record<string, unknown>;
  raised_at: string;
  deliveries: { delivered: number; pending: number; failed: number };
};

/**
 * One in `GET /api/v1/destinations`, a list, for administrators and auditors. Destinations aren't events,
 * since their addresses must be erasable.
 */
export type DestinationRow = {
  id: string;
  kind: DestinationKind;
  /** Of a URL the origin; of email the address. */
  label: string;
  account: string | null;
  alerts: AlertKind[];
  /** It receives only alerts that match; see {@link AlertsQuery}. */
  filter: Omit<AlertFilter, 'account'>;
  allow_private: boolean;
  created_at: string;
  failures: number;
  failing_since: string | null;
  disabled_at: string | null;
};
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
export type CreatedDestination = { object: 'destination'; id: string; secret: string | null };
/**
 * `DELETE /api/v1/destinations/:destination` → `{object: 'destination', id}`;
 * `POST /api/v1/destinations/:destination/test` → `{object: 'delivery', id}`
 */
export const DeliveriesQuery = z.strictObject({ destination: Id.optional() });
/** One in `GET /api/v1/deliveries?destination=`, a list of the newest, for administrators and auditors. */
export type DeliveryRow = {
  id: string;
  destination: string;
  alert_kind: string;
  state: 'pending' | 'delivered' | 'failed';
  created_at: string;
  ended_at: string | null;
  attempts: { at: string; status: number | null; error: string | null; duration_ms: number }[];
};
