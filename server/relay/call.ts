import type { ServerResponse } from 'node:http';
import type { EndReason, EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { Price } from '#db/fold/price.ts';
import { CHAT_COMPLETIONS, type RelayedRoute, type SubjectLimits } from '#db/limits/limits.ts';
import { StoreUnavailable } from '#server/instance/appender.ts';
import { type Code, ApiError } from '#server/errors/api-error.ts';
import type { Amounts } from '#db/limits/meters.ts';
import type { Hold } from '#server/limits/hold.ts';
import { type Reckoning, tokenLimitOf } from '#server/relay/admit.ts';
import { type Body, releaseBody, restoreBody } from '#server/wire/body.ts';
import { Budget } from '#server/relay/budget.ts';
import type { Caller } from '#server/access/caller.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { Delivery } from '#server/relay/delivery.ts';
import { Outgoing } from '#server/relay/client-writer.ts';
import type { Asked } from '#server/wire/parse.ts';
import type { Relay, Running, Seat } from '#server/relay/relay.ts';
import type { Reply } from '#server/relay/reply.ts';
import { atMost, settledEvent, shedEnding } from '#server/relay/settle.ts';
import { asSeen, type Ending, spentNothing } from '#server/relay/spent.ts';
import type { Failure } from '#server/relay/failure.ts';
import { AttemptSequence } from '#server/relay/attempt-sequence.ts';
import type { Choice } from '#server/upstreams/choose.ts';
import type { Target } from '#server/upstreams/target.ts';

const NO_SOURCE = { pause() {}, resume() {} };

/** All that is known of a call when it has been admitted. */
export type Admitted = {
  key: Key;
  caller: Caller;
  asked: Asked;
  body: Body;
  route: RelayedRoute;
  /** The model that the name in the request stands for. */
  model: string;
  /** Where it may go: at least one. */
  targets: readonly Target[];
  subjects: readonly SubjectLimits[];
  termsPosition: number;
  price: Price | undefined;
  reckoning: Reckoning;
  hold: Hold;
  seat: Seat;
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
export class Call implements Running {
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
  #ending: Ending | null = null;
  /** It was called off before it was sent. */
  #calledOff: { code: Code; reason: EndReason } | null = null;

  constructor(relay: Relay, admitted: Admitted) {
    const { key, asked, model, route, body, hold, subjects, termsPosition, reckoning, reply, retryCount } =
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
      sse: asked.sse,
      body_bytes: body.bytes.length,
      hold_tokens: hold.tokens,
      hold_cost_microusd: hold.cost,
      admitted_minute: hold.minute,
      terms_position: termsPosition,
    };
    if (retryCount !== undefined) this.#accepted.retry_count = retryCount;
    if (route !== CHAT_COMPLETIONS) this.#accepted.route = route;
    this.#budget = asked.sse ? new Budget({ reckoning, hold, subjects, call: this }) : null;
  }

  /**
   * Records the call, then sends it.
   * @returns the refusal that the caller is to be told, when nothing was sent and nothing was told yet.
   */
  async run(): Promise<ApiError | null> {
    const { seat, response } = this.#admitted;
    this.#relay.running.add(this);
    const durable = seat.appender.accept(this.#accepted);
    const isEarly = this.#relay.overlapped && seat.appender.mode === 'up';
    if (isEarly) this.#begin();
    try {
      await durable;
    } catch (error) {
      this.#relay.running.delete(this);
      this.#stop();
      const refusal = new ApiError('store_unavailable');
      // The lost answer may have been a commit: then this is its ending.
      if (error instanceof StoreUnavailable && error.pending)
        this.#settle(this.#ending ?? shedEnding(refusal.status));
      else this.#forget();
      return refusal;
    }
    this.#isDurable = true;
    if (this.#ending) {
      this.#settle(this.#ending);
      return this.#early;
    }
    if (isEarly) this.#delivery?.openGate();
    else if (response.destroyed) this.#ended({ ...spentNothing(), reason: 'client_gone', firstByteMs: null });
    else if (this.#relay.draining) return this.#notSent('shutting_down', 'service_unavailable');
    else if (!this.#relay.life.isGood(performance.now()))
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
  get caller(): Caller {
    return this.#admitted.caller;
  }
  get model(): string {
    return this.#accepted.model;
  }

  get relayedTokens(): number {
    return this.#delivery?.relayedTokens ?? 0;
  }

  fail(code: Code, reason: EndReason): void {
    if (this.#delivery) this.#delivery.fail(code, reason);
    else if (this.#pause) this.#giveUp(new ApiError(code), reason);
    else this.#calledOff ??= { code, reason };
  }

  #notSent(code: Code, reason: EndReason): ApiError {
    const refusal = new ApiError(code);
    this.#ended({ ...spentNothing(), status: refusal.status, reason, firstByteMs: null });
    return refusal;
  }

  #begin(): void {
    this.#admitted.response.on('close', () => this.#clientGone());
    this.#try(this.#tries.first(performance.now()));
  }

  #try(choice: Choice): void {
    const { body, asked, route, reckoning, hold, response, reply, protocolHeaders } = this.#admitted;
    const { upstream, model } = choice.target;
    const call: ProviderCall = {
      route,
      body,
      asked,
      model: model ?? this.#accepted.model,
      tokenLimit: tokenLimitOf(reckoning, hold),
      tokenLimitMember: upstream.tokenLimitMember,
      protocolHeaders,
    };
    this.#tries.began(choice);
    // The try before may have changed it in place.
    restoreBody(body);
    const { provider } = upstream;
    const request = provider.request(call);
    if (request instanceof ApiError) {
      const failure: Failure = {
        refusal: request,
        reason: 'upstream_rejected',
        problem: 'not_said',
        retryAfterMs: null,
      };
      const begin = this.#again(failure);
      return begin === null ? this.#giveUp(request, 'upstream_rejected') : begin();
    }
    const delivery = new Delivery({
      response,
      requestId: reply.requestId,
      extraHeaders: reply.extraHeaders,
      shape: reply.shape,
      life: this.#relay.life,
      protocol: {
        sse: () => provider.sse(call),
        json: (bytes) => provider.json(bytes, call),
        fault: (bytes) => provider.fault(bytes),
      },
      dropped: request.dropped,
      promptEstimate: reckoning.promptLikely,
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
  #again(failure: Failure): (() => void) | null {
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
      new Outgoing(
        {
          response,
          requestId: reply.requestId,
          extraHeaders: reply.extraHeaders,
          shape: reply.shape,
          life: this.#relay.life,
        },
        NO_SOURCE,
      ).refuse(refusal);
    this.#ended({ ...spentNothing(), status: refusal.status, reason, firstByteMs: null });
  }

  #clientGone(): void {
    if (this.#pause) {
      clearTimeout(this.#pause);
      this.#pause = undefined;
      return this.#ended({ ...spentNothing(), reason: 'client_gone', firstByteMs: null });
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
    const { seat, hold } = this.#admitted;
    seat.limits.grow(hold, more, grown);
  }

  /** Its hold has grown, and recovery must know of it should this process die. */
  extended(): void {
    const { hold, seat } = this.#admitted;
    const { request, account, key, model, admitted_minute = 0, terms_position = 0 } = this.#accepted;
    seat.appender.note({
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

  #ended(told: Ending): void {
    this.#relay.running.delete(this);
    this.#tries.ended(told.reason, performance.now());
    const ending = asSeen(told, this.#admitted.response.headersSent, this.#tries.beforeMs);
    if (this.#isDurable) this.#settle(ending);
    else this.#ending = ending;
  }

  #settle(told: Ending): void {
    this.#budget?.end();
    const { key, model, body, hold, reckoning, price, seat, startedMs } = this.#admitted;
    const ending = reckoning.isHard ? atMost(told, hold.tokens - reckoning.promptTokens) : told;
    const event = settledEvent(this.#accepted, ending, this.#tries, performance.now() - startedMs, price);
    if (ending.reason === 'completed') this.#relay.estimates.learn(key.id, model, event.output_tokens);
    seat.appender.settle(event, () => seat.limits.settle(hold, event));
    releaseBody(body);
  }

  /** It is not in the log and never will be. */
  #forget(): void {
    const { seat, hold, body } = this.#admitted;
    this.#budget?.end();
    seat.limits.release(hold);
    releaseBody(body);
  }
}
