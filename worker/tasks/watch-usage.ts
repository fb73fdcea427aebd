import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import { anomalyAlert, boundAnomalies, type HourFigures, mostSpecific } from '#db/alerts/anomaly-alerts.ts';
import type { Alert } from '#db/alerts/alerts.ts';
import { FLOORS, HISTORY_HOURS_MAX } from '#db/forecast/anomaly.ts';
import { UNIT_MS } from '#db/forecast/forecast.ts';
import { readHistory } from '#db/forecast/read-history.ts';
import { db, rowsOf } from '#db/schema/query.ts';

/** Hours of subjects per run, those with the largest usage first. */
const HOURS_MAX = 500;

/**
 * The keys, end users and models that used a notable amount in this hour or the one before, which may have
 * been judged before its last calls ended.
 */
export const notableHours = () =>
  db
    .selectFrom('projection.usage_history as u')
    .leftJoin('projection.account as a', 'a.id', 'u.account')
    .leftJoin('projection.key as k', (join) => join.on(sql<boolean>`u.subject = 'key/' || k.id`))
    .select([
      'u.subject',
      'u.account',
      'a.name as account_name',
      'k.name as key_name',
      'u.hour',
      sql<number>`u.tokens::float8`.as('tokens'),
      sql<number>`u.cost_nanousd::float8`.as('cost_nanousd'),
      sql<Date>`statement_timestamp()`.as('now'),
    ])
    .where('u.hour', '>=', sql<Date>`date_trunc('hour', statement_timestamp(), 'UTC') - interval '1 hour'`)
    .where(({ eb, or }) =>
      or([
        eb('u.tokens', '>=', String(FLOORS.tokens)),
        eb('u.cost_nanousd', '>=', String(FLOORS.cost_nanousd)),
      ]),
    )
    // End users within one key are left to those of the account.
    .where(sql<boolean>`u.subject ~ '^(key/|model/|end_user/[^/]+/[^/]+$)'`)
    .orderBy(
      sql`greatest(u.tokens::float8 / ${sql.lit(FLOORS.tokens)},
        u.cost_nanousd::float8 / ${sql.lit(FLOORS.cost_nanousd)})`,
      'desc',
    )
    .orderBy('u.subject')
    .limit(HOURS_MAX);

/** By account the alerts of unusual usage that were raised on the day of a time (UTC). */
async function countToday(client: ClientBase, now: Date): Promise<Map<string, number>> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.alert')
      .select(['account', sql<number>`count(*)::int`.as('count')])
      .where('raised_at', '>=', new Date(now.toISOString().slice(0, 10)))
      .where('kind', '=', 'usage_anomaly')
      .groupBy('account'),
  );
  return new Map(rows.map(({ account, count }) => [account ?? '', count]));
}

/** Raises an alert for each key, end user or model whose usage of an hour leaves its own history. */
export async function watchUsage(client: ClientBase): Promise<void> {
  const rows = await rowsOf(client, notableHours());
  const now = rows[0]?.now;
  if (now === undefined) return;
  const unusual: Alert[] = [];
  for (const [hourMs, own] of Map.groupBy(rows, ({ hour }) => hour.getTime()))
    unusual.push(...(await judge(client, hourMs, own)));
  const alerts = mostSpecific(unusual);
  const raised = await readRaised(
    client,
    alerts.map(({ topic }) => topic),
  );
  const due = alerts.filter(({ topic }) => !raised.has(topic));
  if (due.length > 0) await raiseAlerts(client, boundAnomalies(due, await countToday(client, now), now));
}

async function judge(client: ClientBase, hourMs: number, rows: readonly HourFigures[]): Promise<Alert[]> {
  const subjects = rows.map(({ subject }) => subject);
  const range = { fromMs: hourMs - HISTORY_HOURS_MAX * UNIT_MS.hour, toMs: hourMs };
  const histories = await readHistory(client, subjects, 'hour', range);
  const alerts: Alert[] = [];
  for (const row of rows) {
    const history = histories.get(row.subject);
    const alert = history === undefined ? null : anomalyAlert(row, history);
    if (alert !== null) alerts.push(alert);
    // Each may take 5 ms: hundreds at once would hold up the worker's heartbeat.
    await setImmediate();
  }
  return alerts;
}
