import type { ClientBase } from 'pg';
import type { Alert } from '#db/alerts/alerts.ts';

/** Which of these topics were raised before, and how often. */
export async function readRaised(
  client: ClientBase,
  topics: readonly string[],
): Promise<Map<string, number>> {
  if (topics.length === 0) return new Map();
  const { rows } = await client.query<{ topic: string; ordinal: number }>(
    'select topic, max(ordinal) as ordinal from daybook.alert where topic = any($1) group by topic',
    [topics],
  );
  return new Map(rows.map(({ topic, ordinal }) => [topic, ordinal]));
}

/**
 * Alerts in one statement: with every webhook there may be, queuing their deliveries stays well below its
 * time-out.
 */
const ALERTS_PER_STATEMENT = 50;

/**
 * Writes alerts down and queues them for the webhooks that want them; of one that somebody else was
 * faster with, nothing. In the order of topics, so that two that raise the same ones wait in a row
 * and never in a ring.
 */
export async function raiseAlerts(client: ClientBase, alerts: readonly Alert[]): Promise<void> {
  for (let from = 0; from < alerts.length; from += ALERTS_PER_STATEMENT) {
    await client.query(
      `select daybook.raise_alert(a.topic, a.ordinal, a.kind, a.state, a.account, a.details)
        from jsonb_to_recordset($1) as a(topic text, ordinal integer, kind text, state text, account text, details jsonb) order by a.topic`,
      [JSON.stringify(alerts.slice(from, from + ALERTS_PER_STATEMENT))],
    );
  }
}
