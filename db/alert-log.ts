import type { ClientBase } from 'pg';
import type { Alert } from '#db/alerts.ts';

/** Which of these topics were raised before, and how often. */
export async function readRaised(client: ClientBase, topics: readonly string[]): Promise<Map<string, number>> {
  if (topics.length === 0) return new Map();
  const { rows } = await client.query<{ topic: string; ordinal: number }>(
    'select topic, max(ordinal) as ordinal from daybook.alert where topic = any($1) group by topic',
    [topics],
  );
  return new Map(rows.map(({ topic, ordinal }) => [topic, ordinal]));
}

/** Writes an alert down and queues it for those that want it; nothing when somebody else was faster. */
export async function raiseAlert(client: ClientBase, { topic, ordinal, kind, state, account, details }: Alert): Promise<void> {
  await client.query('select daybook.raise_alert($1, $2, $3, $4, $5, $6)', [topic, ordinal, kind, state, account, JSON.stringify(details)]);
}
