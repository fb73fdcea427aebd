import type { Dispatcher } from 'undici';
import type { EndReason } from '#db/events.ts';
import { ERROR_REPLY_BYTES_MAX, JSON_REPLY_BYTES_MAX } from '#server/bounds.ts';
import { type Code, Refusal } from '#server/errors.ts';
import type { Deadlines, Watched } from '#server/relay/deadlines.ts';
import { readJsonReply } from '#server/relay/json-reply.ts';
import { Outgoing, type OutgoingOptions, type Source } from '#server/relay/outgoing.ts';
import { type ReplyHead, readReplyHead } from '#server/relay/reply-head.ts';
import { ReplyClock, type ReplyTimeouts } from '#server/relay/reply-clock.ts';
import { type Ending, type Spent, spentAsTold, spentBySize, spentNothing, spentOnReply, spentUnseen } from '#server/relay/spent.ts';
import { SseTap } from '#server/relay/sse.ts';
import { refusalOfReply } from '#server/relay/upstream-errors.ts';
import { transportProblem } from '#server/relay/upstream.ts';

/**
 * One reply on its way from the upstream to the client.
 *
 * - *waiting*: the request is out and nothing has come back.
 * - *holding*: a JSON reply is collected until it is complete, so that what the client gets is
 *   either whole and valid or a clean error.
 * - *refusing*: an error reply is collected, to be told in our own words.
 * - *streaming*: SSE events go through as they come. The status is out; an error can only be told
 *   in-band, and then the body ends without `[DONE]`.
 * - *ended*: {@link DeliveryOptions.onEnd} was called, once, whatever happened.
 *
 * With overlapped accounting the gate is closed until the call is recorded: the upstream works
 * meanwhile, but not a byte goes to the client, not even an error.
 */
type Mode = 'waiting' | 'holding' | 'refusing' | 'streaming' | 'ended';

export type DeliveryOptions = OutgoingOptions & {
  /** Whether the usage chunk of a streamed reply is one that only we asked for. */
  stripUsage: boolean;
  /** The prompt's tokens by our estimate, for a reply whose provider never says. */
  promptEstimate: number;
  /** Where the upstream lives, which no client may be told. */
  upstreamHost: string;
  timeouts: ReplyTimeouts;
  deadlines: Deadlines;
  gateOpen: boolean;
  /** What a streamed reply may still spend; null: whatever it likes. */
  budget: { nextAt: number; reached(counted: number): boolean } | null;
  onEnd: (ending: Ending) => void;
};

