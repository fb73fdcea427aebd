import type { Client } from 'pg';
import type { WorkerConfig } from '#db/configuration/worker-config.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { WORKER_METRICS } from '#db/telemetry/catalogue.ts';
import type { Sample } from '#db/telemetry/definition.ts';
import { MetricsAddressError, serveMetrics } from '#db/telemetry/endpoint.ts';
import { ProcessMetrics } from '#db/telemetry/process-metrics.ts';
import { answerScrapes } from '#db/telemetry/scrape-channel.ts';
import { counters } from '#db/telemetry/series.ts';
import type { WorkerInstance } from './instance.ts';
import type { JobObserver } from './job-status.ts';

/** The metrics of a worker. They are loaded only where they are on. */
export class WorkerMetrics implements JobObserver {
  readonly #jobs = counters(WORKER_METRICS.jobs);
  readonly #process: ProcessMetrics;

  constructor(instance: WorkerInstance) {
    this.#process = new ProcessMetrics(() => instance.session.instance);
    instance.onRecovered = (abandoned) => this.#process.recovered(abandoned);
  }

  ended(task: string, outcome: 'succeeded' | 'failed'): void {
    this.#jobs.of(task, outcome).value++;
  }

  /** All series at this moment. */
  scrape(): Sample[] {
    return [...this.#jobs.samples, ...this.#process.samples];
  }

  /** Answers the server that has started this worker. */
  answer(): void {
    answerScrapes(() => this.scrape());
  }

  /**
   * Serves them where no server does.
   * @throws {StoreError} naming the variable that can't be used.
   */
  async serve(config: WorkerConfig, connect: () => Promise<Client>, log: Logger): Promise<void> {
    const processes = [{ name: 'worker', scrape: async () => this.scrape() }];
    try {
      const { port } = await serveMetrics(config, connect, () => processes);
      log.info({ port }, 'metrics served');
    } catch (error) {
      throw error instanceof MetricsAddressError ? new StoreError(error.message) : error;
    }
  }
}
