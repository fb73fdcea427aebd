import type { EndReason } from '#db/events/endings.ts';
import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { Amounts } from '#db/limits/meters.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import { ApiError, type ErrorCode } from '#server/errors/api-error.ts';
import { whenProbed } from '#server/http/half-closed.ts';
import { StoreUnavailable } from '#server/instance/appender.ts';
import { acceptedEvent, type Admitted, bindingOf, extendedEvent } from '#server/relay/admitted.ts';
import { AttemptSequence } from '#server/relay/attempt-sequence.ts';
import { type AttemptOutcome, type AttemptOwner, unsupportedCall } from '#server/relay/attempt-outcome.ts';
import { Attempt } from '#server/relay/attempt.ts';
import { outgoingCall, providerCall } from '#server/relay/outgoing-call.ts';
import { Budget } from '#server/relay/budget.ts';
import { ClientWriter, type ReplyWriter, type Source } from '#server/relay/client-writer.ts';
import type { Relay, RunningCall } from '#server/relay/relay.ts';
import { type CallEnd, endSeenByClient, faultEnd, unsentEnd } from '#server/relay/reply-usage.ts';
import { callSize, learnCall, lostCharge } from '#server/relay/call-estimate.ts';
import type { Deadline, DeadlineTarget } from '#server/relay/deadlines.ts';
import { endCall } from '#server/relay/settle.ts';
import { type CallState, enterCallState } from '#server/relay/transitions.ts';
import { StoredReply } from '#server/stored/stored-reply.ts';
import type { Choice } from '#server/upstreams/choose.ts';
import { releaseBody } from '#server/wire/read-body.ts';
import { releaseSlab } from '#server/wire/slabs.ts';
import { restoreBody } from '#server/wire/splice-body.ts';

/** A call from its admission to its settlement; its states are described at {@link CallState}. */
export class Call implements RunningCall, AttemptOwner, Source, DeadlineTarget {
  readonly #admitted: Admitted;
  readonly #relay: Relay;
  readonly #accepted: EventOf<'request.accepted'>;
  readonly #sequence: AttemptSequence;
  readonly #writer: ReplyWriter;
  /** Of a streamed reply; a JSON reply is complete before it is sent. */
  readonly #budget: Budget | null;
  #state: CallState = 'recording';
  #isRecorded = false;
  /** The attempt that runs in the states attempting and streaming. */
  #attempt: Attempt | null = null;
  /** Ends the backoff early; set while waiting. */
  #wake: (() => void) | null = null;
  /** The call is to end with this error; set while no attempt runs that could be stopped. */
  #stop: { code: ErrorCode; reason: EndReason } | null = null;
  /** Both set in the state ended. @see {@link Call.#finish} */
  #end: CallEnd | null = null;
  #rejection: ApiError | null = null;
  /** While the client is receiving its reply; resolved with whether it was complete. */
  #delivery: Promise<boolean> | null = null;
  readonly #stored: StoredReply | null;
  #deadline: Deadline | null = null;
  #replySlab: Buffer | null = null; // Of a JSON reply.

