import type { RequestEvent } from '#db/events/events.ts';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import type { CalledRequest, CallTrace } from '#server/diagnostics/call-observer.ts';
import { AWAIT_POSITION_MS, OPEN_TRACES_MAX } from '#server/tracing/bounds.ts';
import { SampledTrace } from '#server/tracing/call-trace.ts';
import { type SpanCounts, SpanExporter } from '#server/tracing/span-exporter.ts';
import type { TraceConfig } from '#server/tracing/trace-config.ts';
import { isSampled, parentOf } from '#server/tracing/trace-context.ts';

/**
 * Traces the sampled calls of a process. A trace is exported when the end of its call is durable, so that it
 * has the position of that end; one whose end can't be recorded, after a moment without.
 */
export class Tracer {
  readonly #config: TraceConfig;
  readonly #termsOf: (upstream: string) => UpstreamTerms | undefined;
  readonly #exporter: SpanExporter;
  readonly #open = new Map<string, SampledTrace>();
  readonly #timer: NodeJS.Timeout;
  #dropped = 0;

  /**
   * @param termsOf of an upstream.
   * @param onError called with each failed export.
   */
  constructor(
    config: TraceConfig,
    version: string,
    termsOf: (upstream: string) => UpstreamTerms | undefined,
    onError: (error: unknown) => void,
  ) {
    this.#config = config;
    this.#termsOf = termsOf;
    this.#exporter = new SpanExporter(config, version, onError);
    this.#timer = setInterval(() => this.#exportUnrecorded(), AWAIT_POSITION_MS).unref();
  }

  /** A call begins. @returns null: it isn't sampled. */
  called(request: CalledRequest): CallTrace | null {
    const { sampler, ratio } = this.#config;
    const parent = parentOf(request.traceparent);
    if (!isSampled(sampler, ratio, parent)) return null;
    if (this.#open.size >= OPEN_TRACES_MAX) {
      this.#dropped++;
      return null;
    }
    const trace = new SampledTrace(request, parent, (ended) => {
      if (!ended.isSettled) this.#export(ended);
    });
    this.#open.set(request.requestId, trace);
    return trace;
  }

  /** An event of a request is durable. @returns the id of its trace; null: it isn't sampled. */
  recorded(event: RequestEvent, position: number): string | null {
    if (this.#open.size === 0 || !('request' in event)) return null;
    const trace = this.#open.get(event.request);
    if (!trace) return null;
    if (event.type === 'request.accepted') trace.recorded('accepted', position);
    else if (event.type === 'request.settled') {
      trace.recorded('settled', position);
      this.#export(trace);
    }
    return trace.traceId;
  }

  get counts(): SpanCounts {
    const { exported, dropped } = this.#exporter.counts;
    return { exported, dropped: dropped + this.#dropped };
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    for (const trace of [...this.#open.values()]) this.#export(trace);
    await this.#exporter.close();
  }

  #export(trace: SampledTrace): void {
    if (!this.#open.delete(trace.request)) return;
    for (const span of trace.spans(this.#termsOf)) this.#exporter.add(span);
  }

  #exportUnrecorded(): void {
    const beforeMs = performance.timeOrigin + performance.now() - AWAIT_POSITION_MS;
    for (const trace of [...this.#open.values()])
      if (trace.endMs !== null && trace.endMs < beforeMs) this.#export(trace);
  }
}
