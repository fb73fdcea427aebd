import { setImmediate } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { type BucketUnit, project, type Projection, runRate, UNIT_MS } from '#db/forecast/forecast.ts';
import { readHistory } from '#db/forecast/read-history.ts';
import type { WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';
import { minuteOf, windowEnd, windowStart } from '#db/limits/windows.ts';
import { USAGE_HISTORY_WEEKS } from '#db/projections/bounds.ts';

/** A quota in its current window. */
export type Budget = { subject: string; meter: Meter; window: WindowKind; used: number; limit: number };

export type Forecast = {
  /** Usage a day since the window began. */
  run_rate: number;
  /** Null where the history is too short. */
  projection: Projection | null;
};

/** The windows that are forecast, by the buckets of their history. Hours end before a forecast helps. */
export const FORECAST_UNITS = { day: 'hour', week: 'day', month: 'day' } as const satisfies Partial<
  Record<WindowKind, BucketUnit>
>;
export type ForecastWindow = keyof typeof FORECAST_UNITS;
export const FORECAST_WINDOWS = Object.keys(FORECAST_UNITS) as readonly ForecastWindow[];
export const FORECAST_METERS = ['cost_nanousd', 'tokens'] as const satisfies readonly Meter[];

const WEEK_MS = 7 * UNIT_MS.day;

const isWindow = (window: WindowKind): window is ForecastWindow => Object.hasOwn(FORECAST_UNITS, window);
const isMeter = (meter: Meter): meter is (typeof FORECAST_METERS)[number] =>
  (FORECAST_METERS as readonly Meter[]).includes(meter);

/** The forecasts of budgets, from some weeks of usage by hour; null for those that have none. */
export async function readForecasts(
  client: ClientBase,
  budgets: readonly Budget[],
  nowMs: number,
): Promise<(Forecast | null)[]> {
  const histories = {
    hour: await historiesOf(client, budgets, 'hour', nowMs),
    day: await historiesOf(client, budgets, 'day', nowMs),
  };
  const forecasts: (Forecast | null)[] = [];
  for (const { subject, meter, window, used, limit } of budgets) {
    if (!isWindow(window) || !isMeter(meter)) {
      forecasts.push(null);
      continue;
    }
    const unit = FORECAST_UNITS[window];
    const start = windowStart(window, minuteOf(nowMs));
    const span = { used, startMs: start * 60_000, endMs: windowEnd(window, start) * 60_000, nowMs };
    const history = histories[unit].get(subject)?.[meter] ?? [];
    forecasts.push({ run_rate: runRate(span), projection: project({ ...span, unit, history, limit }) });
    // Each may take 4 ms: a thousand at once would hold up the heartbeat of the process.
    await setImmediate();
  }
  return forecasts;
}

/** The complete buckets before the current one. */
function historiesOf(client: ClientBase, budgets: readonly Budget[], unit: BucketUnit, nowMs: number) {
  const subjects = new Set(
    budgets.flatMap(({ subject, meter, window }) =>
      isMeter(meter) && isWindow(window) && FORECAST_UNITS[window] === unit ? [subject] : [],
    ),
  );
  const toMs = Math.floor(nowMs / UNIT_MS[unit]) * UNIT_MS[unit];
  return readHistory(client, [...subjects], unit, { fromMs: toMs - USAGE_HISTORY_WEEKS * WEEK_MS, toMs });
}
