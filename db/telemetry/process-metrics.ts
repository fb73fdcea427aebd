import { standardOutput } from '#db/diagnostics/process-output.ts';
import { EVENT_LOOP_LOOK_MS } from '#db/telemetry/bounds.ts';
import { PROCESS_METRICS as M } from '#db/telemetry/catalogue.ts';
import { gauge, type Sample } from '#db/telemetry/definition.ts';
import { counters, histograms } from '#db/telemetry/series.ts';

/** The metrics that any process of Daybook has. */
export class ProcessMetrics {
  readonly #lag = histograms(M.eventLoopLag);
  readonly #abandoned = counters(M.abandoned);
  readonly #timer: NodeJS.Timeout;
  readonly #instance: () => number;

  /** @param instance the number of the instance that the process appends as. */
  constructor(instance: () => number) {
    this.#instance = instance;
    const lag = this.#lag.of();
    let dueMs = performance.now() + EVENT_LOOP_LOOK_MS;
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      lag.observe(Math.max(0, nowMs - dueMs) / 1000);
      dueMs = nowMs + EVENT_LOOP_LOOK_MS;
    }, EVENT_LOOP_LOOK_MS);
    this.#timer.unref();
  }

  /** So many open requests of a dead instance were recorded as abandoned. */
  recovered(abandoned: number): void {
    this.#abandoned.of().value += abandoned;
  }

  get samples(): Sample[] {
    const { user, system } = process.cpuUsage();
    const { rss, heapUsed } = process.memoryUsage();
    return [
      gauge(M.instance, this.#instance()),
      ...this.#abandoned.samples,
      ...this.#lag.samples,
      gauge(M.droppedLines, standardOutput.status.dropped),
      gauge(M.cpu, (user + system) / 1e6),
      gauge(M.memory, rss),
      gauge(M.heap, heapUsed),
      gauge(M.startTime, performance.timeOrigin / 1000),
    ];
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