  constructor(relay: Relay, admitted: Admitted) {
    const { parsed, hold, subjects, estimate, reply, response, keyed } = admitted;
    this.#relay = relay;
    this.#admitted = admitted;
    this.#sequence = new AttemptSequence(admitted.targets, reply.diagnostics, bindingOf(admitted));
    this.#accepted = acceptedEvent(admitted);
    this.#budget = parsed.sse ? new Budget({ estimate, hold, subjects, call: this }) : null;
    const { requestId, extraHeaders, errorFormat } = reply;
    const { fencing } = relay;
    const options = { response, requestId, extraHeaders, errorFormat, fencing, rest: admitted.body.rest };
    const client = new ClientWriter(options, this);
    this.#writer = keyed?.begin(client, () => response.destroyed && this.#clientDisconnected()) ?? client;
    const parties = { relay, admitted, accepted: this.#accepted, writer: this.#writer };
    this.#stored = parsed.isStored === true ? new StoredReply(parties) : null;
  }

  /**
   * Records the call, carries it out and settles it.
   * @returns the error that the client is still to be sent, where the call was not carried out.
   */
  async run(): Promise<ApiError | null> {
    const membership = this.#relay.running.add(this);
    try {
      const { appender } = this.#admitted.instance;
      // A call with an idempotency key that is not in the log was never sent.
      const isOverlapped = this.#relay.overlapped && appender.mode === 'up' && this.#admitted.keyed === null;
      const recorded = appender.accept(this.#accepted, isOverlapped);
      const overlapped = isOverlapped ? this.#attemptAll() : null;
      overlapped?.catch(() => {}); // Awaited below.
      try {
        await recorded;
      } catch (error) {
        return this.#abandon(error);
      }
      this.#isRecorded = true;
      if (overlapped === null) {
        const probed = whenProbed(this.#admitted.response);
        if (probed) await probed;
        const error = this.#rejectBeforeSending();
        if (this.#isOver) return error;
        await this.#attemptAll();
      } else {
        if (this.#state === 'ended') this.#deliverEnd();
        else this.#attempt?.openGate();
        await overlapped;
      }
      if (this.#delivery) await this.#settleDelivered(this.#delivery);
      await this.#stored?.isInBackground;
      return null;
    } catch (error) {
      this.#settleAfterFault();
      throw error;
    } finally {
      this.#relay.running.delete(membership);
    }
  }

  /** Attempts the call until an attempt succeeds, none is left, or the call is to end for another reason. */
  async #attemptAll(): Promise<void> {
    this.#admitted.response.on('close', () => this.#clientDisconnected());
    let choice = this.#sequence.first(performance.now());
    for (;;) {
      this.#transition('attempting');
      const outcome = await this.#runAttempt(choice);
      this.#attempt = null;
      // The call could not be recorded.
      if (this.#isOver || outcome.kind === 'discarded') return;
      const { end, consumed, error } = outcome;
      const nowMs = performance.now();
      if (outcome.kind !== 'failed') this.#sequence.end(end.reason, nowMs, consumed);
      const next =
        outcome.kind === 'failed' ? this.#sequence.failed(outcome.failure, nowMs, consumed ?? end) : null;
      if (next === null) return this.#finish(end, error);
      if (next.waitMs > 0) await this.#backOff(next.waitMs);
      await whenProbed(this.#admitted.response);
      if (this.#isOver || this.#finishInterrupted()) return;
      choice = next;
    }
  }

  #runAttempt(choice: Choice): AttemptOutcome | Promise<AttemptOutcome> {
    const { body, estimate, open } = this.#admitted;
    const { upstream } = choice.target;
    const call = providerCall(
      this.#admitted,
      choice.target,
      this.#stored?.onStored(choice, this.#sequence.count + 1) ?? null,
    );
    this.#sequence.start(choice);
    // The previous attempt may have changed the body in place.
    restoreBody(body);
    const outgoing = outgoingCall(call, upstream, this.#admitted);
    if (outgoing instanceof ApiError) return unsupportedCall(outgoing);
    const { deadlines, timeouts } = this.#relay;
    this.#attempt = new Attempt({
      owner: this,
      writer: this.#writer,
      ...outgoing,
      size: callSize(estimate, this.#accepted.body_bytes, call.tokenLimit),
      open,
      deadlines,
      timeouts: { ...timeouts, totalMs: timeouts.totalMs - this.#sequence.beforeMs },
      budget: this.#budget,
      isGateOpen: this.#isRecorded,
    });
    return this.#attempt.run(choice.pool);
  }

  async #backOff(waitMs: number): Promise<void> {
    this.#transition('waiting');
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, waitMs);
    this.#wake = resolve;
    await promise;
    clearTimeout(timer);
    this.#wake = null;
  }

  /** Ends the call if it was stopped, or its client disconnected, while no attempt ran. */
  #finishInterrupted(): boolean {
    if (this.#stop) {
      const error = new ApiError(this.#stop.code);
      this.#finish(unsentEnd(this.#stop.reason, error.status), error);
    } else if (this.#admitted.response.destroyed) this.#finish(unsentEnd('client_disconnected'), null);
    return this.#isOver;
  }

  /** Ends a recorded call that must not be sent to an upstream. @returns the error for its client. */
  #rejectBeforeSending(): ApiError | null {
    if (this.#admitted.response.destroyed) this.#finish(unsentEnd('client_disconnected'), null);
    else if (this.#relay.phase === 'stopped')
      return this.#rejectUnsent('shutting_down', 'service_unavailable');
    else if (!this.#relay.fencing.isValid(performance.now()))
      return this.#rejectUnsent('store_unavailable', 'service_unavailable');
    else if (this.#stop) return this.#rejectUnsent(this.#stop.code, this.#stop.reason);
    return null;
  }

  #rejectUnsent(code: ErrorCode, reason: EndReason): ApiError {
    const error = new ApiError(code);
    this.#finish(unsentEnd(reason, error.status), null);
    return error;
  }

  /** The call could not be recorded: ends its attempt without a word to the client. */
  #abandon(fault: unknown): ApiError {
    const error = new ApiError('store_unavailable');
    const end = this.#end ?? unsentEnd('service_unavailable', error.status);
    if (this.#state !== 'ended') this.#transition('ended');
    const consumed = this.#attempt?.discard();
    this.#wake?.();
    // Otherwise the circuit breakers would count the attempt as running forever.
    this.#sequence.end('service_unavailable', performance.now(), consumed);
    // The lost response may have been a commit: then the call needs its settlement.
    if (fault instanceof StoreUnavailable && fault.pending) this.#settle(end);
    else this.#forget();
    return error;
  }

  /** @param rejection the error that the client has not been sent yet; null: it has its reply, or is gone. */
  #finish(end: CallEnd, rejection: ApiError | null): void {
    this.#transition('ended');
    this.#sequence.end(end.reason, performance.now());
    this.#end = endSeenByClient(end, this.#admitted.response.headersSent, this.#sequence.beforeMs);
    this.#rejection = rejection;
    if (this.#isRecorded) this.#deliverEnd();
  }

  #deliverEnd(): void {
    if (this.#rejection) this.#writer.sendError(this.#rejection);
    if (this.#writer.isDelivered) return this.#settleAfter(true);
    this.#delivery = this.#writer.whenDelivered();
    this.#deadline = this.#relay.deadlines.watch(this);
  }

  /** Settles the call when its client has received its reply, or has left. Until then it keeps its slot. */
  async #settleDelivered(delivery: Promise<boolean>): Promise<void> {
    const isDelivered = await delivery;
    this.#relay.deadlines.unwatch(this.#deadline);
    if (this.#state === 'ended') this.#settleAfter(isDelivered);
  }

  #settleAfter(isDelivered: boolean): void {
    const end = this.#end as CallEnd;
    const isCut = !isDelivered && end.reason === 'completed';
    if (this.#replySlab && isDelivered) releaseSlab(this.#replySlab);
    this.#replySlab = null;
    this.#settle(isCut ? { ...end, reason: 'client_disconnected' } : end);
  }

  checkDeadlines(nowMs: number): void {
    const isOver = nowMs - this.#admitted.startedMs > this.#relay.timeouts.totalMs;
    if (isOver || this.#writer.isStuck(nowMs)) this.#writer.destroy();
  }

  #settle(end: CallEnd): void {
    this.#transition('settled');
    this.#budget?.end();
    const stored = this.#stored;
    const written = this.#admitted.keyed?.ended(this.#sequence.records, end);
    if (!stored?.isInBackground) this.#record(end, written);
    else
      void stored.isInBackground.then((isBegun) => {
        if (!isBegun) return this.#record({ ...end, reason: 'service_unavailable' }, written);
        stored.handOver(end, endCall(this.#admitted, this.#accepted, this.#sequence, end).event, written);
      });
    this.#releaseBody();
  }

  /** @param written called when the settlement is durable. */
  #record(end: CallEnd, written?: () => void): void {
    const { hold, estimate, past, instance } = this.#admitted;
    const { capped, event } = endCall(this.#admitted, this.#accepted, this.#sequence, end);
    this.#admitted.reply.diagnostics?.settled(event);
    learnCall(past, estimate, capped, this.#accepted.body_bytes);
    const settled = (): void => {
      instance.limits.settle(hold, event);
      written?.();
    };
    instance.appender.settle(event, settled, !hold.isScarce);
  }

  #releaseBody(): void {
    releaseBody(this.#admitted.body);
    this.#admitted.open.holdBody(0);
  }

  /** The call is not in the log and never will be. */
  #forget(): void {
    this.#transition('settled');
    this.#budget?.end();
    const { instance, hold } = this.#admitted;
    instance.limits.release(hold);
    this.#admitted.keyed?.release();
    this.#releaseBody();
  }

  /** After a mistake of ours: the call is settled all the same, once. */
  #settleAfterFault(): void {
    const consumed = this.#attempt?.discard();
    if (this.#state === 'settled') return;
    const { response, estimate } = this.#admitted;
    const status = response.headersSent ? response.statusCode : new ApiError('internal_error').status;
    this.#state = 'ended';
    this.#sequence.end('internal_error', performance.now(), consumed);
    this.#settle(faultEnd(status, estimate.promptLikely, this.relayedTokens));
  }

  #transition(to: CallState): void {
    this.#state = enterCallState(this.#state, to);
  }

  get #isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'settled';
  }

  #clientDisconnected(): void {
    const isDrained = this.#sequence.isDrained || this.#stored?.awaitsId === true || this.goesOn;
    if (this.#attempt) this.#attempt.clientDisconnected(isDrained);
    else if (this.#wake) this.#wake();
    else if (this.#rejection && !this.#isRecorded) {
      // The rejection waits for the record, and the client will not receive it.
      this.#rejection = null;
      this.#end = endSeenByClient({ ...(this.#end as CallEnd), reason: 'client_disconnected' }, false, 0);
    }
  }

  // What others may ask of a running call.

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
    return this.#attempt?.relayedTokens ?? 0;
  }

  chargeAt(outputTokens: number): Amounts | null {
    return this.#budget && lostCharge(this.#admitted.estimate, outputTokens);
  }

  fail(code: ErrorCode, reason: EndReason): void {
    if (this.#attempt?.fail(code, reason)) return;
    this.#stop ??= { code, reason };
    this.#wake?.();
    if (this.#delivery && reason === 'service_unavailable') this.#writer.destroy();
  }

  // What an attempt asks of its call.

  get canFallBack(): boolean {
    return this.#sequence.canFallBack;
  }

  get goesOn(): boolean {
    return this.#admitted.keyed?.goesOn === true;
  }

  replyStarted(afterMs: number): void {
    this.#sequence.replyStarted(afterMs);
  }

  gateAwaited(): void {
    this.#admitted.instance.appender.flush();
  }

  replyBuffered(slab: Buffer): void {
    this.#replySlab = slab;
  }

  streamingStarted(): void {
    this.#transition('streaming');
    // No other upstream can take over, so that nothing reads the body again.
    this.#releaseBody();
  }

  pause(): void {
    this.#attempt?.pause();
  }

  resume(): void {
    this.#attempt?.resume();
  }

  // What the budget asks of its call.

  grow(more: Amounts, grown: () => void): void {
    const { instance, hold } = this.#admitted;
    instance.limits.grow(hold, more, grown);
  }

  /** Records that the reservation has grown, for recovery should this process crash. */
  extended(): void {
    const { hold, instance } = this.#admitted;
    instance.appender.note(extendedEvent(this.#accepted, hold));
  }
}
