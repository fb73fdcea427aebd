import type { ServerResponse } from 'node:http';
import type { EndReason, EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { Price } from '#db/fold/price.ts';
import { CHAT_COMPLETIONS, type RelayedRoute, type SubjectLimits } from '#db/limits/limits.ts';
import { StoreUnavailable } from '#server/instance/appender.ts';
import { type ErrorCode, ApiError } from '#server/errors/api-error.ts';
import type { Amounts } from '#db/limits/meters.ts';
import type { Reservation } from '#server/limits/reservation.ts';
import { type CallEstimate, tokenLimitOf } from '#server/relay/reservation.ts';
import { type Body, releaseBody } from '#server/wire/read-body.ts';
import { restoreBody } from '#server/wire/splice-body.ts';
import { Budget } from '#server/relay/budget.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { Delivery } from '#server/relay/delivery.ts';
import { ClientWriter } from '#server/relay/client-writer.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';
import type { ActiveInstance } from '#server/instance/server-instance.ts';
import type { Relay, RunningCall } from '#server/relay/relay.ts';
import type { Reply } from '#server/relay/reply.ts';
import { capOutput, settledEvent, shedEnd } from '#server/relay/settle.ts';
import { endSeenByClient, type CallEnd, noUsage } from '#server/relay/reply-usage.ts';
import type { AttemptFailure } from '#server/relay/failure.ts';
import { AttemptSequence } from '#server/relay/attempt-sequence.ts';
import type { Choice } from '#server/upstreams/choose.ts';
import type { Target } from '#server/upstreams/target.ts';

const NO_SOURCE = { pause() {}, resume() {} };

/** All that is known of a call when it has been admitted. */
export type Admitted = {
  key: Key;
  context: RequestContext;
  parsed: ParsedRequest;
  body: Body;
  route: RelayedRoute;
  /** The model that the name in the request stands for. */
  model: string;
  /** Where it may go: at least one. */
  targets: readonly Target[];
  subjects: readonly SubjectLimits[];
  termsPosition: number;
  price: Price | undefined;
  estimate: CallEstimate;
  hold: Reservation;
  instance: ActiveInstance;
  response: ServerResponse;
  reply: Reply;
  retryCount: number | undefined;
  /** Headers of the client's own that belong to the protocol it speaks, in pairs. */
  protocolHeaders: readonly string[];
  startedMs: number;
};

/**
 * An admitted call on its way: recorded, sent, delivered, settled. Whatever happens to it, it is
 * settled once in the log, and then its hold becomes what it has spent.
 */
export class Call implements RunningCall {
  readonly #admitted: Admitted;
  readonly #relay: Relay;
  readonly #accepted: EventOf<'request.accepted'>;
  /** Of a streamed reply; any other is there at once. */
  readonly #budget: Budget | null;
  readonly #tries: AttemptSequence;
  /** The present try; null: it was not sent yet, or waits for its next one. */
  #delivery: Delivery | null = null;
  #pause: NodeJS.Timeout | undefined;
  /** What the client is to be told once the call is recorded, with overlapped accounting. */
  #early: ApiError | null = null;
  /** An ending must not be written before its beginning: until then it waits here. */
  #isDurable = false;
  #ending: CallEnd | null = null;
  /** It was called off before it was sent. */
  #calledOff: { code: ErrorCode; reason: EndReason } | null = null;

  constructor(relay: Relay, admitted: Admitted) {
    const { key, parsed, model, route, body, hold, subjects, termsPosition, estimate, reply, retryCount } =
      admitted;
    this.#relay = relay;
    this.#admitted = admitted;
    this.#tries = new AttemptSequence(admitted.targets);
    this.#accepted = {
      type: 'request.accepted',
      request: reply.requestId,
      account: key.account,
      key: key.id,
      model,
      sse: parsed.sse,
      body_bytes: body.bytes.length,
      hold_tokens: hold.tokens,
      hold_cost_microusd: hold.cost,
      admitted_minute: hold.minute,
      terms_position: termsPosition,
    };
    if (retryCount !== undefined) this.#accepted.retry_count = retryCount;
    if (route !== CHAT_COMPLETIONS) this.#accepted.route = route;
    this.#budget = parsed.sse ? new Budget({ estimate, hold, subjects, call: this }) : null;
  }

  /**
   * Records the call, then sends it.
   * @returns the refusal that the caller is to be told, when nothing was sent and nothing was told yet.
   */
  async run(): Promise<ApiError | null> {
    const { instance, response } = this.#admitted;
    this.#relay.running.add(this);
    const durable = instance.appender.accept(this.#accepted);
    const isEarly = this.#relay.overlapped && instance.appender.mode === 'up';
    if (isEarly) this.#begin();
    try {
      await durable;
    } catch (error) {
      this.#relay.running.delete(this);
      this.#stop();
      const refusal = new ApiError('store_unavailable');
      // The lost answer may have been a commit: then this is its ending.
      if (error instanceof StoreUnavailable && error.pending)
        this.#settle(this.#ending ?? shedEnd(refusal.status));
      else this.#forget();
      return refusal;
    }
    this.#isDurable = true;
    if (this.#ending) {
      this.#settle(this.#ending);
      return this.#early;
    }
    if (isEarly) this.#delivery?.openGate();
    else if (response.destroyed) this.#ended({ ...noUsage(), reason: 'client_gone', firstByteMs: null });
    else if (this.#relay.draining) return this.#notSent('shutting_down', 'service_unavailable');
    else if (!this.#relay.fencing.isValid(performance.now()))
      return this.#notSent('store_unavailable', 'service_unavailable');
    else if (this.#calledOff) return this.#notSent(this.#calledOff.code, this.#calledOff.reason);
    else this.#begin();
    return null;
  }

  get request(): string {
    return this.#accepted.request;
  }
  get key(): Key {
    return this.#admitted.key;
  }
  get context(): RequestContext {
    return this.#admitted.context;
  }
  get model(): string {
    return this.#accepted.model;
  }

  get relayedTokens(): number {
    return this.#delivery?.relayedTokens ?? 0;
  }

  fail(code: ErrorCode, reason: EndReason): void {
    if (this.#delivery) this.#delivery.fail(code, reason);
    else if (this.#pause) this.#giveUp(new ApiError(code), reason);
    else this.#calledOff ??= { code, reason };
  }

  #notSent(code: ErrorCode, reason: EndReason): ApiError {
    const refusal = new ApiError(code);
    this.#ended({ ...noUsage(), status: refusal.status, reason, firstByteMs: null });
    return refusal;
  }

  #begin(): void {
    this.#admitted.response.on('close', () => this.#clientGone());
    this.#try(this.#tries.first(performance.now()));
  }

  #try(choice: Choice): void {
    const { body, parsed, route, estimate, hold, response, reply, protocolHeaders } = this.#admitted;
    const { upstream, model } = choice.target;
    const call: ProviderCall = {
      route,
      body,
      parsed,
      model: model ?? this.#accepted.model,
      tokenLimit: tokenLimitOf(estimate, hold),
      tokenLimitMember: upstream.tokenLimitMember,
      protocolHeaders,
    };
    this.#tries.began(choice);
    // The try before may have changed it in place.
    restoreBody(body);
    const { provider } = upstream;
    const request = provider.request(call);
    if (request instanceof ApiError) {
      const failure: AttemptFailure = {
        refusal: request,
        reason: 'upstream_rejected',
        cause: 'not_said',
        retryAfterMs: null,
      };
      const begin = this.#again(failure);
      return begin === null ? this.#giveUp(request, 'upstream_rejected') : begin();
    }
    const delivery = new Delivery({
      response,
      requestId: reply.requestId,
      extraHeaders: reply.extraHeaders,
      errorFormat: reply.errorFormat,
      fencing: this.#relay.fencing,
      protocol: {
        sse: () => provider.sse(call),
        json: (bytes) => provider.json(bytes, call),
        fault: (bytes) => provider.parseError(bytes),
      },
      unsupported: request.unsupported,
      promptEstimate: estimate.promptLikely,
      upstreamHost: upstream.host,
      timeouts: { ...this.#relay.timeouts, totalMs: this.#relay.timeouts.totalMs - this.#tries.beforeMs },
      deadlines: this.#relay.deadlines,
      budget: this.#budget,
      gateOpen: this.#isDurable,
      onAnswer: (afterMs) => this.#tries.answered(afterMs),
      hasMore: () => this.#tries.hasMore,
      again: (failure) => this.#again(failure),
      onEnd: (ending) => this.#ended(ending),
    });
    this.#delivery = delivery;
    choice.line.send(call, request, delivery);
  }

  /**
   * The present try has failed, and the client knows of nothing. @returns what begins the next; null: there
   * is none.
   */
  #again(failure: AttemptFailure): (() => void) | null {
    const next = this.#tries.failed(failure, performance.now());
    if (next === null) return null;
    return () => {
      this.#delivery = null;
      if (next.waitMs === 0) return this.#try(next);
      this.#pause = setTimeout(() => {
        this.#pause = undefined;
        this.#try(next);
      }, next.waitMs);
    };
  }

  /** Nothing of it is under way any more, and the client, if it is there, is told so. */
  #giveUp(refusal: ApiError, reason: EndReason): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
    const { response, reply } = this.#admitted;
    if (!this.#isDurable) this.#early = refusal;
    else
      new ClientWriter(
        {
          response,
          requestId: reply.requestId,
          extraHeaders: reply.extraHeaders,
          errorFormat: reply.errorFormat,
          fencing: this.#relay.fencing,
        },
        NO_SOURCE,
      ).refuse(refusal);
    this.#ended({ ...noUsage(), status: refusal.status, reason, firstByteMs: null });
  }

  #clientGone(): void {
    if (this.#pause) {
      clearTimeout(this.#pause);
      this.#pause = undefined;
      return this.#ended({ ...noUsage(), reason: 'client_gone', firstByteMs: null });
    }
    const drains = this.#tries.isDrained;
    if (drains) this.#delivery?.clientLeft();
    else this.#delivery?.clientGone();
  }

  /** Ends what is under way without a word. */
  #stop(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
    this.#delivery?.discard();
    // Else its upstream would count it as running for ever.
    this.#tries.ended('service_unavailable', performance.now());
  }

  grow(more: Amounts, grown: () => void): void {
    const { instance, hold } = this.#admitted;
    instance.limits.grow(hold, more, grown);
  }

  /** Its hold has grown, and recovery must know of it should this process die. */
  extended(): void {
    const { hold, instance } = this.#admitted;
    const { request, account, key, model, admitted_minute = 0, terms_position = 0 } = this.#accepted;
    instance.appender.note({
      type: 'request.extended',
      request,
      account,
      key,
      model,
      hold_tokens: hold.tokens,
      hold_cost_microusd: hold.cost,
      admitted_minute,
      terms_position,
    });
  }

  #ended(told: CallEnd): void {
    this.#relay.running.delete(this);
    this.#tries.ended(told.reason, performance.now());
    const ending = endSeenByClient(told, this.#admitted.response.headersSent, this.#tries.beforeMs);
    if (this.#isDurable) this.#settle(ending);
    else this.#ending = ending;
  }

  #settle(told: CallEnd): void {
    this.#budget?.end();
    const { key, model, body, hold, estimate, price, instance, startedMs } = this.#admitted;
    const ending = estimate.isHard ? capOutput(told, hold.tokens - estimate.promptTokens) : told;
    const event = settledEvent(this.#accepted, ending, this.#tries, performance.now() - startedMs, price);
    if (ending.reason === 'completed') this.#relay.estimates.learn(key.id, model, event.output_tokens);
    instance.appender.settle(event, () => instance.limits.settle(hold, event));
    releaseBody(body);
  }

  /** It is not in the log and never will be. */
  #forget(): void {
    const { instance, hold, body } = this.#admitted;
    this.#budget?.end();
    instance.limits.release(hold);
    releaseBody(body);
  }
}
