import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import { type BudgetFigures, forecastAlert, forecastTopic } from '#db/alerts/forecast-alerts.ts';
import { apartGroup, boundApart, limitOfQuota } from '#db/alerts/quota-alerts.ts';
import {
  type Budget,
  FORECAST_METERS,
  FORECAST_WINDOWS,
  type ForecastWindow,
  readForecasts,
} from '#db/forecast/read-forecasts.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { PER_HOLDER, perCode } from '#db/limits/subjects.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import { countApart } from './watch-quotas.ts';

/** Budgets per run, those with the largest used share first. */
const BUDGETS_MAX = 1_000;

/** The beginning of the current window of a kind, which is also the name of a unit of time. */
const currentStart = (window: ForecastWindow) =>
  sql<Date>`date_trunc(${sql.lit(window)}, statement_timestamp(), 'UTC')`;

/** Partly used windows that begin with a current one: found by that time alone, they are few of all. */
const current = () =>
  db
    .selectFrom('projection.quota_window')
    .selectAll()
    .where(sql<boolean>`begins_at in (${sql.join(FORECAST_WINDOWS.map(currentStart))})`)
    .where('per', 'in', [PER_HOLDER, perCode('end_user')])
    .where('used', '>', '0')
    .whereRef('used', '<', 'cap');

/** Quotas of accounts, keys and end users whose current window is partly used and has raised no forecast. */
export const usedBudgets = () =>
  db
    .with((name) => name('current').materialized(), current)
    .selectFrom('current as q')
    .leftJoin('projection.account as a', 'a.id', 'q.account')
    .select([
      'q.subject',
      'q.per',
      'q.account',
      'a.name as account_name',
      'q.meter',
      'q.window_kind',
      'q.window_start',
      sql<number>`q.reset_position::float8`.as('reset_position'),
      sql<number>`q.cap::float8`.as('cap'),
      sql<number>`q.used::float8`.as('used'),
      sql<Date>`statement_timestamp()`.as('now'),
    ])
    .where(
      'q.meter',
      'in',
      FORECAST_METERS.map((meter) => METERS[meter].code),
    )
    // Windows of other kinds begin at the same times.
    .where(({ eb, or }) =>
      or(
        FORECAST_WINDOWS.map((window) =>
          eb('q.window_kind', '=', WINDOW_KINDS[window]).and('q.begins_at', '=', currentStart(window)),
        ),
      ),
    )
    .where(
      sql<boolean>`not exists (select from daybook.alert t where t.topic = concat_ws('/', 'budget_forecast',
        q.subject, q.meter, q.window_kind, q.window_start, q.reset_position))`,
    )
    .orderBy(sql`q.used::float8 / q.cap`, 'desc')
    .orderBy('q.subject')
    .limit(BUDGETS_MAX);

/** Raises an alert for each budget that is projected to be exceeded before its reset, once a window. */
export async function watchBudgets(client: ClientBase): Promise<void> {
  const rows = await rowsOf(client, usedBudgets());
  const now = rows[0]?.now;
  if (now === undefined) return;
  const nowMs = now.getTime();
  const forecasts = await readForecasts(client, rows.map(budgetOf), nowMs);
  const raised = await readRaised(client, rows.map(forecastTopic));
  const due = rows
    .map((row, index) => forecastAlert(row, forecasts[index] ?? null, raised, nowMs))
    .filter((alert) => alert !== null);
  const isBounded = due.some((alert) => apartGroup(alert) !== null);
  await raiseAlerts(client, isBounded ? boundApart(due, await countApart(client, now), nowMs) : due);
}

function budgetOf(figures: BudgetFigures): Budget {
  const { subject, used, cap: limit } = figures;
  const kind = limitOfQuota(figures);
  if (kind === null) throw new RangeError(`unknown limit ${figures.meter}`);
  return { subject, ...kind, used, limit };
}
