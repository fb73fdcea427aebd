import type { ApiError } from '#server/errors/api-error.ts';
import type { ReplyRecord } from '#server/idempotency/reply-record.ts';
import type { ReplyWriter } from '#server/relay/client-writer.ts';
import type { ErrorFormat } from '#server/wire/error-format.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

/** Writes a reply to its client and to its record, which goes on when the client has disconnected. */
export class RecordedWriter implements ReplyWriter {
  readonly #client: ReplyWriter;
  readonly #record: ReplyRecord;
  readonly #format: ErrorFormat;
  readonly #requestId: string;

  constructor(client: ReplyWriter, record: ReplyRecord, format: ErrorFormat, requestId: string) {
    this.#client = client;
    this.#record = record;
    this.#format = format;
    this.#requestId = requestId;
  }

  get isFull(): boolean {
    return this.#client.isFull;
  }

  get isDelivered(): boolean {
    return this.#client.isDelivered;
  }

  isStuck(nowMs: number): boolean {
    return this.#client.isStuck(nowMs);
  }

  writeHead(status: number, contentType: string, more: readonly string[] = []): void {
    this.#record.begin({ status, contentType, headers: more });
    this.#client.writeHead(status, contentType, more);
  }

  flushHead(): void {
    this.#record.show();
    this.#client.flushHead();
  }

  write(bytes: Buffer | string): void {
    this.#record.push(bytes);
    this.#client.write(bytes);
  }

  end(bytes?: Buffer): void {
    if (bytes !== undefined) this.#record.push(bytes);
    this.#record.complete();
    this.#client.end(bytes);
  }

  sendError(refusal: ApiError): void {
    const body = Buffer.from(this.#format.body(refusal, this.#requestId));
    // A retry with the same key gets the same error.
    const headers = ['content-length', String(body.length), 'x-should-retry', 'false'];
    this.#record.reject({ status: refusal.status, contentType: JSON_TYPE, headers, body });
    this.#client.sendError(refusal);
  }

  endWithError(refusal: ApiError, insideEvent: boolean, eventsBefore = 0): void {
    if (this.#record.isBegun) {
      const separator = insideEvent ? '\n\n' : '';
      this.#record.push(separator + this.#format.event(refusal, this.#requestId, eventsBefore));
      this.#record.complete();
    }
    this.#client.endWithError(refusal, insideEvent, eventsBefore);
  }

  holdUntil(known: Promise<boolean>): void {
    this.#client.holdUntil(known);
  }

  keepAlive(nowMs: number): void {
    this.#client.keepAlive(nowMs);
  }

  whenDelivered(): Promise<boolean> {
    return this.#client.whenDelivered();
  }

  detach(): void {
    this.#client.detach();
  }

  destroy(): void {
    this.#client.destroy();
  }
}
