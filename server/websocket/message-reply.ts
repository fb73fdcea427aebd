import { isUtf8 } from 'node:buffer';
import type { Socket } from 'node:net';
import { Writable } from 'node:stream';
import type { ClientReply } from '#server/http/client-reply.ts';
import { JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';
import { type EventBatch, EventSplitter } from '#server/wire/event-splitter.ts';
import { dataOf } from '#server/wire/sse.ts';
import { REPLY_BUFFER_BYTES } from '#server/websocket/bounds.ts';
import { asErrorMessage } from '#server/websocket/message-errors.ts';

/** The connection that a reply is written to. */
export type MessageChannel = {
  readonly tcp: Socket;
  /** @param written called when the connection has taken the message, or with an error. */
  send(message: Buffer, written: (error?: Error | null) => void): void;
  /** Ends the connection, because a reply on it can't be completed. */
  cut(): void;
};

export type MessageReplyOptions = {
  channel: MessageChannel;
  /** The stream that each message names. */
  streamId: string | null;
  /** Sees each event, as latin-1 text of its bytes. */
  onEvent?: ((event: string) => void) | undefined;
};

const MAY_BE_ERROR = /"type": ?"error"|"error": ?[{"]/;

/**
 * A reply over a WebSocket: the relay writes it as a response to an HTTP request, and each event becomes a
 * message. As long as the connection hasn't taken the messages, no more bytes are accepted, so that a client
 * that reads slowly throttles the upstream as it does over HTTP.
 */
export class MessageReply extends Writable implements ClientReply {
  headersSent = false;
  statusCode = 200;
  readonly #options: MessageReplyOptions;
  #isStream = false;
  readonly #events = new EventSplitter(JSON_REPLY_BYTES_MAX);
  /** A reply that isn't streamed: an error, or a response in JSON. */
  readonly #whole = new ByteCollector();

  constructor(options: MessageReplyOptions) {
    super({ highWaterMark: REPLY_BUFFER_BYTES });
    this.#options = options;
  }

  get socket(): Socket | null {
    return this.destroyed ? null : this.#options.channel.tcp;
  }

  /** The body of a message has been received already. */
  writeContinue(): void {}

  writeHead(status: number, headers: readonly string[]): void {
    this.headersSent = true;
    this.statusCode = status;
    const type = headers[headers.indexOf('content-type') + 1] ?? '';
    this.#isStream = type.startsWith('text/event-stream');
  }

  /** A connection has no head for each reply. */
  flushHeaders(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#isStream) return this.#send(messagesOf(this.#events.push(chunk)), done);
    this.#whole.push(chunk);
    done();
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#isStream)
      return this.#send([this.#events.rest()?.toString('latin1') ?? ''].flatMap(dataIn), done);
    const body = this.#whole.take()?.toString('latin1') ?? '';
    this.#send(body === '' ? [] : [this.statusCode < 400 ? completedEvent(body) : body], done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.writableFinished) this.#options.channel.cut();
    done(error);
  }

  #send(events: readonly string[], done: () => void): void {
    if (events.length === 0) return done();
    const last = events.length - 1;
    events.forEach((event, index) => {
      this.#options.channel.send(this.#messageOf(event), (failed) => {
        // Its connection is closed, so that the rest was not delivered.
        if (failed) this.destroy();
        if (index === last) done();
      });
    });
  }

  #messageOf(event: string): Buffer {
    const message = MAY_BE_ERROR.test(event) ? (errorOf(event) ?? event) : event;
    this.#options.onEvent?.(message);
    const bytes = Buffer.from(this.#named(message), 'latin1');
    // Text that is not UTF-8 would end the connection.
    return isUtf8(bytes) ? bytes : Buffer.from(bytes.toString());
  }

  #named(message: string): string {
    const { streamId } = this.#options;
    if (streamId === null) return message;
    const rest = message.slice(1);
    return `{"stream_id":"${streamId}"${rest.trimStart().startsWith('}') ? '' : ','}${rest}`;
  }
}

/** The data of the events that a batch completes. */
function messagesOf(batch: EventBatch | null): string[] {
  let start = 0;
  return (
    batch?.ends.flatMap((end) => {
      const event = batch.text.slice(start, end);
      start = end;
      return dataIn(event);
    }) ?? []
  );
}

/** The data of an event; none where it is a comment, or the end of the stream. */
function dataIn(event: string): string[] {
  const data = dataOf(event)?.trim() ?? '';
  return data.startsWith('{') ? [data] : [];
}

/** A response that an upstream has sent as a whole, although a stream was requested. */
function completedEvent(body: string): string {
  const status = /"status": ?"(incomplete|failed)"/.exec(body)?.[1] ?? 'completed';
  return `{"type":"response.${status}","sequence_number":0,"response":${body}}`;
}

function errorOf(event: string): string | null {
  try {
    const message = asErrorMessage(JSON.parse(Buffer.from(event, 'latin1').toString()));
    return message === null ? null : Buffer.from(message).toString('latin1');
  } catch {
    return null;
  }
}
