import { type Budget, type Forecast, readForecasts } from '#db/forecast/read-forecasts.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadStore, Source } from '#server/read/store.ts';

const HISTORY: Source = { projection: 'history', tables: ['usage_history'] };

/** The forecasts of limits; none while the database is unavailable: they are an addition to the limits. */
export async function forecastsOf(
  reads: ReadStore,
  budgets: readonly Budget[],
  nowMs: number,
): Promise<(Forecast | null)[]> {
  const read = await reads.read(HISTORY, (client) => readForecasts(client, budgets, nowMs));
  return read instanceof ApiError ? [] : read.found;
}
