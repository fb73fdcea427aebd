import type { ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import type { EndReason, UsageSource } from '#db/events.ts';
import {
  ERROR_REPLY_BYTES_MAX,
  JSON_REPLY_HELD_BYTES_MAX,
  KEEP_ALIVE_COMMENT_MS,
  PROGRESS_TIMEOUT_MS,
  SLOW_READER_MS,
} from '#server/bounds.ts';
import { type Code, Refusal } from '#server/errors.ts';
import type { Usage } from '#server/providers/openai.ts';
import type { Deadlines, Watched } from '#server/relay/deadlines.ts';
import { readJsonReply } from '#server/relay/json-reply.ts';
import { SseTap } from '#server/relay/sse.ts';
import { refusalOfReply, type UpstreamReply } from '#server/relay/upstream-errors.ts';
import { transportProblem } from '#server/relay/upstream.ts';

/**
 * One reply on its way from the upstream to the client.
 *
 * - *waiting*: the request is out and nothing has come back.
 * - *holding*: a JSON reply is collected until it is complete, so that what the client gets is
 *   either whole and valid or a clean error. One that is too large to hold turns to *piping*.
 * - *refusing*: an error reply is collected, to be told in our own words.
 * - *streaming*: SSE events go through as they come. The status is out; an error can only be told
 *   in-band, and then the body ends without `[DONE]`.
 * - *piping*: a reply too large to hold goes through as it comes; a cut closes the connection.
 * - *ended*: {@link DeliveryOptions.onEnd} was called, once, whatever happened.
 *
 * With overlapped accounting the gate is closed until the call is recorded: the upstream works
 * meanwhile, but nothing of its reply is looked at.
 */
type Mode = 'waiting' | 'holding' | 'refusing' | 'streaming' | 'piping' | 'ended';

/** How a delivery ended. */
export type Ending = {
  reason: EndReason;
  /** The status the client was given; 499 when it left before there was one. */
  status: number;
  usage: Usage;
  source: UsageSource;
  firstByteMs: number | null;
};

export type DeliveryOptions = {
  response: ServerResponse;
  requestId: string;
  /** More headers for whatever is sent, in pairs; CORS. */
  extraHeaders: readonly string[];
  /** Whether the usage chunk of a streamed reply is one that only we asked for. */
  stripUsage: boolean;
  /** The prompt's tokens by our estimate, for a reply whose provider never says. */
  promptEstimate: number;
  /** Where the upstream lives, which no message may tell the client. */
  upstreamHost: string;
  timeouts: { firstByteMs: number; idleMs: number; totalMs: number };
  deadlines: Deadlines;
  gateOpen: boolean;
  onEnd: (ending: Ending) => void;
};

const NOTHING_USED: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
const KEEP_ALIVE_COMMENT = ': keep-alive\n\n';

/** Thrown into the upstream exchange to end it; never seen outside. */
const ABORT = new Error('the relay ended the exchange');

export class Delivery implements Dispatcher.DispatchHandler, Watched {
  readonly #options: DeliveryOptions;
  readonly #startedMs = performance.now();
  #mode: Mode = 'waiting';
  #gateOpen: boolean;
  #controller: Dispatcher.DispatchController | null = null;
  #status = 0;
  #contentType = '';
  #retryAfter: string | undefined;
  #firstByteMs: number | null = null;
  #lastByteMs = this.#startedMs;
  #lastWriteMs = this.#startedMs;
  #pausedAtMs = 0;
  #progressMs = this.#startedMs;
  #progressSeen = 0;
  #tap: SseTap | null = null;
  #chunks: Buffer[] = [];
  #size = 0;
  /** What happened while the gate was closed: the reply's end, or its failure. */
  #endedEarly = false;
  #failedEarly: { refusal: Refusal; reason: EndReason } | null = null;

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#gateOpen = options.gateOpen;
    options.deadlines.add(this);
  }

  // ---- what the upstream does ----

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
    const nowMs = performance.now();
    this.#firstByteMs = nowMs - this.#startedMs;
    this.#lastByteMs = nowMs;
    this.#progressMs = nowMs;
    this.#status = status;
    this.#contentType = one(headers['content-type']) ?? '';
    this.#retryAfter = one(headers['retry-after']);
    if (one(headers['content-encoding']) !== undefined && one(headers['content-encoding']) !== 'identity') {
      return this.#failBeforeReply('upstream_error', 'upstream_error');
    }
    if (this.#gateOpen) this.#begin();
    else controller.pause();
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#lastByteMs = performance.now();
    this.#take(chunk);
  }

  #take(chunk: Buffer): void {
    switch (this.#mode) {
      case 'streaming':
        return this.#stream(chunk);
      case 'holding':
        return this.#hold(chunk);
      case 'refusing':
        this.#size += chunk.length;
        this.#chunks.push(chunk);
        if (this.#size > ERROR_REPLY_BYTES_MAX) this.#refuse();
        return;
      case 'piping':
        this.#size += chunk.length;
        return this.#write(chunk);
      case 'waiting':
        // The gate is closed and the upstream has already closed its side: kept for the opening.
        this.#chunks.push(chunk);
        return;
      case 'ended':
        return;
    }
  }

  onResponseEnd(): void {
    this.#controller = null;
    switch (this.#mode) {
      case 'streaming':
        return this.#endStream();
      case 'holding':
        return this.#sendHeld();
      case 'refusing':
        return this.#refuse();
      case 'piping':
        this.#options.response.end();
        return this.#end('completed', this.#status, this.#pipedUsage(), 'estimated');
      case 'waiting':
        this.#endedEarly = true;
        return;
      case 'ended':
        return;
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#controller = null;
    if (this.#failedEarly) return;
    switch (this.#mode) {
      case 'waiting': {
        if (this.#firstByteMs !== null) return this.#failBeforeReply('upstream_cut', 'upstream_cut');
        const problem = transportProblem(error);
        if (problem === 'timed_out') return this.#failBeforeReply('upstream_timeout', 'timed_out');
        if (problem === 'unreachable') return this.#failBeforeReply('upstream_unreachable', 'upstream_unreachable');
        return this.#failBeforeReply('upstream_error', 'upstream_cut');
      }
      case 'holding':
        return this.#failBeforeReply('upstream_cut', 'upstream_cut');
      case 'refusing':
        return this.#refuse();
      case 'streaming':
        return this.#failInBand('upstream_cut', 'upstream_cut');
      case 'piping':
        this.#options.response.destroy();
        return this.#end('upstream_cut', this.#status, this.#pipedUsage(), 'estimated');
      case 'ended':
        return;
    }
  }

  // ---- what the relay and the client do ----

  /** The call is recorded: what has come may go on. */
  openGate(): void {
    this.#gateOpen = true;
    if (this.#failedEarly) return this.#sendRefusal(this.#failedEarly.refusal, this.#failedEarly.reason);
    if (this.#mode !== 'waiting' || this.#firstByteMs === null) return;
    this.#begin();
    const early = this.#chunks;
    if (this.#currentMode() === 'ended') return;
    this.#chunks = [];
    for (const chunk of early) this.#take(chunk);
    if (this.#endedEarly) this.onResponseEnd();
    else this.#controller?.resume();
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
        return this.#failBeforeReply(code, reason);
      case 'streaming':
        return this.#failInBand(code, reason);
      case 'piping':
        this.#options.response.destroy();
        return this.#end(reason, this.#status, this.#pipedUsage(), 'estimated');
      case 'ended':
        return;
    }
  }

  /** The client has closed its connection. What was relayed is what is charged. */
  clientGone(): void {
    if (this.#mode === 'ended') return;
    const { status, usage, source } = this.#standing();
    this.#end('client_gone', status, usage, source);
  }

  /** Compares the exchange with its deadlines. */
  check(nowMs: number): void {
    const { timeouts, response } = this.#options;
    if (nowMs - this.#startedMs > timeouts.totalMs) return this.fail('upstream_timeout', 'timed_out');
    if (this.#firstByteMs === null) {
      if (nowMs - this.#startedMs > timeouts.firstByteMs) this.fail('upstream_timeout', 'timed_out');
      return;
    }
    if (this.#pausedAtMs > 0) {
      // Not the upstream's silence: the client takes nothing.
      if (nowMs - this.#pausedAtMs > SLOW_READER_MS) {
        response.destroy();
        this.clientGone();
      }
      return;
    }
    if (nowMs - this.#lastByteMs > timeouts.idleMs) return this.fail('upstream_timeout', 'timed_out');
    if (this.#tap) {
      if (this.#tap.dataEvents > this.#progressSeen) {
        this.#progressSeen = this.#tap.dataEvents;
        this.#progressMs = nowMs;
      }
      if (nowMs - this.#progressMs > PROGRESS_TIMEOUT_MS) return this.fail('upstream_timeout', 'timed_out');
      if (nowMs - this.#lastWriteMs > KEEP_ALIVE_COMMENT_MS && !this.#tap.insideEvent) {
        this.#write(KEEP_ALIVE_COMMENT);
      }
    }
  }

  // ---- the modes ----

  /** TypeScript narrows a private field across calls that change it; this does not. */
  #currentMode(): Mode {
    return this.#mode;
  }

  #begin(): void {
    if (this.#status < 200 || this.#status >= 300) {
      this.#mode = 'refusing';
    } else if (/^text\/event-stream\b/i.test(this.#contentType)) {
      this.#mode = 'streaming';
      this.#tap = new SseTap(this.#options.stripUsage);
      this.#writeHead(['cache-control', 'no-cache', 'x-accel-buffering', 'no']);
      // The head goes out with the first event when that is already here, else by itself.
      process.nextTick(() => {
        if (this.#mode === 'streaming' && this.#lastWriteMs === this.#startedMs) this.#options.response.flushHeaders();
      });
    } else if (/^application\/(?:[\w.+-]+\+)?json\b/i.test(this.#contentType)) {
      this.#mode = 'holding';
    } else {
      this.#failBeforeReply('upstream_error', 'upstream_error');
    }
  }

  #stream(chunk: Buffer): void {
    const bytes = (this.#tap as SseTap).push(chunk);
    if (bytes) this.#write(bytes);
  }

  #endStream(): void {
    const tap = this.#tap as SseTap;
    const rest = tap.flush();
    // A rest without its blank line may be half an event. It is only passed on if it completes the reply.
    if (rest && (tap.complete || tap.failed)) this.#options.response.write(rest);
    if (!tap.complete && !tap.failed) return this.#failInBand('upstream_cut', 'upstream_cut');
    this.#options.response.end();
    const { status, usage, source } = this.#standing();
    this.#end(tap.failed && !tap.complete ? 'upstream_error' : 'completed', status, usage, source);
  }

  #hold(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size <= JSON_REPLY_HELD_BYTES_MAX) return;
    this.#mode = 'piping';
    this.#writeHead([]);
    for (const held of this.#chunks) this.#write(held);
    this.#chunks = [];
  }

  #sendHeld(): void {
    const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#size);
    this.#chunks = [];
    const reply = readJsonReply(bytes);
    if (!reply) return this.#failBeforeReply('upstream_error', 'upstream_error');
    this.#writeHead(['content-length', String(bytes.length)]);
    this.#options.response.end(bytes);
    if (reply.usage) return this.#end('completed', this.#status, reply.usage, 'provider');
    const output = reply.countedTokens;
    this.#end('completed', this.#status, { ...NOTHING_USED, input: this.#options.promptEstimate, output }, 'counted');
  }

  #refuse(): void {
    const reply: UpstreamReply = {
      status: this.#status,
      body: Buffer.concat(this.#chunks),
      retryAfter: this.#retryAfter,
      host: this.#options.upstreamHost,
    };
    const { refusal, reason } = refusalOfReply(reply);
    this.#sendRefusal(refusal, reason);
  }

  #failBeforeReply(code: Code, reason: EndReason): void {
    this.#sendRefusal(new Refusal(code), reason);
  }

  #sendRefusal(refusal: Refusal, reason: EndReason): void {
    const { response, requestId, extraHeaders } = this.#options;
    if (!this.#gateOpen) {
      // Not even an error goes out before the call is recorded.
      this.#failedEarly = { refusal, reason };
      return this.#controller?.abort(ABORT);
    }
    // If the upstream had begun to answer it has worked, and nobody knows how much.
    const worked = this.#mode === 'holding';
    const body = refusal.body(requestId);
    if (!response.destroyed) {
      response.writeHead(refusal.status, [...refusal.headers(requestId, Buffer.byteLength(body)), ...extraHeaders]);
      response.end(body);
    }
    const usage = worked ? { ...NOTHING_USED, input: this.#options.promptEstimate } : NOTHING_USED;
    this.#end(reason, refusal.status, usage, worked ? 'estimated' : 'none');
  }

  #failInBand(code: Code, reason: EndReason): void {
    const { response, requestId } = this.#options;
    const tap = this.#tap as SseTap;
    // A reply that is complete by its own words stays complete: only the connection broke after it.
    const complete = tap.complete && reason !== 'shed';
    if (!complete) {
      const separator = tap.insideEvent ? '\n\n' : '';
      response.write(`${separator}data: {"error":${new Refusal(code).errorJson()},"request_id":"${requestId}"}\n\n`);
    }
    response.end();
    const { status, usage, source } = this.#standing();
    this.#end(complete ? 'completed' : reason, status, usage, source);
  }

  /** What has been given to the client and used so far. */
  #standing(): { status: number; usage: Usage; source: UsageSource } {
    const { promptEstimate } = this.#options;
    const tap = this.#tap;
    if (tap) {
      if (tap.usage) return { status: this.#status, usage: tap.usage, source: 'provider' };
      const usage = { ...NOTHING_USED, input: promptEstimate, output: tap.countedTokens };
      return { status: this.#status, usage, source: 'counted' };
    }
    if (this.#mode === 'piping') return { status: this.#status, usage: this.#pipedUsage(), source: 'estimated' };
    // The upstream had the request and may well charge for it.
    return { status: 499, usage: { ...NOTHING_USED, input: promptEstimate }, source: 'estimated' };
  }

  #pipedUsage(): Usage {
    return { ...NOTHING_USED, input: this.#options.promptEstimate, output: Math.ceil(this.#size / 4) };
  }

  #writeHead(more: readonly string[]): void {
    const { response, requestId, extraHeaders } = this.#options;
    response.writeHead(this.#status, [
      'content-type', this.#contentType,
      'x-request-id', requestId,
      ...more,
      ...extraHeaders,
    ]);
  }

  #write(bytes: Buffer | string): void {
    const { response } = this.#options;
    this.#lastWriteMs = performance.now();
    if (response.write(bytes) || this.#pausedAtMs > 0) return;
    this.#pausedAtMs = this.#lastWriteMs;
    this.#controller?.pause();
    response.once('drain', () => {
      this.#pausedAtMs = 0;
      this.#lastByteMs = performance.now();
      this.#controller?.resume();
    });
  }

  #end(reason: EndReason, status: number, usage: Usage, source: UsageSource): void {
    this.discard();
    this.#options.onEnd({ reason, status, usage, source, firstByteMs: this.#firstByteMs });
  }
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
