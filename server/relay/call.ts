import type { ServerResponse } from 'node:http';
import type { EndReason, EventOf } from '#db/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { Price } from '#db/fold/price.ts';
import type { SubjectLimits } from '#db/limits.ts';
import { StoreUnavailable } from '#server/appender.ts';
import { type Code, Refusal } from '#server/errors.ts';
import type { Amounts, Hold } from '#server/limits/hold.ts';
import { type Reckoning, tokenLimitOf } from '#server/relay/admit.ts';
import { type Body, bodyForUpstream, releaseBody } from '#server/relay/body.ts';
import { Budget } from '#server/relay/budget.ts';
import type { Caller } from '#server/relay/caller.ts';
import { Delivery } from '#server/relay/deliver.ts';
import type { Asked } from '#server/relay/parse.ts';
import type { Relay, Running, Seat } from '#server/relay/relay.ts';
import type { Reply } from '#server/relay/reply.ts';
import { atMost, settledEvent, shedEnding } from '#server/relay/settle.ts';
import { type Ending, spentNothing } from '#server/relay/spent.ts';
import type { Upstream } from '#server/relay/upstream.ts';

/** All that is known of a call when it has been admitted. */
export type Admitted = {
  key: Key;
  caller: Caller;
  asked: Asked;
  body: Body;
  upstream: Upstream;
  subjects: readonly SubjectLimits[];
  termsPosition: number;
  price: Price | undefined;
  reckoning: Reckoning;
  hold: Hold;
  seat: Seat;
  response: ServerResponse;
  reply: Reply;
  retryCount: number | undefined;
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
  #delivery: Delivery | null = null;
  /** An ending must not be written before its beginning: until then it waits here. */
  #isDurable = false;
  #ending: Ending | null = null;
  /** It was called off before it was sent. */
  #calledOff: { code: Code; reason: EndReason } | null = null;

  constructor(relay: Relay, admitted: Admitted) {
    const { key, asked, body, hold, subjects, termsPosition, reckoning, reply, retryCount } = admitted;
    this.#relay = relay;
    this.#admitted = admitted;
    this.#accepted = {
      type: 'request.accepted',
      request: reply.requestId,
      account: key.account,
      key: key.id,
      model: asked.model,
      sse: asked.sse,
      body_bytes: body.bytes.length,
      hold_tokens: hold.tokens,
      hold_cost_microusd: hold.cost,
      admitted_minute: hold.minute,
      terms_position: termsPosition,
    };
    if (retryCount !== undefined) this.#accepted.retry_count = retryCount;
    this.#budget = asked.sse ? new Budget({ reckoning, hold, subjects, call: this }) : null;
  }

  /**
   * Records the call, then sends it.
   * @returns the refusal that the caller is to be told, when nothing was sent and nothing was told yet.
   */
  async run(): Promise<Refusal | null> {
    const { seat, response } = this.#admitted;
    this.#relay.running.add(this);
    const durable = seat.appender.accept(this.#accepted);
    const early = this.#relay.overlapped && seat.appender.mode === 'up' ? this.#begin(false) : null;
    try {
      await durable;
    } catch (error) {
      this.#relay.running.delete(this);
      early?.discard();
      const refusal = new Refusal('store_unavailable');
      // The lost answer may have been a commit: then this is its ending.
      if (error instanceof StoreUnavailable && error.pending) this.#settle(this.#ending ?? shedEnding(refusal.status));
      else this.#forget();
      return refusal;
    }
    this.#isDurable = true;
    if (this.#ending) this.#settle(this.#ending);
    else if (early) early.openGate();
    else if (response.destroyed) this.#ended({ ...spentNothing(), reason: 'client_gone', firstByteMs: null });
    else if (this.#relay.draining) return this.#notSent('shutting_down', 'shed');
    else if (!this.#relay.life.isGood(performance.now())) return this.#notSent('store_unavailable', 'shed');
    else if (this.#calledOff) return this.#notSent(this.#calledOff.code, this.#calledOff.reason);
    else this.#begin(true);
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
    return this.#admitted.asked.model;
  }

  get relayedTokens(): number {
    return this.#delivery?.relayedTokens ?? 0;
  }

  fail(code: Code, reason: EndReason): void {
    if (this.#delivery) this.#delivery.fail(code, reason);
    else this.#calledOff ??= { code, reason };
  }

  #notSent(code: Code, reason: EndReason): Refusal {
    const refusal = new Refusal(code);
    this.#ended({ ...spentNothing(), status: refusal.status, reason, firstByteMs: null });
    return refusal;
  }

  #begin(gateOpen: boolean): Delivery {
    const { body, asked, upstream, reckoning, hold, response, reply } = this.#admitted;
    const tokenLimit = tokenLimitOf(reckoning, hold);
    const delivery = new Delivery({
      response,
      requestId: reply.requestId,
      extraHeaders: reply.extraHeaders,
      life: this.#relay.life,
      stripUsage: asked.sse && !asked.asksUsage,
      promptEstimate: reckoning.promptLikely,
      upstreamHost: upstream.host,
      timeouts: this.#relay.timeouts,
      deadlines: this.#relay.deadlines,
      budget: this.#budget,
      gateOpen,
      onEnd: (ending) => this.#ended(ending),
    });
    this.#delivery = delivery;
    response.on('close', () => delivery.clientGone());
    upstream.send(bodyForUpstream(body, asked, { tokenLimit, tokenLimitMember: upstream.tokenLimitMember }), asked.sse, delivery);
    return delivery;
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
      request, account, key, model,
      hold_tokens: hold.tokens,
      hold_cost_microusd: hold.cost,
      admitted_minute, terms_position,
    });
  }

  #ended(ending: Ending): void {
    this.#relay.running.delete(this);
    if (this.#isDurable) this.#settle(ending);
    else this.#ending = ending;
  }

  #settle(told: Ending): void {
    this.#budget?.end();
    const { key, asked, body, hold, reckoning, upstream, price, seat, startedMs } = this.#admitted;
    const ending = reckoning.isExact ? atMost(told, hold.tokens - reckoning.promptTokens) : told;
    const event = settledEvent(this.#accepted, ending, upstream.name, performance.now() - startedMs, price);
    const spent = { tokens: event.input_tokens + event.output_tokens, cost: event.cost_microusd ?? 0 };
    if (ending.reason === 'completed') this.#relay.estimates.learn(key.id, asked.model, event.output_tokens);
    seat.appender.settle(event, () => seat.limits.settle(hold, spent));
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
