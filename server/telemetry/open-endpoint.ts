import type { Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import {
  MetricsAddressError,
  type MetricsEndpoint,
  type ScrapedProcess,
  serveMetrics,
} from '#db/telemetry/endpoint.ts';
import { type Config, ConfigError } from '#server/process/config.ts';

/**
 * Serves the metrics of a server with all its processes.
 * @param processes those at this moment: servers, and the worker beside them.
 * @throws {ConfigError} naming the variable that can't be used.
 */
export async function openMetricsEndpoint(
  config: Config,
  store: Store,
  processes: () => readonly ScrapedProcess[],
): Promise<MetricsEndpoint> {
  try {
    return await serveMetrics(config, () => connectRelay(store), processes);
  } catch (error) {
    throw error instanceof MetricsAddressError ? new ConfigError(error.message) : error;
  }
}
