import type { Key } from '#db/fold/key.ts';
import type { Membership } from '#db/registry.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import { ApiError, type ErrorCode } from '#server/errors/api-error.ts';
import type { ClientReply } from '#server/http/client-reply.ts';
import { noReply } from '#server/idempotency/refusals.ts';
import type { ReplyRecord } from '#server/idempotency/reply-record.ts';
import { ClientWriter, type Source } from '#server/relay/client-writer.ts';
import type { Deadline, DeadlineTarget } from '#server/relay/deadlines.ts';
import type { Relay, RunningCall } from '#server/relay/relay.ts';
import type { Reply } from '#server/relay/reply.ts';

type Parties = {
  relay: Relay;
  key: Key;
  context: RequestContext;
  response: ClientReply;
  reply: Reply;
};

/** `replied`: its client has the reply, or has disconnected. */
export type Interruption = 'replied' | ApiError;
/** `released`: the key may be free now. */
export type RepeatEnd = Interruption | 'released';

type Sending = {
  writer: ClientWriter;
  record: ReplyRecord;
  isHeadSent: boolean;
  /** The number of the next chunk. */
  next: number;
  isOver: boolean;
  over: () => void;
};

const EVENT_END = Buffer.from('\n\n');

/**
 * A request whose key another request holds: it waits for the reply to that one, and gets the same. It is
 * one of the running calls, so that it ends with the permission of its key, with its instance and with its
 * server.
 */
export class Repeat implements RunningCall, Source, DeadlineTarget {
  /** Its request has been authorized for its model; a change ends the call that it waits for. */
  readonly model = null;
  readonly relayedTokens = 0;
  readonly #parties: Parties;
  readonly #ended = new AbortController();
  readonly #startedMs = performance.now();
  readonly #membership: Membership<RunningCall>;
  readonly #deadline: Deadline;
  #failure: ApiError | null = null;
  /** Set while it sends a reply. */
  #sending: Sending | null = null;
  #isPaused = false;
  /** Whether it waits for a request on another server, for no longer than for the head of a reply. */
  isElsewhere = false;

  constructor(parties: Parties) {
    this.#parties = parties;
    const { relay, response } = parties;
    response.once('close', () => this.#ended.abort());
    this.#membership = relay.running.add(this);
    this.#deadline = relay.deadlines.watch(this);
  }

  [Symbol.dispose](): void {
    const { relay } = this.#parties;
    relay.running.delete(this.#membership);
    relay.deadlines.unwatch(this.#deadline);
  }

  get request(): string {
    return this.#parties.reply.requestId;
  }
  get key(): Key {
    return this.#parties.key;
  }
  get context(): RequestContext {
    return this.#parties.context;
  }
  /** It is charged nothing. */
  chargeAt(): null {
    return null;
  }

  /** Aborted when it is to wait no longer. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** How it ended while it waited; null: it goes on. */
  get interruption(): Interruption | null {
    if (this.#failure) return this.#failure;
    return this.#parties.response.destroyed ? 'replied' : null;
  }

  /** Sends a recorded reply, as far as it goes and as it grows. @param request that it is the reply to. */
  async send(record: ReplyRecord, request: string): Promise<RepeatEnd> {
    const { relay, response, reply } = this.#parties;
    const { requestId, extraHeaders, errorFormat } = reply;
    const headers = [...extraHeaders, 'idempotent-replayed', 'true', 'original-request', request];
    const { fencing } = relay;
    const writer = new ClientWriter(
      { response, requestId, extraHeaders: headers, errorFormat, fencing },
      this,
    );
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#sending = { writer, record, isHeadSent: false, next: 0, isOver: false, over: resolve };
    const unfollow = record.follow(() => this.#step());
    this.signal.addEventListener('abort', () => this.#step(), { once: true });
    try {
      this.#step();
      await promise;
      if (response.destroyed) return 'replied';
      if (record.end === 'released' && !response.headersSent) return this.#failure ?? 'released';
      if (!this.#failure && record.end === 'complete') {
        if (!writer.isDelivered) await writer.whenDelivered();
        return 'replied';
      }
      const failure = this.#failure ?? noReply(request);
      if (!response.headersSent) return failure;
      writer.endWithError(failure, !this.#isBetweenEvents());
      if (!writer.isDelivered) await writer.whenDelivered();
      return 'replied';
    } finally {
      unfollow();
      this.#sending = null;
    }
  }

  /** Sends all that there is and that the client takes. */
  #step(): void {
    const sending = this.#sending;
    if (sending === null || sending.isOver) return;
    const { writer, record } = sending;
    const { head, chunks, end } = record;
    const isInterrupted = this.#failure !== null || this.#parties.response.destroyed;
    if (isInterrupted || end === 'released' || end === 'lacking') return finish(sending);
    if (this.#isPaused || head === null) return;
    if (!sending.isHeadSent) {
      sending.isHeadSent = true;
      writer.writeHead(head.status, head.contentType, head.headers);
      if (chunks.length === 0) writer.flushHead();
    }
    const last = chunks.length - 1;
    for (; sending.next <= last && !this.#isPaused; sending.next++) {
      if (end === 'complete' && sending.next === last) break;
      writer.write(chunks[sending.next] as Buffer);
    }
    if (end !== 'complete' || this.#isPaused) return;
    // Undefined where the last chunk was sent before the reply was known to be whole.
    writer.end(chunks[sending.next]);
    finish(sending);
  }

  fail(code: ErrorCode): void {
    this.#failure ??= new ApiError(code);
    this.#ended.abort();
    this.#step();
  }

  checkDeadlines(nowMs: number): void {
    const { relay, response } = this.#parties;
    const { firstByteMs, totalMs } = relay.timeouts;
    const writer = this.#sending?.writer;
    if (writer?.isFull) {
      if (writer.isStuck(nowMs)) writer.destroy();
      return;
    }
    const waitedMs = nowMs - this.#startedMs;
    if (this.isElsewhere && this.#sending === null && waitedMs > firstByteMs)
      return this.fail('idempotency_key_in_use');
    if (waitedMs > totalMs && !response.writableEnded) return this.fail('upstream_timeout');
    if (writer && response.headersSent && !response.writableEnded && this.#isBetweenEvents())
      writer.keepAlive(nowMs);
  }

  #isBetweenEvents(): boolean {
    const { chunks, head } = this.#sending?.record ?? {};
    if (!head?.contentType.startsWith('text/event-stream')) return false;
    return chunks?.at(-1)?.subarray(-EVENT_END.length).equals(EVENT_END) ?? true;
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#step();
  }
}

function finish(sending: Sending): void {
  sending.isOver = true;
  sending.over();
}
