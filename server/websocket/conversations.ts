import type { Key } from '#db/fold/key.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Relay } from '#server/relay/relay.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { bodyOf, type CreateMessage, joined } from '#server/websocket/client-message.ts';
import { ContextRecorder } from '#server/websocket/context-recorder.ts';
import type { Context, Contexts } from '#server/websocket/contexts.ts';

/**
 * The conversations of one connection, by the ids of the responses that they end with: the latest of each
 * stream. OpenAI keeps a response that isn't stored as long as its connection, so that the next one names it
 * and sends the new items alone. The upstreams here are called over HTTP and keep nothing: the relay keeps
 * the items, and sends all of them.
 */
export class Conversations {
  readonly #contexts: Contexts;
  readonly #relay: Pick<Relay, 'routeBack' | 'maxBodyBytes'>;
  readonly #key: Key;
  readonly #byId = new Map<string, Context>();
  readonly #latest = new Map<string | null, string>();
  #isClosed = false;

  constructor(contexts: Contexts, relay: Pick<Relay, 'routeBack' | 'maxBodyBytes'>, key: Key) {
    this.#contexts = contexts;
    this.#relay = relay;
    this.#key = key;
  }

  /** The conversation that a response is a part of. */
  begin(message: CreateMessage): Conversation {
    return new Conversation(this, message, this.#relay.maxBodyBytes);
  }

  /** The body of a response, with the items of the conversation that it continues. */
  async open(message: CreateMessage): Promise<OpenedConversation | ApiError> {
    const { previous } = message;
    const before = previous === null ? undefined : this.#byId.get(previous);
    if (before) this.#contexts.used(before);
    const items = before?.items ?? null;
    if (previous !== null && items === null) {
      const error = await this.#findStored(previous);
      if (error) return error;
    }
    const { maxBodyBytes } = this.#relay;
    const { bytes, items: all } = bodyOf(message, items);
    if (bytes.length > maxBodyBytes)
      return new ApiError('request_too_large', {
        message:
          `The conversation exceeds the limit of ${Math.floor(maxBodyBytes / 1024 / 1024)} MiB. ` +
          'Start a new one with a shorter input.',
      });
    // A response whose provider has the items before it can be continued by the provider alone.
    const isKept = !this.#isClosed && (previous === null || items !== null);
    return { bytes, context: isKept ? this.#contexts.add(this.#key.id, all) : null };
  }

  /** A response has ended, and can be continued from here on. */
  keep(streamId: string | null, id: string, context: Context, output: Buffer): void {
    if (context.items === null) return;
    this.#contexts.replace(context, joined([context.items, output]));
    const latest = this.#latest.get(streamId);
    const before = latest === undefined ? undefined : this.#byId.get(latest);
    if (latest !== undefined) this.#byId.delete(latest);
    if (before) this.#contexts.drop(before);
    if (this.#isClosed) return this.drop(context);
    this.#latest.set(streamId, id);
    this.#byId.set(id, context);
  }

  drop(context: Context): void {
    this.#contexts.drop(context);
  }

  /** The connection is closed. */
  close(): void {
    this.#isClosed = true;
    for (const context of this.#byId.values()) this.#contexts.drop(context);
    this.#byId.clear();
    this.#latest.clear();
  }

  /** @returns the error of a response that neither this connection nor an upstream has. */
  async #findStored(id: string): Promise<ApiError | null> {
    try {
      const name = { account: this.#key.account, id };
      if (isStoredId(id) && (await this.#relay.routeBack.find(name, 'response'))) return null;
      return new ApiError('previous_response_not_found', {
        message:
          'No such response to continue. A response that is not stored can be continued on its own ' +
          'connection, and a stored one by its account. Send the whole input without "previous_response_id".',
        param: 'previous_response_id',
      });
    } catch (error) {
      if (!isStoreFault(error)) throw error;
      return new ApiError('store_unavailable');
    }
  }
}

/** The body of a response, and the items of its input, kept until it has ended; null: they aren't kept. */
export type OpenedConversation = { bytes: Buffer; context: Context | null };

/** The conversation of one response. */
export class Conversation {
  readonly message: CreateMessage;
  readonly #conversations: Conversations;
  readonly #recorder: ContextRecorder;
  #context: Context | null = null;
  #isOver = false;

  constructor(conversations: Conversations, message: CreateMessage, outputBytesMax: number) {
    this.#conversations = conversations;
    this.message = message;
    this.#recorder = new ContextRecorder(outputBytesMax);
  }

  /** The body of the response as `POST /v1/responses` has it. */
  async open(): Promise<Buffer | ApiError> {
    const opened = await this.#conversations.open(this.message);
    if (opened instanceof ApiError) return opened;
    if (this.#isOver && opened.context) this.#conversations.drop(opened.context);
    else this.#context = opened.context;
    return opened.bytes;
  }

  /** Sees an event of the response. */
  take(event: string): void {
    if (this.#context) this.#recorder.take(event);
  }

  /** The response has ended. */
  end(): void {
    const context = this.#context;
    this.#context = null;
    this.#isOver = true;
    if (!context) return;
    const { recorded } = this.#recorder;
    if (recorded) this.#conversations.keep(this.message.streamId, recorded.id, context, recorded.output);
    else this.#conversations.drop(context);
  }
}
