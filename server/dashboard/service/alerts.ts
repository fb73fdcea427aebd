import type { ClientBase } from 'pg';
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

type AlertRecord = Omit<AlertRow, 'raised_at' | 'account_name' | 'deliveries'> & {
  raised_at: Date;
} & AlertRow['deliveries'];

/**
 * The newest alerts. Those about one account are looked for among the newest of all, so that a list
 * costs the same however many there are.
 * @param account null: all, and those that are about no account.
 */
export async function listAlerts(
  client: ClientBase,
  account: string | null,
  nameOf: (account: string) => string | null,
): Promise<AlertRow[]> {
  const { rows } = await client.query<AlertRecord>(
    `select a.id, a.kind, a.state, a.account, a.details, a.raised_at, d.delivered, d.pending, d.failed
      from (select *
        from (select * from daybook.alert order by raised_at desc limit ${ALERTS_LOOK_MAX}) looked
        where $1::text is null or account = $1 order by raised_at desc, id desc limit ${ALERTS_LISTED_MAX}) a
      cross join lateral (select count(*) filter (where state = 'delivered')::int as delivered,
        count(*) filter (where state = 'waiting')::int as pending,
        count(*) filter (where state = 'failed')::int as failed
        from daybook.webhook_delivery where alert = a.id) d
      order by a.raised_at desc, a.id desc`,
    [account],
  );
  return rows.map(({ raised_at, delivered, pending, failed, ...alert }) => ({
    ...alert,
    account_name: alert.account === null ? null : nameOf(alert.account),
    raised_at: raised_at.toISOString(),
    deliveries: { delivered, pending, failed },
  }));
}

type DeliveryRecord = Omit<DeliveryRow, 'created_at' | 'ended_at'> & {
  created_at: Date;
  ended_at: Date | null;
};

/** The newest deliveries with their attempts, the first attempt first. @param webhook null: of all. */
export async function listDeliveries(client: ClientBase, webhook: string | null): Promise<DeliveryRow[]> {
  const { rows } = await client.query<DeliveryRecord>(
    `select d.id, d.webhook, a.kind as alert_kind,
        case d.state when 'waiting' then 'pending' else d.state end as state, d.created_at, d.ended_at,
        (select coalesce(json_agg(json_build_object('at', t.attempted_at, 'status', t.status,
            'error', t.fault, 'duration_ms', t.duration_ms) order by t.attempted_at), '[]')
          from (select * from daybook.webhook_attempt where delivery = d.id
            order by attempted_at desc limit ${ATTEMPTS_SHOWN_MAX}) t) as attempts
      from daybook.webhook_delivery d join daybook.alert a on a.id = d.alert
      where $1::text is null or d.webhook = $1 order by d.id desc limit ${DELIVERIES_LISTED_MAX}`,
    [webhook],
  );
  return rows.map(({ created_at, ended_at, attempts, ...delivery }) => ({
    ...delivery,
    created_at: created_at.toISOString(),
    ended_at: ended_at?.toISOString() ?? null,
    attempts: attempts.map((attempt) => ({ ...attempt, at: new Date(attempt.at).toISOString() })),
  }));
}
