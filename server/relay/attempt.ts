import type { Dispatcher } from 'undici';
import type { EndReason } from '#db/events/endings.ts';
import { ApiError, type ErrorCode } from '#server/errors/api-error.ts';
import type { AttemptOptions, AttemptOutcome } from '#server/relay/attempt-outcome.ts';
import type { Deadline, DeadlineTarget } from '#server/relay/deadlines.ts';
import type { AttemptFailure, FailureCause } from '#server/relay/failure.ts';
import { ReplyClock } from '#server/relay/reply-clock.ts';
import {
  jsonHeaders,
  type ReplyHead,
  type ReplyHeaders,
  readReplyHead,
  sseHeaders,
} from '#server/relay/reply-head.ts';
import {
  type CallEnd,
  consumedUsage,
  errorUsage,
  jsonUsage,
  type ReplyUsage,
  streamUsage,
} from '#server/relay/reply-usage.ts';
import { type AttemptState, enterAttemptState, IllegalTransition } from '#server/relay/transitions.ts';
import { transportFailure } from '#server/relay/transport-failure.ts';
import { readErrorReply } from '#server/relay/upstream-errors.ts';
import { SLOW_READER_MS } from '#server/http/bounds.ts';
import { HEAD_HELD_MS } from '#server/upstreams/bounds.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import { ERROR_REPLY_BYTES_MAX, JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { BytesReader } from '#server/media/bytes-reader.ts';
import { skipBlank } from '#server/wire/json.ts';
import { SlabCollector } from '#server/wire/slab-collector.ts';
import { releaseSlab } from '#server/wire/slabs.ts';
import { allFacts } from '#server/wire/reply-facts.ts';
import type { SseReader } from '#server/wire/sse.ts';

const ABORT = new Error('the relay ended the exchange');

