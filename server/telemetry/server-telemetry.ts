import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import type { RequestEvent } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { SERVER_METRICS as M } from '#db/telemetry/catalogue.ts';
import { gauge, type Sample } from '#db/telemetry/definition.ts';
import type {
  ApartEvent,
  CalledRequest,
  CallObserver,
  CallTrace,
} from '#server/diagnostics/call-observer.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import type { Config } from '#server/process/config.ts';
import type { Relay } from '#server/relay/relay.ts';
import { ServerMetrics } from '#server/telemetry/server-metrics.ts';
import { Tracer } from '#server/tracing/tracer.ts';

/**
 * The metrics and traces of a server process, each as far as it is on. This module is loaded only where one
 * of them is.
 */
export class ServerTelemetry implements CallObserver {
  readonly #metrics: ServerMetrics | null;
  readonly #tracer: Tracer | null;

  /** @param relay is called from the first call on. */
  constructor(
    { METRICS_PORT, traces }: Pick<Config, 'METRICS_PORT' | 'traces'>,
    version: string,
    relay: () => Relay,
    log: Logger,
  ) {
    this.#metrics = METRICS_PORT === undefined ? null : new ServerMetrics(relay);
    this.#tracer =
      traces &&
      new Tracer(
        traces,
        version,
        (upstream) => relay().upstreams.get(upstream)?.terms,
        (error) => log.warn(errorFields(error), 'exporting spans failed; they are dropped'),
      );
  }

  called(request: CalledRequest): CallTrace | null {
    return this.#tracer?.called(request) ?? null;
  }

  rejected(refusal: Pick<ApiError, 'code' | 'status'>): void {
    this.#metrics?.rejected(refusal);
  }

  attempted(attempt: Attempt): void {
    this.#metrics?.attempted(attempt);
  }

  recorded(event: RequestEvent, position: number): void {
    const trace = this.#tracer?.recorded(event, position) ?? null;
    this.#metrics?.recorded(event, trace);
  }

  recordedApart(events: readonly ApartEvent[]): void {
    for (const event of events) {
      if (event.type === 'request.abandoned') this.#metrics?.recovered(1);
      else this.#metrics?.recorded(event, null);
    }
  }

  appended(events: number, durationMs: number): void {
    this.#metrics?.appended(events, durationMs);
  }

  exchanged(durationMs: number): void {
    this.#metrics?.exchanged(durationMs);
  }

  recovered(abandoned: number): void {
    this.#metrics?.recovered(abandoned);
  }

  /** All series at this moment; null: metrics are off. */
  get scrape(): (() => Sample[]) | null {
    const metrics = this.#metrics;
    return metrics && (() => [...metrics.scrape(), ...this.#spanCounts()]);
  }

  /** Exports the last spans, for at most a moment. */
  async close(): Promise<void> {
    this.#metrics?.close();
    await this.#tracer?.close();
  }

  #spanCounts(): Sample[] {
    if (this.#tracer === null) return [];
    const { exported, dropped } = this.#tracer.counts;
    return [gauge(M.spansExported, exported), gauge(M.spansDropped, dropped)];
  }
}
