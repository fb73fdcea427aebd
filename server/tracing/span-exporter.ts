import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { request } from 'undici';
import {
  ANSWER_BYTES_MAX,
  EXPORT_RETRIES_MAX,
  EXPORT_RETRY_FIRST_MS,
  LAST_SPANS_MS,
} from '#server/tracing/bounds.ts';
import { exportBody, type Span } from '#server/tracing/span.ts';
import type { TraceConfig } from '#server/tracing/trace-config.ts';

/** Statuses after which an export is repeated, by the specification of OTLP. */
const RETRYABLE = new Set([429, 502, 503, 504]);

/** Spans since the start of the process. */
export type SpanCounts = { exported: number; dropped: number };

/**
 * Sends spans to a collector, some hundred at a time. One export is under way at a time, and spans wait in a
 * bounded queue meanwhile: those that find no room, or whose export fails, are dropped and counted. Nothing
 * waits for it but the end of the process, for a moment.
 */
export class SpanExporter {
  readonly #config: TraceConfig;
  readonly #version: string;
  readonly #onError: (error: unknown) => void;
  readonly #closing = new AbortController();
  #queue: Span[] = [];
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | null = null;
  #isClosing = false;
  readonly counts: SpanCounts = { exported: 0, dropped: 0 };

  /** @param onError called with each failed export. */
  constructor(config: TraceConfig, version: string, onError: (error: unknown) => void) {
    this.#config = config;
    this.#version = version;
    this.#onError = onError;
  }

  add(span: Span): void {
    const { queueMax, batchMax, scheduleMs } = this.#config;
    if (this.#queue.length >= queueMax || this.#closing.signal.aborted) {
      this.counts.dropped++;
      return;
    }
    this.#queue.push(span);
    if (this.#queue.length >= batchMax) this.#start();
    else this.#timer ??= setTimeout(() => this.#start(), scheduleMs).unref();
  }

  /** Sends the queued spans, for at most a moment. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const over = setTimeout(() => this.#closing.abort(), LAST_SPANS_MS);
    this.#start();
    while (this.#working) await this.#working;
    clearTimeout(over);
    this.#closing.abort();
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#working || this.#queue.length === 0) return;
    this.#working = this.#work().finally(() => {
      this.#working = null;
      if (this.#isClosing) this.#start();
      else if (this.#queue.length > 0)
        this.#timer ??= setTimeout(() => this.#start(), this.#config.scheduleMs).unref();
    });
  }

  async #work(): Promise<void> {
    do {
      const batch = this.#queue.splice(0, this.#config.batchMax);
      try {
        const rejected = await this.#send(batch);
        this.counts.exported += batch.length - rejected;
        this.counts.dropped += rejected;
      } catch (error) {
        this.counts.dropped += batch.length;
        this.#onError(error);
        return;
      }
    } while (this.#queue.length >= this.#config.batchMax);
  }

  /** @returns the number of spans that the collector has refused. */
  async #send(batch: readonly Span[]): Promise<number> {
    const { endpoint, headers, isCompressed, timeoutMs, resource } = this.#config;
    const text = JSON.stringify(exportBody(resource, this.#version, batch));
    const body = isCompressed ? await promisify(gzip)(text) : text;
    const encoding = isCompressed ? { 'content-encoding': 'gzip' } : {};
    for (let retries = 0; ; retries++) {
      const answer = await this.#attempt(endpoint, timeoutMs, body, {
        ...headers,
        ...encoding,
        'content-type': 'application/json',
      });
      if (typeof answer === 'number') return answer;
      const isLast = retries >= EXPORT_RETRIES_MAX || this.#isClosing;
      if (!answer.isRetryable || isLast) throw answer.error;
      await new Promise((resolve) => setTimeout(resolve, EXPORT_RETRY_FIRST_MS * 2 ** retries).unref());
    }
  }

  async #attempt(
    endpoint: string,
    timeoutMs: number,
    body: string | Buffer,
    headers: Record<string, string>,
  ): Promise<number | { isRetryable: boolean; error: unknown }> {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#closing.signal]);
      const reply = await request(endpoint, { method: 'POST', body, headers, signal });
      const { statusCode } = reply;
      if (statusCode >= 200 && statusCode < 300) return rejectedOf(await textOf(reply.body));
      await reply.body.dump({ limit: ANSWER_BYTES_MAX });
      const error = Object.assign(new Error('the collector rejected the spans'), {
        code: `status_${statusCode}`,
      });
      return { isRetryable: RETRYABLE.has(statusCode), error };
    } catch (error) {
      return { isRetryable: true, error };
    }
  }
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > ANSWER_BYTES_MAX) return '';
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** An answer that is not understood says nothing of rejected spans. */
function rejectedOf(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text) as { partialSuccess?: { rejectedSpans?: string | number } };
    return Number(partialSuccess?.rejectedSpans ?? 0) || 0;
  } catch {
    return 0;
  }
}
