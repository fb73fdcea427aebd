import type { ChildProcess } from 'node:child_process';
import type { Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { MetricsAddressError, type MetricsEndpoint, serveMetrics } from '#db/telemetry/endpoint.ts';
import type { Sample } from '#db/telemetry/definition.ts';
import { scrapeChild } from '#db/telemetry/scrape-channel.ts';
import { type Config, ConfigError } from '#server/process/config.ts';

/**
 * Serves the metrics of a server with all its processes.
 * @param own those of this process; null: its children serve.
 * @param children servers, and the worker beside them, by their names.
 * @throws {ConfigError} naming the variable that can't be used.
 */
export async function openMetricsEndpoint(
  config: Config,
  store: Store,
  own: (() => Sample[]) | null,
  children: ReadonlyMap<string, ChildProcess> = new Map(),
): Promise<MetricsEndpoint> {
  const self = own === null ? [] : [{ name: 'server-1', scrape: async () => own() }];
  const processes = () => [
    ...self,
    ...[...children].map(([name, child]) => ({ name, scrape: () => scrapeChild(child) })),
  ];
  try {
    return await serveMetrics(config, () => connectRelay(store), processes);
  } catch (error) {
    throw error instanceof MetricsAddressError ? new ConfigError(error.message) : error;
  }
}
