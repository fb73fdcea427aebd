import type { Alert } from '#db/alerts/alerts.ts';
import { alertOfQuota, limitOfQuota, type QuotaFigures, windowName } from '#db/alerts/quota-alerts.ts';
import type { Forecast } from '#db/forecast/read-forecasts.ts';
import { windowEnd } from '#db/limits/windows.ts';

/** Alerts of quotas that are projected to be exceeded before their reset. Pure. */

export type BudgetFigures = Omit<QuotaFigures, 'hard_cap'>;

/** The share of a window before which nothing is projected from it: early figures say little. */
const ELAPSED_MIN = 0.1;

/** Once for each window, so that a projection that moves about its limit raises one alert. */
export const forecastTopic = (budget: BudgetFigures): string => `budget_forecast/${windowName(budget)}`;

/** @param raised topics that were raised. */
export function forecastAlert(
  budget: BudgetFigures,
  forecast: Forecast | null,
  raised: ReadonlyMap<string, number>,
  nowMs: number,
): Alert | null {
  const limit = limitOfQuota(budget);
  const projection = forecast?.projection ?? null;
  const topic = forecastTopic(budget);
  if (limit === null || projection === null || raised.has(topic)) return null;
  const startMs = budget.window_start * 60_000;
  const endMs = windowEnd(limit.window, budget.window_start) * 60_000;
  // From its limit on the alerts of usage are about it.
  const isRunning = budget.used < budget.cap && nowMs < endMs;
  if (!isRunning || nowMs - startMs < (endMs - startMs) * ELAPSED_MIN) return null;
  if (projection.projected < budget.cap) return null;
  return alertOfQuota('budget_forecast', topic, budget, {
    ...limit,
    limit: budget.cap,
    used: budget.used,
    ...projection,
    window_starts_at: new Date(startMs).toISOString(),
    window_ends_at: new Date(endMs).toISOString(),
  });
}