const SSE_HEADERS = ['cache-control', 'no-cache', 'x-accel-buffering', 'no'];
/** Thrown into the upstream exchange to end it. */
const ABORT = new Error('the relay ended the exchange');
export class Delivery implements Dispatcher.DispatchHandler, Watched, Source {
  readonly #options: DeliveryOptions;
  readonly #out: Outgoing;
  readonly #clock = new ReplyClock();
  #mode: Mode = 'waiting';
  #gateOpen: boolean;
  #controller: Dispatcher.DispatchController | null = null;
  #head: ReplyHead | null = null;
  #tap: SseTap | null = null;
  #chunks: Buffer[] = [];
  #size = 0;
  /** What happened while the gate was closed: the reply's end, or its failure. */
  #early: 'ended' | { refusal: Refusal; reason: EndReason } | null = null;

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#gateOpen = options.gateOpen;
    this.#out = new Outgoing(options, this);
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
    switch (this.#mode) {
      case 'waiting':
        this.#early = 'ended';
        return;
      case 'holding':
        return this.#sendHeld();
      case 'refusing':
        return this.#refuseAsTold();
      case 'streaming':
        return this.#endStream();
      case 'ended':
        return;
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#controller = null;
    if (this.#mode === 'refusing') return this.#refuseAsTold();
    if (this.#head) return this.fail('upstream_cut', 'upstream_cut');
    switch (transportProblem(error)) {
      case 'timed_out':
        return this.fail('upstream_timeout', 'timed_out');
      case 'unreachable':
        return this.fail('upstream_unreachable', 'upstream_unreachable');
      case 'broken':
        return this.fail('upstream_error', 'upstream_cut');
    }
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

  /** Ends the exchange with an error of ours, in whatever way the client can still be told. */
  fail(code: Code, reason: EndReason): void {
    switch (this.#mode) {
      case 'waiting':
      case 'holding':
      case 'refusing':
        return this.#sendRefusal(new Refusal(code), reason);
      case 'streaming':
        return this.#failInBand(code, reason);
      case 'ended':
        return;
    }
  }

  /** The client has closed its connection. What was relayed is what is charged. */
  clientGone(): void {
    if (this.#mode !== 'ended') this.#end('client_gone');
  }

  /** Compares the exchange with its deadlines. */
  check(nowMs: number): void {
    const { timeouts } = this.#options;
    if (this.#clock.isOver(nowMs, timeouts)) return this.fail('upstream_timeout', 'timed_out');
    if (this.#out.isFull) {
      // Not the upstream's silence: the client takes nothing.
      if (!this.#out.isStuck(nowMs)) return;
      this.#out.destroy();
      return this.clientGone();
    }
    // Behind a closed gate an upstream that has answered is made to wait.
    if (this.#head && !this.#gateOpen) return;
    if (this.#clock.isOverdue(nowMs, timeouts, this.#tap?.dataEvents ?? null)) return this.fail('upstream_timeout', 'timed_out');
    if (this.#tap?.insideEvent === false) this.#out.keepAlive(nowMs);
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
        return;
      case 'unreadable':
        return this.fail('upstream_error', 'upstream_error');
      case 'sse':
        this.#mode = 'streaming';
        this.#tap = new SseTap(this.#options.stripUsage);
        this.#out.writeHead(head.status, head.contentType, SSE_HEADERS);
        // The head goes out with the first event when that is already here, else by itself.
        process.nextTick(() => {
          if (this.#mode === 'streaming') this.#out.flushHead();
        });
    }
  }

  #take(chunk: Buffer): void {
    switch (this.#mode) {
      case 'streaming': {
        const tap = this.#tap as SseTap;
        const { budget } = this.#options;
        const events = tap.push(chunk);
        if (events) this.#out.write(events);
        if (budget && tap.countedTokens >= budget.nextAt && !budget.reached(tap.countedTokens)) this.fail('insufficient_quota', 'quota_spent');
        return;
      }
      case 'waiting':
      case 'holding':
      case 'refusing':
        this.#size += chunk.length;
        this.#chunks.push(chunk);
        if (this.#mode === 'holding' && this.#size > JSON_REPLY_BYTES_MAX) this.fail('upstream_error', 'upstream_error');
        if (this.#mode === 'refusing' && this.#size > ERROR_REPLY_BYTES_MAX) this.#refuseAsTold();
        return;
      case 'ended':
        return;
    }
  }

  #endStream(): void {
    const tap = this.#tap as SseTap;
    const rest = tap.flush();
    if (rest) this.#out.write(rest);
    if (!tap.complete && !tap.failed) return this.#failInBand('upstream_cut', 'upstream_cut');
    this.#out.end();
    this.#end(tap.complete ? 'completed' : 'upstream_error');
  }

  #sendHeld(): void {
    const { status, contentType } = this.#head as ReplyHead;
    const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#size);
    const reply = readJsonReply(bytes);
    if (!reply) return this.fail('upstream_error', 'upstream_error');
    const { usage, choicesBytes, failed } = reply;
    this.#out.writeHead(status, contentType, ['content-length', String(bytes.length)]);
    this.#out.end(bytes);
    const spent = usage ? spentAsTold(status, usage) : spentBySize(status, this.#options.promptEstimate, choicesBytes);
    this.#end(failed ? 'upstream_error' : 'completed', spent);
  }

  #refuseAsTold(): void {
    const { status, retryAfter } = this.#head as ReplyHead;
    const reply = { status, body: Buffer.concat(this.#chunks), retryAfter, host: this.#options.upstreamHost };
    const { refusal, reason } = refusalOfReply(reply);
    this.#sendRefusal(refusal, reason);
  }

  #sendRefusal(refusal: Refusal, reason: EndReason): void {
    if (!this.#gateOpen) {
      this.#early ??= { refusal, reason };
      return this.#controller?.abort(ABORT);
    }
    // An upstream that had begun a good reply has worked, and nobody knows how much.
    const form = this.#head?.form;
    const spent = form === 'json' || form === 'sse' ? spentUnseen(this.#options.promptEstimate) : spentNothing();
    this.#out.refuse(refusal);
    this.#end(reason, { ...spent, status: refusal.status });
  }

  #failInBand(code: Code, reason: EndReason): void {
    const tap = this.#tap as SseTap;
    // A reply that is complete by its own words stays complete when its connection breaks after it.
    const complete = tap.complete && reason !== 'shed';
    if (complete) this.#out.end();
    else this.#out.endWithError(new Refusal(code), tap.insideEvent);
    this.#end(complete ? 'completed' : reason);
  }

  /** What has been given to the client and used so far. */
  #spent(): Spent {
    const { promptEstimate } = this.#options;
    return this.#tap && this.#head ? spentOnReply(this.#head.status, promptEstimate, this.#tap) : spentUnseen(promptEstimate);
  }

  #end(reason: EndReason, spent: Spent = this.#spent()): void {
    this.discard();
    this.#options.onEnd({ ...spent, reason, firstByteMs: this.#clock.headAfterMs });
  }
}
