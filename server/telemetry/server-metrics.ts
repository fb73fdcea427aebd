import type { RequestEvent } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { SERVER_METRICS } from '#db/telemetry/catalogue.ts';
import type { Sample } from '#db/telemetry/definition.ts';
import { ProcessMetrics } from '#db/telemetry/process-metrics.ts';
import { counters, histograms } from '#db/telemetry/series.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import type { Relay } from '#server/relay/relay.ts';
import { CallMetrics } from '#server/telemetry/call-metrics.ts';
import { readGauges } from '#server/telemetry/server-gauges.ts';

/** The metrics of a server process. */
export class ServerMetrics {
  readonly #relay: () => Relay;
  readonly #calls: CallMetrics;
  readonly #process: ProcessMetrics;
  readonly #appends = histograms(SERVER_METRICS.appendDuration);
  readonly #events = counters(SERVER_METRICS.appendedEvents);
  readonly #exchanges = histograms(SERVER_METRICS.leaseDuration);

  /** @param relay is called from the first call on. */
  constructor(relay: () => Relay) {
    this.#relay = relay;
    this.#calls = new CallMetrics((model) => relay().upstreams.table.configuredName(model));
    this.#process = new ProcessMetrics(() => relay().instance.appender.instance);
  }

  rejected(refusal: Pick<ApiError, 'code' | 'status'>): void {
    this.#calls.rejected(refusal);
  }

  attempted(attempt: Attempt): void {
    this.#calls.attempted(attempt);
  }

  /** @param trace the id of its trace; null: it isn't sampled. */
  recorded(event: RequestEvent, trace: string | null): void {
    this.#calls.recorded(event, trace);
  }

  appended(events: number, durationMs: number): void {
    this.#appends.of().observe(durationMs / 1000);
    this.#events.of().value += events;
  }

  exchanged(durationMs: number): void {
    this.#exchanges.of().observe(durationMs / 1000);
  }

  recovered(abandoned: number): void {
    this.#process.recovered(abandoned);
  }

  /** All series at this moment. */
  scrape(): Sample[] {
    return [
      ...this.#calls.samples,
      ...readGauges(this.#relay()),
      ...[this.#appends, this.#events, this.#exchanges].flatMap((family) => family.samples),
      ...this.#process.samples,
    ];
  }

  close(): void {
    this.#process.close();
  }
}
