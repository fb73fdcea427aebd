import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { Alert } from '#db/alerts/alerts.ts';
import { db, rowsOf } from '#db/schema/query.ts';

/** The newest occurrence of each topic that was raised before. */
export async function readRaised(
  client: ClientBase,
  topics: readonly string[],
): Promise<Map<string, number>> {
  if (topics.length === 0) return new Map();
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.alert')
      .select((eb) => ['topic', eb.fn.max('ordinal').as('ordinal')])
      .where((eb) => eb('topic', '=', eb.fn.any(sql.val(topics))))
      .groupBy('topic'),
  );
  return new Map(rows.map(({ topic, ordinal }) => [topic, ordinal]));
}

/**
 * Alerts per statement: even with the maximum number of destinations, queuing their deliveries takes much
 * less than the statement timeout.
 */
const ALERTS_PER_STATEMENT = 50;

/**
 * Raises alerts and queues them for the subscribed destinations, except those that another process has
 * raised. Ordered by topic, so that two processes that raise the same alerts can't deadlock.
 */
export async function raiseAlerts(client: ClientBase, alerts: readonly Alert[]): Promise<void> {
  for (let from = 0; from < alerts.length; from += ALERTS_PER_STATEMENT) {
    await client.query(
      `select daybook.raise_alert(a.topic, a.ordinal, a.kind, a.state, a.account, a.details)
        from jsonb_to_recordset($1) as a(topic text, ordinal integer, kind text, state text, account text,
          details jsonb)
        order by a.topic`,
      [JSON.stringify(alerts.slice(from, from + ALERTS_PER_STATEMENT))],
    );
  }
}
