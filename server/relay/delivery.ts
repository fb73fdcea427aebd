import type { Dispatcher } from 'undici';
import type { EndReason } from '#db/events/events.ts';
import { ERROR_REPLY_BYTES_MAX, JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { type ErrorCode, ApiError } from '#server/errors/api-error.ts';
import type { SseReader } from '#server/wire/sse.ts';
import type { DeadlineTarget } from '#server/relay/deadlines.ts';
import type { DeliveryOptions } from '#server/relay/delivery-options.ts';
import type { AttemptFailure, FailureCause } from '#server/relay/failure.ts';
import { ClientWriter, type Source } from '#server/relay/client-writer.ts';
import { unsupportedHeader, type ReplyHead, readReplyHead } from '#server/relay/reply-head.ts';
import { ReplyClock } from '#server/relay/reply-clock.ts';
import { type ReplyUsage, usageOfJson, usageOfStream, usageBeforeReply } from '#server/relay/reply-usage.ts';
import { transportFailure } from '#server/relay/transport-failure.ts';
import { apiErrorOfReply, retryAfterMs } from '#server/relay/upstream-errors.ts';
import { HEAD_KEPT_MS } from '#server/upstreams/bounds.ts';

/**
 * One try of a call: the reply of one upstream on its way to the client.
 *
 * - *waiting*: the request is out and nothing has come back.
 * - *holding*: a JSON reply is collected until it is complete, so that what the client gets is
 *   either whole and valid or a clean error.
 * - *refusing*: an error reply is collected, to be told in our own words.
 * - *streaming*: SSE events go through as they come. The status is out; an error can only be told
 *   in-band, and then the body ends without `[DONE]`.
 * - *ended*: {@link DeliveryOptions.onEnd} was called, once, whatever happened.
 *
 * While the client has been told nothing, and the upstream has begun nothing that it may charge for,
 * a failure is another upstream's chance: {@link DeliveryOptions.again}. The head of a streamed reply
 * is kept back for a moment where there is such a chance, since it may be all that comes.
 *
 * With overlapped accounting the gate is closed until the call is recorded: the upstream works
 * meanwhile, but not a byte goes to the client, not even an error.
 */
type Mode = 'waiting' | 'holding' | 'refusing' | 'streaming' | 'ended';

const SSE_HEADERS = ['cache-control', 'no-cache', 'x-accel-buffering', 'no'];
/** Thrown into the upstream exchange to end it. */
const ABORT = new Error('the relay ended the exchange');
export class Delivery implements Dispatcher.DispatchHandler, DeadlineTarget, Source {
  readonly #options: DeliveryOptions;
  readonly #out: ClientWriter;
  readonly #clock = new ReplyClock();
  #mode: Mode = 'waiting';
  #gateOpen: boolean;
  #controller: Dispatcher.DispatchController | null = null;
  #head: ReplyHead | null = null;
  #tap: SseReader | null = null;
  /** The head of a streamed reply is not out yet. */
  #isHeadKept = false;
  /** The client has gone, and the reply is read to its end to know what it cost. */
  #isLeft = false;
  #chunks: Buffer[] = [];
  #size = 0;
  /** What happened while the gate was closed: the reply's end, or its failure. */
  #early: 'ended' | { refusal: ApiError; reason: EndReason } | null = null;

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#gateOpen = options.gateOpen;
    this.#out = new ClientWriter(options, this);
    options.deadlines.add(this);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#mode === 'ended') controller.abort(ABORT);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#mode === 'ended') return;
    this.#clock.headCame();
    this.#head = readReplyHead(status, headers);
    if (this.#gateOpen) this.#begin(this.#head);
    else controller.pause();
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#clock.bytesCame();
    this.#take(chunk);
  }

  onResponseEnd(): void {
    this.#controller = null;
    if (this.#mode === 'waiting') this.#early = 'ended';
    else if (this.#mode === 'holding') this.#sendHeld();
    else if (this.#mode === 'refusing') this.#refuseAsTold();
    else if (this.#mode === 'streaming') this.#endStream();
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#controller = null;
    if (this.#mode === 'refusing') return this.#refuseAsTold();
    if (this.#head) return this.#failed('upstream_disconnected', 'upstream_disconnected', 'cut');
    this.#failed(...transportFailure(error));
  }

  /** Tokens of a streamed reply that went through so far, counted. */
  get relayedTokens(): number {
    return this.#tap?.countedTokens ?? 0;
  }

  /** The call is recorded: what has come may go on. */
  openGate(): void {
    this.#gateOpen = true;
    const early = this.#early;
    if (early !== null && early !== 'ended') return this.#sendRefusal(early.refusal, early.reason);
    if (this.#mode !== 'waiting' || !this.#head) return;
    const chunks = this.#chunks;
    this.#chunks = [];
    this.#begin(this.#head);
    for (const chunk of chunks) this.#take(chunk);
    if (early === 'ended') this.onResponseEnd();
    else this.resume();
  }

  /** The call could not be recorded: the exchange ends without a word, and the caller refuses. */
  discard(): void {
    if (this.#mode === 'ended') return;
    this.#mode = 'ended';
    this.#options.deadlines.delete(this);
    this.#chunks = [];
    this.#controller?.abort(ABORT);
  }

  /**
   * Ends the exchange with an error of ours, in whatever way the client can still be told. Nobody takes over.
   */
  fail(code: ErrorCode, reason: EndReason): void {
    if (this.#mode === 'ended') return;
    if (this.#isTold) this.#failInBand(code, reason);
    else this.#sendRefusal(new ApiError(code), reason);
  }

  /** The client has closed its connection. What was relayed is what is charged. */
  clientGone(): void {
    if (this.#mode !== 'ended') this.#end('client_gone');
  }

  /** The same, and the upstream goes on to its end, which tells what the call cost. */
  clientLeft(): void {
    this.#isLeft = true;
    this.#out.leave();
  }

  /** Compares the exchange with its deadlines. */
  checkDeadlines(nowMs: number): void {
    const { timeouts } = this.#options;
    if (this.#clock.isOver(nowMs, timeouts)) return this.fail('upstream_timeout', 'timed_out');
    if (this.#isHeadKept && this.#clock.headAgeMs(nowMs) > HEAD_KEPT_MS) {
      this.#sendHead();
      this.#out.flushHead();
    }
    if (this.#out.isFull) {
      // Not the upstream's silence: the client takes nothing.
      if (!this.#out.isStuck(nowMs)) return;
      this.#out.destroy();
      return this.clientGone();
    }
    // Behind a closed gate an upstream that has answered is made to wait.
    if (this.#head && !this.#gateOpen) return;
    if (this.#clock.isOverdue(nowMs, timeouts, this.#tap?.dataEvents ?? null))
      return this.#failed('upstream_timeout', 'timed_out', 'timed_out');
    if (this.#tap?.insideEvent === false && !this.#isHeadKept) this.#out.keepAlive(nowMs);
  }

  /** The client takes nothing: the upstream waits. */
  pause(): void {
    this.#controller?.pause();
  }

  /** The silence meanwhile was not the upstream's. */
  resume(): void {
    this.#clock.forgive();
    this.#controller?.resume();
  }

  #begin(head: ReplyHead): void {
    switch (head.form) {
      case 'refusal':
        this.#mode = 'refusing';
        return;
      case 'json':
        this.#mode = 'holding';
        return this.#options.onAnswer(this.#clock.headAfterMs as number);
      case 'unreadable':
        return this.#failed('upstream_error', 'upstream_error', 'unreadable');
      case 'sse':
        this.#mode = 'streaming';
        this.#tap = this.#options.protocol.sse();
        this.#options.onAnswer(this.#clock.headAfterMs as number);
        this.#isHeadKept = this.#options.hasMore();
        if (this.#isHeadKept) return;
        this.#sendHead();
        // The head goes out with the first event when that is already here, else by itself.
        process.nextTick(() => {
          if (this.#mode === 'streaming') this.#out.flushHead();
        });
    }
  }

  #sendHead(): void {
    this.#isHeadKept = false;
    const head = this.#head as ReplyHead;
    this.#out.writeHead(head.status, head.contentType, [
      ...SSE_HEADERS,
      ...unsupportedHeader(head, this.#options.unsupported),
    ]);
  }

  #take(chunk: Buffer): void {
    switch (this.#mode) {
      case 'streaming': {
        const tap = this.#tap as SseReader;
        const { budget } = this.#options;
        const events = tap.push(chunk);
        if (this.#isHeadKept && tap.failed)
          return this.#failed('upstream_error', 'upstream_error', 'error_event');
        if (events) this.#write(events);
        if (budget && tap.countedTokens >= budget.nextAt && !budget.reached(tap.countedTokens))
          this.fail('insufficient_quota', 'quota_exceeded');
        return;
      }
      case 'ended':
        return;
      default:
        this.#size += chunk.length;
        this.#chunks.push(chunk);
        if (this.#mode === 'holding' && this.#size > JSON_REPLY_BYTES_MAX)
          this.#failed('upstream_error', 'upstream_error', 'begun');
        if (this.#mode === 'refusing' && this.#size > ERROR_REPLY_BYTES_MAX) this.#refuseAsTold();
    }
  }

  #write(events: Buffer): void {
    if (this.#isHeadKept) this.#sendHead();
    this.#out.write(events);
  }

  #endStream(): void {
    const tap = this.#tap as SseReader;
    const rest = tap.flush();
    if (rest) this.#write(rest);
    if (!tap.complete && !tap.failed)
      return this.#failed('upstream_disconnected', 'upstream_disconnected', 'cut');
    if (this.#isHeadKept) this.#sendHead();
    this.#out.end();
    this.#end(tap.complete ? 'completed' : 'upstream_error');
  }

  #sendHeld(): void {
    const head = this.#head as ReplyHead;
    const bytes =
      this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#size);
    const reply = this.#options.protocol.json(bytes);
    if (!reply) return this.#failed('upstream_error', 'upstream_error', 'begun');
    const { usage, outputBytes, failed } = reply;
    this.#out.writeHead(head.status, head.contentType, [
      'content-length',
      String(reply.bytes.length),
      ...unsupportedHeader(head, this.#options.unsupported),
    ]);
    this.#out.end(reply.bytes);
    this.#end(
      failed ? 'upstream_error' : 'completed',
      usageOfJson(head.status, usage, this.#options.promptEstimate, outputBytes),
    );
  }

  #refuseAsTold(): void {
    const { status, retryAfter } = this.#head as ReplyHead;
    const fault = this.#options.protocol.fault(Buffer.concat(this.#chunks));
    const { refusal, reason } = apiErrorOfReply({
      status,
      fault,
      retryAfter,
      host: this.#options.upstreamHost,
    });
    this.#giveUp({ refusal, reason, cause: status, retryAfterMs: retryAfterMs(retryAfter) });
  }

  /** Whether the client has the head of a streamed reply. Until then it can be told anything. */
  get #isTold(): boolean {
    return this.#mode === 'streaming' && !this.#isHeadKept;
  }

  /** The upstream has failed, at whatever point. */
  #failed(code: ErrorCode, reason: EndReason, problem: FailureCause): void {
    // A refusal that waits for the record stays what it is: the end of its exchange is nobody's chance.
    if (this.#mode === 'ended' || (this.#early !== null && this.#early !== 'ended')) return;
    if (this.#isTold) return this.#failInBand(code, reason);
    const isBegun = this.#mode === 'holding' && this.#size > 0;
    this.#giveUp({
      refusal: new ApiError(code),
      reason,
      cause: isBegun ? 'begun' : problem,
      retryAfterMs: null,
    });
  }

  #giveUp(failure: AttemptFailure): void {
    const begin = this.#isLeft ? null : this.#options.again(failure);
    if (begin === null) return this.#sendRefusal(failure.refusal, failure.reason);
    this.discard();
    begin();
  }

  #sendRefusal(refusal: ApiError, reason: EndReason): void {
    if (!this.#gateOpen) {
      this.#early ??= { refusal, reason };
      return this.#controller?.abort(ABORT);
    }
    this.#out.refuse(refusal);
    this.#end(reason, {
      ...usageBeforeReply(this.#head?.form, this.#options.promptEstimate),
      status: refusal.status,
    });
  }

  #failInBand(code: ErrorCode, reason: EndReason): void {
    const tap = this.#tap as SseReader;
    // A reply that is complete by its own words stays complete when its connection breaks after it.
    const complete = tap.complete && reason !== 'service_unavailable';
    if (complete) this.#out.end();
    else this.#out.endWithError(new ApiError(code), tap.insideEvent, tap.dataEvents);
    this.#end(complete ? 'completed' : reason);
  }

  /** @param spent absent: what has been given to the client so far. */
  #end(
    reason: EndReason,
    spent: ReplyUsage = usageOfStream(this.#head?.status, this.#options.promptEstimate, this.#tap),
  ): void {
    this.discard();
    this.#options.onEnd({
      ...spent,
      reason: this.#isLeft ? 'client_gone' : reason,
      firstByteMs: this.#clock.headAfterMs,
    });
  }
}
