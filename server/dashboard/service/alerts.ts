import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { AlertFilter } from '#db/alerts/alerts.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import {
  ALERTS_LISTED_MAX,
  ALERTS_LOOK_MAX,
  ATTEMPTS_SHOWN_MAX,
  DELIVERIES_LISTED_MAX,
} from '#server/dashboard/bounds.ts';
import type { AlertRow, DeliveryRow } from '#server/contract/alerts.ts';
import type { Source } from '#server/read/store.ts';

/** Alerts and deliveries are the worker's own tables, and no projection. */
export const ALERTS: Source = { projection: 'directory', tables: [] };

/**
 * The newest alerts that match a filter. They are looked for among the newest of all, so that a list costs
 * the same however many there are.
 * @param scope the account whose alerts the reader may see; null: all, and those that are about no account.
 */
export async function listAlerts(
  client: ClientBase,
  scope: string | null,
  { account, ...fields }: AlertFilter,
  nameOf: (account: string) => string | null,
): Promise<AlertRow[]> {
  const looked = db
    .selectFrom('daybook.alert')
    .selectAll()
    .orderBy('raised_at', 'desc')
    .limit(ALERTS_LOOK_MAX);
  let listed = db
    .selectFrom(looked.as('looked'))
    .selectAll()
    .orderBy('raised_at', 'desc')
    .orderBy('id', 'desc')
    .limit(ALERTS_LISTED_MAX);
  for (const only of [scope, account])
    if (typeof only === 'string') listed = listed.where('account', '=', only);
  if (Object.keys(fields).length > 0)
    listed = listed.where(sql<boolean>`details @> ${JSON.stringify(fields)}::jsonb`);
  const query = db
    .selectFrom(listed.as('a'))
    .crossJoinLateral((eb) =>
      eb
        .selectFrom('daybook.alert_delivery')
        .select([
          sql<number>`count(*) filter (where state = 'delivered')::int`.as('delivered'),
          sql<number>`count(*) filter (where state = 'waiting')::int`.as('pending'),
          sql<number>`count(*) filter (where state = 'failed')::int`.as('failed'),
        ])
        .whereRef('alert', '=', 'a.id')
        .as('d'),
    )
    .select(['a.id', 'a.kind', 'a.state', 'a.account', 'a.details', 'a.raised_at'])
    .select(['d.delivered', 'd.pending', 'd.failed'])
    .orderBy('a.raised_at', 'desc')
    .orderBy('a.id', 'desc');
  const rows = await rowsOf(client, query);
  return rows.map(({ raised_at, delivered, pending, failed, kind, details, ...alert }) => ({
    ...alert,
    kind: kind as AlertRow['kind'],
    details: details as AlertRow['details'],
    account_name: alert.account === null ? null : nameOf(alert.account),
    raised_at: raised_at.toISOString(),
    deliveries: { delivered, pending, failed },
  }));
}

/** The newest attempts of the delivery `d` in order. */
const ATTEMPTS = sql<DeliveryRow['attempts']>`(
  select coalesce(json_agg(json_build_object('at', t.attempted_at, 'status', t.status,
      'error', t.fault, 'duration_ms', t.duration_ms) order by t.attempted_at), '[]')
    from (select * from daybook.alert_attempt where delivery = d.id
      order by attempted_at desc limit ${ATTEMPTS_SHOWN_MAX}) t)`;

/** The newest deliveries with their attempts, the first attempt first. @param destination null: of all. */
export async function listDeliveries(client: ClientBase, destination: string | null): Promise<DeliveryRow[]> {
  let query = db
    .selectFrom('daybook.alert_delivery as d')
    .innerJoin('daybook.alert as a', 'a.id', 'd.alert')
    .select(['d.id', 'd.destination', 'a.kind as alert_kind', 'd.state', 'd.created_at', 'd.ended_at'])
    .select(ATTEMPTS.as('attempts'))
    .orderBy('d.id', 'desc')
    .limit(DELIVERIES_LISTED_MAX);
  if (destination !== null) query = query.where('d.destination', '=', destination);
  const rows = await rowsOf(client, query);
  return rows.map(({ state, created_at, ended_at, attempts, ...delivery }) => ({
    ...delivery,
    state: state === 'waiting' ? 'pending' : state,
    created_at: created_at.toISOString(),
    ended_at: ended_at?.toISOString() ?? null,
    attempts: attempts.map((attempt) => ({ ...attempt, at: new Date(attempt.at).toISOString() })),
  }));
}
