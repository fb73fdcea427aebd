import type { IncomingMessage } from 'node:http';
import { faultFields } from '#db/diagnostics/error-fields.ts';
import type { EndReason } from '#db/events/endings.ts';
import type { EventOf } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { type AddressSet, isWithin, plainAddress } from '#server/access/networks.ts';
import { CLIENT_ID_CHARACTERS_MAX, TRACESTATE_CHARACTERS_MAX } from '#server/diagnostics/bounds.ts';
import type { CallObserver, CallTrace, TraceContext } from '#server/diagnostics/call-observer.ts';
import type { RequestLog } from '#server/diagnostics/request-log.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/** How an attempt failed, and the attempt that follows. */
export type FailedAttempt = {
  upstream: string;
  credential: string | null;
  /** The word for the cause, as in the log of events. */
  cause: string;
  attempt: number;
  durationMs: number;
  /** The upstream of the next attempt, and the pause before it; null: none follows. */
  next: { upstream: string; waitMs: number } | null;
  /** Whether the upstream rejected the client's own request. */
  isClients: boolean;
};

/** End reasons of calls that ended for a reason of the client's or of its limits. */
const CLIENT_ENDS: ReadonlySet<EndReason> = new Set([
  'client_disconnected',
  'upstream_rejected',
  'quota_exceeded',
  'access_revoked',
]);

const TRACEPARENT = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:-[\w.-]*)?$/;

/**
 * The diagnostic lines of one request. A request that was rejected or failed leaves one line, whichever stage
 * ends it; each failed attempt at an upstream leaves one of its own.
 */
export class RequestDiagnostics {
  readonly #log: RequestLog;
  readonly #request: IncomingMessage;
  readonly #requestId: string;
  readonly #path: string;
  readonly #trustedProxies: AddressSet | null;
  readonly #observer: CallObserver | null;
  #trace: CallTrace | null = null;
  #isLogged = false;

  constructor(
    log: RequestLog,
    request: IncomingMessage,
    {
      requestId,
      path,
      trustedProxies,
      observer = null,
    }: {
      requestId: string;
      path: string;
      trustedProxies: AddressSet | null;
      observer?: CallObserver | null;
    },
  ) {
    this.#log = log;
    this.#request = request;
    this.#requestId = requestId;
    this.#path = path;
    this.#trustedProxies = trustedProxies;
    this.#observer = observer;
  }

  /** The request is a call of a relayed route. */
  called(route: string): void {
    if (this.#observer === null) return;
    const { method = '', headers, socket } = this.#request;
    const traceparent = this.#traceparent;
    this.#trace = this.#observer.called({
      requestId: this.#requestId,
      method,
      route,
      isTls: 'encrypted' in socket,
      traceparent,
      tracestate: traceparent === null ? null : readTracestate(headers['tracestate']),
    });
  }

  /** Nothing of the call runs any more. */
  ended(): void {
    this.#trace?.ended();
  }

  /**
   * The W3C trace context of the next attempt: that of its own span where the call is traced, else the
   * client's; null: none.
   */
  attemptContext(): TraceContext | null {
    const traceparent = this.#trace?.attemptParent() ?? this.#traceparent;
    if (traceparent === null) return null;
    const own = this.#traceparent === null ? null : readTracestate(this.#request.headers['tracestate']);
    return { traceparent, tracestate: own };
  }

  /** The one that the client sent; null: none, or not valid. */
  get #traceparent(): string | null {
    const value = this.#request.headers['traceparent'];
    if (typeof value !== 'string' || value.length > CLIENT_ID_CHARACTERS_MAX) return null;
    return TRACEPARENT.test(value) ? value : null;
  }

  /** The request is refused with an error. */
  rejected({ code, status, param }: Pick<ApiError, 'code' | 'status' | 'param'>): void {
    if (this.#isLogged) return;
    this.#isLogged = true;
    this.#observer?.rejected({ code, status });
    this.#trace?.rejected({ code, status });
    const { method = '' } = this.#request;
    const fields = () => ({
      ...this.#ids(),
      route: `${method} ${shownPath(this.#path)}`,
      status,
      code,
      param,
    });
    if (status >= 500) this.#log.failed(fields, 'request failed');
    else this.#log.rejected(fields, 'request rejected');
  }

  /** A recorded call has ended. */
  settled(event: EventOf<'request.settled'>): void {
    this.#trace?.settled(event);
    if (this.#isLogged || event.end_reason === 'internal_error') return;
    this.#isLogged = true;
    const { end_reason: reason } = event;
    const fields = () => {
      const { account, key, model, upstream = null, status, attempt_count, duration_ms } = event;
      return { ...this.#ids(), account, key, model, upstream, status, reason, attempt_count, duration_ms };
    };
    if (reason === 'completed') this.#log.debug(fields, 'request completed');
    else if (CLIENT_ENDS.has(reason)) this.#log.rejected(fields, 'request ended early');
    else this.#log.failed(fields, 'request failed');
  }

  /** An attempt at an upstream has ended, with whatever outcome. */
  attemptEnded(attempt: Attempt): void {
    this.#observer?.attempted(attempt);
    this.#trace?.attemptEnded(attempt);
  }

  attemptFailed({ upstream, credential, cause, attempt, durationMs, next, isClients }: FailedAttempt): void {
    const fields = () => ({
      ...this.#ids(),
      upstream,
      credential,
      cause,
      attempt,
      duration_ms: Math.round(durationMs),
      next_upstream: next?.upstream ?? null,
      ...(next === null ? {} : { retry_ms: Math.round(next.waitMs) }),
    });
    if (isClients) this.#log.rejected(fields, 'upstream attempt failed');
    else this.#log.failed(fields, 'upstream attempt failed');
  }

  /** The request met a mistake of ours. */
  fault(error: unknown): void {
    this.#isLogged = true;
    this.#log.fault(() => ({ ...this.#ids(), ...faultFields(error) }), 'request failed: internal error');
  }

  /** Our id, that of a trusted front, and the trace. */
  #ids(): Record<string, string> {
    const ids: Record<string, string> = { request: this.#requestId };
    const front = this.#request.headers['x-request-id'];
    if (typeof front === 'string' && isClientId(front) && this.#isFromFront()) ids['front_request'] = front;
    const trace = this.#trace?.traceId ?? TRACEPARENT.exec(this.#traceparent ?? '')?.[1];
    if (trace !== undefined) ids['trace'] = trace;
    return ids;
  }

  #isFromFront(): boolean {
    const address = plainAddress(this.#request.socket.remoteAddress ?? '');
    return this.#trustedProxies !== null && isWithin(this.#trustedProxies, address);
  }
}

/** One that may be passed on: printable ASCII of a bounded length. */
const readTracestate = (value: unknown): string | null =>
  typeof value === 'string' && value.length <= TRACESTATE_CHARACTERS_MAX && /^[\x20-\x7e]+$/.test(value)
    ? value
    : null;

const isClientId = (id: string): boolean => id.length <= CLIENT_ID_CHARACTERS_MAX && /^[\w.:=+/-]+$/.test(id);

/** The route without the identifiers and tokens that a path may contain. */
function shownPath(path: string): string {
  return /^\/(?:api\/)?v1\/(?:chat\/completions$|[a-z_]{1,30}(?=\/|$))/.exec(path)?.[0] ?? 'other';
}
