import type { EventOf } from '#db/events/events.ts';
import type { Attempt, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { CalledRequest, CallTrace } from '#server/diagnostics/call-observer.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { operationOf, providerOf } from '#server/tracing/semantic-names.ts';
import type { Attributes, Span } from '#server/tracing/span.ts';
import { newSpanId, newTraceId, type ParentContext } from '#server/tracing/trace-context.ts';

type Settled = EventOf<'request.settled'>;
type Begun = { spanId: string; startMs: number };
type EndedAttempt = Begun & { endMs: number; attempt: Attempt };

/** The trace of a sampled call: a span of the server, and one for each attempt at an upstream. */
export class SampledTrace implements CallTrace {
  readonly traceId: string;
  readonly #spanId = newSpanId();
  readonly #called: CalledRequest;
  readonly #parent: ParentContext | null;
  readonly #onEnd: (trace: SampledTrace) => void;
  readonly #startMs = nowMs();
  #running: Begun | null = null;
  #attempts: EndedAttempt[] = [];
  #refusal: Pick<ApiError, 'code' | 'status'> | null = null;
  #settled: Settled | null = null;
  #endMs: number | null = null;
  #acceptedAt: number | null = null;
  #settledAt: number | null = null;

  /** @param onEnd called when nothing more is expected of the call itself. */
  constructor(called: CalledRequest, parent: ParentContext | null, onEnd: (trace: SampledTrace) => void) {
    this.#called = called;
    this.#parent = parent;
    this.traceId = parent?.traceId ?? newTraceId();
    this.#onEnd = onEnd;
  }

  get request(): string {
    return this.#called.requestId;
  }

  /** When the call ended, in milliseconds since 1970; null: it has not. */
  get endMs(): number | null {
    return this.#endMs;
  }

  /** Whether the log will have, or has, the end of the call. */
  get isSettled(): boolean {
    return this.#settled !== null;
  }

  attemptParent(): string {
    this.#running = { spanId: newSpanId(), startMs: nowMs() };
    return `00-${this.traceId}-${this.#running.spanId}-01`;
  }

  attemptEnded(attempt: Attempt): void {
    const begun = this.#running;
    if (begun) this.#attempts.push({ ...begun, endMs: nowMs(), attempt });
    this.#running = null;
  }

  rejected(refusal: Pick<ApiError, 'code' | 'status'>): void {
    this.#refusal = refusal;
  }

  settled(event: Settled): void {
    this.#settled = event;
    this.#endMs = nowMs();
  }

  ended(): void {
    this.#endMs ??= nowMs();
    this.#onEnd(this);
  }

  /** An event of the call is durable. */
  recorded(type: 'accepted' | 'settled', position: number): void {
    if (type === 'accepted') this.#acceptedAt = position;
    else this.#settledAt = position;
  }

  /** The spans of the call. @param termsOf of an upstream, unless it was removed. */
  spans(termsOf: (upstream: string) => UpstreamTerms | undefined): Span[] {
    const { traceId } = this;
    const { route, requestId, tracestate, isTls, method } = this.#called;
    const settled = this.#settled;
    const status = this.#refusal?.status ?? settled?.status;
    const isFailed = status !== undefined && status >= 500;
    const failure = this.#refusal?.code ?? (settled?.end_reason === 'completed' ? null : settled?.end_reason);
    const server: Span = {
      traceId,
      spanId: this.#spanId,
      parentId: this.#parent?.spanId ?? null,
      tracestate,
      name: `${method} ${route}`,
      kind: 'server',
      startMs: this.#startMs,
      endMs: this.#endMs ?? nowMs(),
      attributes: {
        'http.request.method': method,
        'http.route': route,
        'url.path': route,
        'url.scheme': isTls ? 'https' : 'http',
        'http.response.status_code': status,
        'error.type': failure,
        'daybook.request.id': requestId,
        'daybook.account.id': settled?.account,
        'daybook.end_reason': settled?.end_reason,
        'daybook.log.accepted_position': this.#acceptedAt,
        'daybook.log.settled_position': this.#settledAt,
      },
      isError: isFailed || settled?.end_reason === 'internal_error',
    };
    const last = this.#attempts.length - 1;
    return [
      server,
      ...this.#attempts.map((each, index) =>
        this.#attemptSpan(each, termsOf(each.attempt.upstream), index === last ? settled : null),
      ),
    ];
  }

  #attemptSpan(
    { spanId, startMs, endMs, attempt }: EndedAttempt,
    terms: UpstreamTerms | undefined,
    settled: Settled | null,
  ): Span {
    const operation = operationOf(this.#called.route);
    const model = attempt.upstream_model ?? settled?.model ?? this.#settled?.model;
    const status = /^status_(\d+)$/.exec(attempt.outcome)?.[1];
    const isCompleted = attempt.outcome === 'completed';
    return {
      traceId: this.traceId,
      spanId,
      parentId: this.#spanId,
      tracestate: this.#called.tracestate,
      name: model === undefined ? operation : `${operation} ${model}`,
      kind: 'client',
      startMs,
      endMs,
      attributes: {
        'gen_ai.operation.name': operation,
        'gen_ai.provider.name': terms ? providerOf(terms) : 'unknown',
        'gen_ai.request.model': model,
        'http.response.status_code': status === undefined ? undefined : Number(status),
        'error.type': isCompleted ? null : attempt.outcome,
        'daybook.upstream.name': attempt.upstream,
        ...addressOf(terms?.base_url),
        ...(settled && attempt.upstream === settled.upstream ? replyAttributes(settled) : {}),
      },
      isError: !isCompleted && attempt.outcome !== 'client_disconnected',
    };
  }
}

/** Figures of a reply, without its text. */
function replyAttributes(event: Settled): Attributes {
  const isMeasured = event.usage_source !== 'none';
  return {
    'gen_ai.response.model': event.answered_model,
    'gen_ai.response.finish_reasons': event.finish_reason === undefined ? null : [event.finish_reason],
    'gen_ai.response.time_to_first_chunk':
      event.first_byte_ms === undefined ? null : event.first_byte_ms / 1000,
    'gen_ai.usage.input_tokens': isMeasured ? event.input_tokens : null,
    'gen_ai.usage.output_tokens': isMeasured ? event.output_tokens : null,
    'gen_ai.usage.cache_read.input_tokens': event.cache_read_tokens > 0 ? event.cache_read_tokens : null,
    'gen_ai.usage.cache_creation.input_tokens': event.cache_write_tokens,
    'gen_ai.usage.reasoning.output_tokens': event.reasoning_tokens > 0 ? event.reasoning_tokens : null,
  };
}

function addressOf(baseUrl: string | undefined): Attributes {
  const url = baseUrl === undefined ? null : URL.parse(baseUrl);
  if (url === null) return {};
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return { 'server.address': url.hostname, 'server.port': port };
}

const nowMs = (): number => performance.timeOrigin + performance.now();