/** One attempt of a call; its states are described at {@link AttemptState}. */
export class Attempt implements Dispatcher.DispatchHandler, DeadlineTarget {
  readonly #options: AttemptOptions;
  readonly #clock = new ReplyClock();
  readonly #outcome = Promise.withResolvers<AttemptOutcome>();
  #state: AttemptState = 'waiting';
  #isGateOpen: boolean;
  #controller: Dispatcher.DispatchController | null = null;
  #head: ReplyHead | null = null;
  #reader: SseReader | null = null;
  #deadline: Deadline | null = null;
  #isSent = false;
  #isHeadHeld = false;
  /** The client has disconnected, and the reply is read to its end for its usage. */
  #isDraining = false;
  /** A reply that is not streamed, or that has come while the gate was closed. */
  readonly #collected = new SlabCollector(JSON_REPLY_BYTES_MAX);
  /** The reply ended while the gate was closed. */
  #hasEndedBehindGate = false;
  /** Bytes of the reply's body, without the white space that keeps a connection open before it. */
  #replyBytes = 0;

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.#isGateOpen = options.isGateOpen;
  }

  run(pool: UpstreamConnectionPool): Promise<AttemptOutcome> {
    this.#deadline = this.#options.deadlines.watch(this);
    // While the request is being sent the silence is not the upstream's.
    this.#options.call.body.rest?.watch(() => this.#clock.forgive());
    pool.send(this.#options.call, this.#options.request, this);
    return this.#outcome.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#isSent = true;
    if (this.#state === 'ended') controller.abort(ABORT);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: ReplyHeaders): void {
    if (this.#state === 'ended') return;
    if (status < 200 && this.#clock.informationalCame()) return;
    if (status < 200) return this.#fail('upstream_error', 'upstream_error', 'unreadable');
    this.#clock.headCame();
    const { call } = this.#options;
    const head = readReplyHead(status, headers, call.parsed.sse, call.redactor, call.parsed.replies);
    this.#head = head;
    if (this.#isGateOpen) return this.#orFault(() => this.#begin(head));
    controller.pause();
    this.#options.owner.gateAwaited();
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#clock.bytesCame();
    try {
      this.#take(chunk);
    } catch (error) {
      this.#fault(error);
    }
  }

  onResponseEnd(): void {
    this.#controller = null;
    this.#orFault(() => this.#endReply());
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#controller = null;
    const invalid = this.#options.call.body.rest?.failure;
    if (this.#state === 'rejected') this.#failByReply();
    else if (invalid && !this.#head) this.#resolveBeforeReply(invalid, 'upstream_rejected', null);
    else if (this.#head) this.#fail('upstream_disconnected', 'upstream_disconnected', 'cut');
    else this.#fail(...transportFailure(error));
  }

  /** Tokens of a streamed reply relayed so far, counted by us. */
  get relayedTokens(): number {
    return this.#reader?.countedTokens ?? 0;
  }

  /** The call is recorded: the reply received so far is relayed. */
  openGate(): void {
    this.#isGateOpen = true;
    if (this.#state !== 'waiting' || !this.#head) return;
    const { bytes } = this.#collected.take();
    this.#begin(this.#head);
    if (bytes.length > 0) this.#take(bytes);
    if (this.#hasEndedBehindGate) this.#endReply();
    else this.resume();
  }

  /** Ends the exchange without a word to the client. @returns its usage; null: it has ended before. */
  discard(): ReplyUsage | null {
    if (this.#state === 'ended') return null;
    const consumed = this.#consumed(errorUsage(this.#head?.form, this.#options.size), true);
    this.#resolve({ kind: 'discarded' });
    return consumed;
  }

  /**
   * Ends the attempt with an error of the relay's, and no other upstream takes over. Where the client has a
   * part of the reply, the error is reported in-band.
   * @returns false: the attempt has ended already.
   */
  fail(code: ErrorCode, reason: EndReason): boolean {
    if (this.#state === 'ended') return false;
    if (this.#isHeadSent) this.#failInBand(code, reason);
    else this.#resolveBeforeReply(new ApiError(code), reason, null);
    return true;
  }

  /**
   * The client has disconnected, and is charged for the reply relayed so far.
   * @param drain whether the reply is read to its end all the same, which reports the true usage.
   */
  clientDisconnected(drain: boolean): void {
    if (this.#state === 'ended') return;
    if (!drain) return this.#finish('client_disconnected');
    this.#isDraining = true;
    this.#options.writer.detach();
  }

  checkDeadlines(nowMs: number): void {
    this.#orFault(() => this.#checkDeadlines(nowMs));
  }

  #checkDeadlines(nowMs: number): void {
    const { timeouts, writer } = this.#options;
    if (this.#clock.isOver(nowMs, timeouts)) return void this.fail('upstream_timeout', 'timed_out');
    if (this.#isHeadHeld && this.#clock.headAgeMs(nowMs) > HEAD_HELD_MS) {
      this.#sendHead();
      writer.flushHead();
    }
    if (writer.isFull) {
      // The client reads nothing: the silence is not the upstream's.
      if (!writer.isStuck(nowMs)) return;
      writer.destroy();
      return this.clientDisconnected(this.#options.owner.goesOn);
    }
    const waitMs = this.#options.open.waitMs(nowMs);
    if (waitMs !== null) {
      if (waitMs > SLOW_READER_MS) this.fail('relay_buffer_full', 'service_unavailable');
      return;
    }
    // Behind a closed gate an upstream that has replied is paused.
    if (this.#head && !this.#isGateOpen) return;
    if (this.#clock.isOverdue(nowMs, timeouts, this.#reader?.dataEvents ?? null))
      return this.#fail('upstream_timeout', 'timed_out', 'timed_out');
    if (this.#reader?.insideEvent === false && !this.#isHeadHeld) writer.keepAlive(nowMs);
  }

  /** The client reads nothing: the upstream is paused. */
  pause(): void {
    this.#controller?.pause();
  }

  /** The silence in the meantime was not the upstream's. */
  resume(): void {
    this.#clock.forgive();
    this.#controller?.resume();
  }

  #begin(head: ReplyHead): void {
    const { owner, provider, call, writer } = this.#options;
    switch (head.form) {
      case 'error':
        return this.#transition('rejected');
      case 'json':
        this.#transition('buffering');
        return owner.replyStarted(this.#clock.headAfterMs as number);
      case 'unreadable':
        return this.#fail('upstream_error', 'upstream_error', 'unreadable');
      case 'sse':
      case 'bytes':
        this.#transition('streaming');
        this.#reader = head.form === 'sse' ? provider.sse(call) : new BytesReader(call.redactor);
        owner.replyStarted(this.#clock.headAfterMs as number);
        this.#isHeadHeld = owner.canFallBack;
        if (this.#isHeadHeld) return;
        this.#sendHead();
        // The head is sent with the first event when that is already here, else by itself.
        process.nextTick(() => {
          if (this.#state === 'streaming') writer.flushHead();
        });
    }
  }

  #sendHead(): void {
    this.#isHeadHeld = false;
    this.#options.owner.streamingStarted();
    const { writer, request } = this.#options;
    const head = this.#head as ReplyHead;
    writer.writeHead(head.status, head.contentType, sseHeaders(head, request));
  }

  #take(chunk: Buffer): void {
    if (this.#state === 'ended') return;
    this.#replyBytes += chunk.length - (this.#replyBytes === 0 ? skipBlank(chunk, 0) : 0);
    if (this.#state === 'streaming') return this.#takeEvents(chunk);
    const size = this.#collected.size + chunk.length;
    if (size > JSON_REPLY_BYTES_MAX) return this.#fail('upstream_error', 'upstream_error', 'reply_begun');
    this.#collected.push(chunk);
    if (this.#state === 'rejected' && size > ERROR_REPLY_BYTES_MAX) return this.#failByReply();
    if (this.#state !== 'buffering') return;
    // Without memory for more, the reply waits with its upstream.
    if (!this.#options.open.holdReply(this.#collected.heldBytes, () => this.resume())) this.pause();
  }

  #takeEvents(chunk: Buffer): void {
    const reader = this.#reader as SseReader;
    const { budget } = this.#options;
    const events = reader.push(chunk);
    if (this.#isHeadHeld && reader.failed)
      return this.#fail('upstream_error', 'upstream_error', 'error_event');
    if (events) this.#write(events);
    if (budget && reader.countedTokens >= budget.nextAt && !budget.reached(reader.countedTokens))
      this.fail('insufficient_quota', 'quota_exceeded');
  }

  #write(events: Buffer): void {
    if (this.#isHeadHeld) this.#sendHead();
    this.#options.writer.write(events);
  }

  #endReply(): void {
    switch (this.#state) {
      case 'waiting':
        return void (this.#hasEndedBehindGate = true);
      case 'buffering':
        return this.#sendBuffered();
      case 'rejected':
        return this.#failByReply();
      case 'streaming':
        return this.#endStream();
      default:
    }
  }

  #endStream(): void {
    const reader = this.#reader as SseReader;
    const rest = reader.flush();
    if (rest) this.#write(rest);
    if (!reader.complete && !reader.failed)
      return this.#fail('upstream_disconnected', 'upstream_disconnected', 'cut');
    if (this.#isHeadHeld) this.#sendHead();
    this.#options.writer.end();
    this.#finish(reader.complete ? 'completed' : 'upstream_error');
  }

  #sendBuffered(): void {
    const { owner, writer, provider, call, request, size } = this.#options;
    const head = this.#head as ReplyHead;
    const { bytes, slab } = this.#collected.take();
    const reply = provider.json(bytes, call);
    const redacted = reply && call.redactor.json(reply.bytes, reply.failed, reply.text);
    if (slab && redacted?.buffer === slab.buffer) owner.replyBuffered(slab);
    else if (slab) releaseSlab(slab);
    if (!reply || !redacted) return this.#fail('upstream_error', 'upstream_error', 'reply_begun');
    writer.writeHead(head.status, head.contentType, jsonHeaders(head, redacted.length, request));
    writer.end(redacted);
    const reason = reply.failed ? 'upstream_error' : 'completed';
    this.#finish(reason, jsonUsage(head.status, size, reply, this.#replyBytes));
  }

  /** The upstream has replied with an error. */
  #failByReply(): void {
    const { bytes, slab } = this.#collected.take();
    const { refusal, reason, failure, usage } = readErrorReply(this.#head as ReplyHead, bytes, this.#options);
    if (slab) releaseSlab(slab);
    this.#resolveBeforeReply(refusal, reason, failure, usage);
  }

  /** Whether the client has the head of a streamed reply. Until then it can receive any reply. */
  get #isHeadSent(): boolean {
    return this.#state === 'streaming' && !this.#isHeadHeld;
  }

  /** The upstream has failed, before its reply or in the middle. */
  #fail(code: ErrorCode, reason: EndReason, cause: FailureCause): void {
    if (this.#state === 'ended') return;
    if (this.#isHeadSent) return this.#failInBand(code, reason);
    const begun = this.#state === 'buffering' && this.#collected.size > 0 ? 'reply_begun' : null;
    this.#resolveBeforeReply(new ApiError(code), reason, { cause: begun ?? cause, retryAfterMs: null });
  }

  /** @param failure null: no other upstream is to take over. @param reported by an error reply. */
  #resolveBeforeReply(
    error: ApiError,
    reason: EndReason,
    failure: Pick<AttemptFailure, 'cause' | 'retryAfterMs'> | null,
    reported: ReplyUsage | null = null,
  ): void {
    const usage = { ...errorUsage(this.#head?.form, this.#options.size), status: error.status };
    const end = this.#endOf(reason, usage);
    const consumed = reported ?? this.#consumed(usage, failure?.cause !== 'cut');
    if (this.#isDraining) this.#resolve({ kind: 'finished', end, consumed, error: null });
    else if (failure === null) this.#resolve({ kind: 'stopped', end, consumed, error });
    else this.#resolve({ kind: 'failed', end, consumed, error, failure: { error, reason, ...failure } });
  }

  #consumed(charged: ReplyUsage, isConnected: boolean): ReplyUsage {
    const reply = { form: this.#head?.form, reader: this.#reader, bytes: this.#replyBytes };
    const used = consumedUsage(charged, this.#options.size, reply, this.#isSent && isConnected);
    return { ...used, facts: this.#facts(used) };
  }

  #failInBand(code: ErrorCode, reason: EndReason): void {
    const { writer } = this.#options;
    const reader = this.#reader as SseReader;
    // A reply that the provider has completed stays complete when its connection breaks afterwards.
    const isComplete = reader.complete && reason !== 'service_unavailable';
    if (isComplete) writer.end(reader.close?.() ?? undefined);
    else if (this.#head?.form === 'bytes') writer.destroy();
    else writer.endWithError(new ApiError(code), reader.insideEvent, reader.dataEvents);
    this.#finish(isComplete ? 'completed' : reason);
  }

  /** @param usage absent: that of the reply relayed so far. */
  #finish(
    reason: EndReason,
    usage: ReplyUsage = streamUsage(this.#head?.status, this.#options.size, this.#reader, this.#replyBytes),
  ): void {
    this.#resolve({ kind: 'finished', end: this.#endOf(reason, usage), consumed: null, error: null });
  }

  #endOf(reason: EndReason, usage: ReplyUsage): CallEnd {
    const seen = this.#isDraining ? 'client_disconnected' : reason;
    return { ...usage, facts: this.#facts(usage), reason: seen, firstByteMs: this.#clock.headAfterMs };
  }

  #facts({ facts }: ReplyUsage): ReplyUsage['facts'] {
    return this.#head ? allFacts(facts, this.#head.facts, this.#options.call.redactor) : facts;
  }

  #resolve(outcome: AttemptOutcome): void {
    this.#transition('ended');
    this.#options.deadlines.unwatch(this.#deadline);
    this.#collected.release();
    this.#controller?.abort(ABORT);
    this.#outcome.resolve(outcome);
  }

  #transition(to: AttemptState): void {
    this.#state = enterAttemptState(this.#state, to);
  }

  /** Reports a mistake of ours to the call: undici would take it for a failure of the connection. */
  #orFault(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#fault(error);
    }
  }

  #fault(error: unknown): void {
    if (!(error instanceof IllegalTransition)) throw error;
    this.#outcome.reject(error);
  }
}
