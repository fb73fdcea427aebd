import type { ServerResponse } from 'node:http';
import type { Key } from '#db/fold/key.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import { ApiError, type ErrorCode } from '#server/errors/api-error.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { ClientWriter, type Source } from '#server/relay/client-writer.ts';
import type { DeadlineTarget } from '#server/relay/deadlines.ts';
import type { Relay, RunningCall } from '#server/relay/relay.ts';
import type { Reply } from '#server/relay/reply.ts';
import { readReplyHead, sseHeaders } from '#server/relay/reply-head.ts';
import { transportFailure } from '#server/relay/transport-failure.ts';
import { apiErrorOfReply } from '#server/relay/upstream-errors.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import { ERROR_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';
import { RESPONSES_ERRORS } from '#server/wire/error-format.ts';

type Parties = {
  relay: Relay;
  key: Key;
  context: RequestContext;
  upstream: Upstream;
  pool: UpstreamConnectionPool;
  response: ServerResponse;
  reply: Reply;
};

/**
 * The stream of a stored response, from its beginning or from an event on. The call of the response is
 * settled without it. It is one of the running calls all the same, so that it ends with the permission of its
 * key, with its instance and with its server.
 */
export class StoredStream implements RunningCall, Source, DeadlineTarget {
  readonly model = null;
  readonly relayedTokens = 0;
  readonly #parties: Parties;
  readonly #reader: ResponsesSse;
  readonly #writer: ClientWriter;
  readonly #ended = new AbortController();
  #failure: ApiError | null = null;
  /** Set while the client reads nothing. */
  #paused: PromiseWithResolvers<void> | null = null;
  readonly #startedMs = performance.now();
  #lastBytesMs = this.#startedMs;

  constructor(parties: Parties) {
    const { relay, upstream, response, reply } = parties;
    this.#parties = parties;
    this.#reader = new ResponsesSse(upstream.redactor);
    const { requestId, extraHeaders } = reply;
    const { fencing } = relay;
    this.#writer = new ClientWriter(
      { response, requestId, extraHeaders, errorFormat: RESPONSES_ERRORS, fencing },
      this,
    );
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

  /**
   * Relays the stream until its end, or until the client disconnects.
   * @returns an error that the client is still to be sent; null: it has its reply, or has disconnected.
   */
  async run(path: string): Promise<ApiError | null> {
    const { relay, response } = this.#parties;
    const leave = (): void => this.#end();
    response.once('close', leave);
    const running = relay.running.add(this);
    const deadline = relay.deadlines.watch(this);
    try {
      const refusal = await this.#relay(path);
      if (refusal) return refusal;
    } catch (error) {
      if (response.destroyed) return null;
      const failure = this.#failure ?? new ApiError(transportFailure(error)[0]);
      if (!response.headersSent) return failure;
      this.#writer.endWithError(failure, this.#reader.insideEvent, this.#reader.dataEvents);
    } finally {
      relay.running.delete(running);
      if (!this.#writer.isDelivered) await this.#writer.whenDelivered();
      relay.deadlines.unwatch(deadline);
      response.off('close', leave);
    }
    return null;
  }

  async #relay(path: string): Promise<ApiError | null> {
    const { pool, upstream } = this.#parties;
    const { provider, redactor } = upstream;
    const accept = 'text/event-stream';
    const { signal } = this.#ended;
    const { status, headers, body } = await pool.exchange({ method: 'GET', path, accept, signal });
    const head = readReplyHead(status, headers, true, redactor);
    if (head.form === 'error') {
      const fault = provider.parseError(await firstBytes(body));
      return apiErrorOfReply({ status, fault, retryAfter: head.retryAfter, redactor }).refusal;
    }
    if (head.form !== 'sse') {
      this.#end();
      return new ApiError('upstream_error');
    }
    const reader = this.#reader;
    const writer = this.#writer;
    writer.writeHead(head.status, head.contentType, sseHeaders(head, { unsupported: [] }));
    writer.flushHead();
    for await (const chunk of body) {
      this.#lastBytesMs = performance.now();
      const events = reader.push(chunk);
      if (events) writer.write(events);
      if (this.#paused) await this.#paused.promise;
    }
    const rest = reader.flush();
    if (rest) writer.write(rest);
    if (reader.complete || reader.failed) writer.end();
    else writer.endWithError(new ApiError('upstream_disconnected'), reader.insideEvent, reader.dataEvents);
    return null;
  }

  fail(code: ErrorCode): void {
    this.#failure ??= new ApiError(code);
    this.#end();
  }

  #end(): void {
    this.#ended.abort();
    this.resume();
  }

  checkDeadlines(nowMs: number): void {
    const { timeouts } = this.#parties.relay;
    if (this.#writer.isFull) {
      if (this.#writer.isStuck(nowMs)) this.#writer.destroy();
      return;
    }
    const isOver = nowMs - this.#startedMs > timeouts.totalMs;
    if (isOver || nowMs - this.#lastBytesMs > timeouts.idleMs) return this.fail('upstream_timeout');
    if (this.#parties.response.headersSent && !this.#reader.insideEvent) this.#writer.keepAlive(nowMs);
  }

  pause(): void {
    this.#paused ??= Promise.withResolvers();
  }

  resume(): void {
    this.#lastBytesMs = performance.now();
    this.#paused?.resolve();
    this.#paused = null;
  }
}

/** As much of an error reply as is read. */
async function firstBytes(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const bytes = new ByteCollector();
  for await (const chunk of body) {
    bytes.push(chunk);
    if (bytes.length > ERROR_REPLY_BYTES_MAX) break;
  }
  return bytes.take() ?? Buffer.alloc(0);
}
