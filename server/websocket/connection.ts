import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { uuidv7 } from '#db/ids.ts';
import type { Key } from '#db/fold/key.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import type { Relay } from '#server/relay/relay.ts';
import {
  CONNECTION_AGE_MAX_MS,
  CONNECTION_IDLE_MS,
  LAST_EVENTS_MS,
  PING_MS,
  RUNNING_PER_CONNECTION_MAX,
  STREAMS_MAX,
  UNANSWERED_PING_MS,
  UNMETERED_MESSAGE_BYTES,
  UNREAD_ERRORS_MAX,
  WAITING_MESSAGES_MAX,
} from '#server/websocket/bounds.ts';
import { BINARY_MESSAGE, type CreateMessage, readClientMessage } from '#server/websocket/client-message.ts';
import { Conversations } from '#server/websocket/conversations.ts';
import type { Contexts } from '#server/websocket/contexts.ts';
import { errorMessage } from '#server/websocket/message-errors.ts';
import { MessageReply } from '#server/websocket/message-reply.ts';
import { runResponse } from '#server/websocket/run-response.ts';

/** Close codes of a connection (RFC 6455). */
export const CLOSE = {
  idle: 1000,
  not_permitted: 1008,
  failed: 1011,
  restarting: 1012,
  no_memory: 1013,
} as const;

type Parties = {
  relay: Relay;
  contexts: Contexts;
  socket: WebSocket;
  tcp: Socket;
  /** The handshake: its headers are those of each response. */
  request: IncomingMessage;
  key: Key;
};

/** A message whose response has not begun. */
type Waiting = { message: CreateMessage; bytes: number };

/**
 * One connection to `/v1/responses`. Each `response.create` is a call of its own, from its authentication to
 * its settlement; those of one stream run one after the other, those of different streams at the same time.
 *
 * - *open*: messages are accepted.
 * - *finishing*: responses that were requested run to their end, new ones are errors, and then it is closed.
 * - *ending*: responses end by themselves now; the connection is closed when their last events are sent, or
 *   after LAST_EVENTS_MS.
 */
type State = 'open' | 'finishing' | 'ending';

export class ResponsesConnection {
  readonly #parties: Parties;
  readonly #memory: OpenCall;
  readonly #conversations: Conversations;
  readonly #running = new Map<MessageReply, string | null>();
  #waiting: Waiting[] = [];
  readonly #streams = new Set<string>();
  #state: State = 'open';
  #last: { code: number; error: ApiError } | null = null;
  /** Bytes of messages whose calls are not open yet. */
  #heldBytes = 0;
  /** Bytes of the message that is being received. */
  #incomingBytes = 0;
  #unreadErrors = 0;
  readonly #openedMs = performance.now();
  #usedMs = this.#openedMs;
  #pingedMs = this.#openedMs;
  /** When the oldest ping without an answer was sent. */
  #unansweredMs: number | null = null;
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>;

  constructor(parties: Parties) {
    const { relay, contexts, socket, tcp, key } = parties;
    this.#parties = parties;
    this.#memory = relay.openCalls.openMemory(key);
    this.#conversations = new Conversations(contexts, relay, key);
    socket.on('message', (bytes: Buffer, isBinary) => this.#receive(bytes, isBinary));
    socket.on('pong', () => {
      this.#unansweredMs = null;
    });
    socket.on('error', () => socket.terminate());
    tcp.on('data', (chunk: Buffer) => this.#meter(chunk.length));
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#clear();
        resolve();
      });
    });
  }

  get key(): Key {
    return this.#parties.key;
  }

  get request(): IncomingMessage {
    return this.#parties.request;
  }

  /** Responses that run or wait. */
  get isBusy(): boolean {
    return this.#running.size > 0 || this.#waiting.length > 0;
  }

  /** Closes the connection when the responses that were requested have ended. */
  finish(code: number, error: ApiError): void {
    if (this.#state !== 'open') return;
    this.#state = 'finishing';
    this.#last = { code, error };
    this.#closeWhenIdle();
  }

  /** Closes the connection, whose running responses are ended by their owner. */
  end(code: number, error: ApiError): void {
    if (this.#state === 'ending') return;
    this.#state = 'ending';
    this.#last = { code, error };
    this.#dropWaiting();
    if (this.#running.size > 0) setTimeout(() => this.#close(), LAST_EVENTS_MS);
    this.#closeWhenIdle();
  }

  terminate(): void {
    this.#parties.socket.terminate();
  }

  /** Checks its age and whether its client still answers. */
  check(nowMs: number): void {
    if (this.#unansweredMs !== null && nowMs - this.#unansweredMs > UNANSWERED_PING_MS)
      return this.terminate();
    if (nowMs - this.#pingedMs >= PING_MS) {
      this.#pingedMs = nowMs;
      this.#unansweredMs ??= nowMs;
      this.#parties.socket.ping();
    }
    if (nowMs - this.#openedMs > CONNECTION_AGE_MAX_MS) return this.finish(CLOSE.idle, TOO_OLD);
    if (!this.isBusy && nowMs - this.#usedMs > CONNECTION_IDLE_MS) this.finish(CLOSE.idle, IDLE);
  }

  #receive(bytes: Buffer, isBinary: boolean): void {
    this.#incomingBytes = 0;
    if (this.#state === 'ending') return;
    if (isBinary) return this.#reject(BINARY_MESSAGE, null);
    const message = readClientMessage(bytes);
    if (message.type === 'ignored') return;
    const { streamId } = message;
    const error = message.type === 'invalid' ? message.error : this.#rejects(streamId, bytes.length);
    if (error) return this.#reject(error, streamId);
    if (message.type === 'invalid') return;
    if (streamId !== null) this.#streams.add(streamId);
    this.#heldBytes += bytes.length;
    this.#waiting.push({ message, bytes: bytes.length });
    this.#runNext();
  }

  /** The error of a message that can't wait for its response; null: it can, and its memory is held. */
  #rejects(streamId: string | null, bytes: number): ApiError | null {
    if (this.#state === 'finishing') return this.#last?.error ?? null;
    if (streamId !== null && !this.#streams.has(streamId) && this.#streams.size >= STREAMS_MAX)
      return new ApiError('websocket_stream_limit_reached', { param: 'stream_id' });
    if (this.#waiting.length >= WAITING_MESSAGES_MAX) return TOO_MANY_WAITING;
    return this.#memory.holdBody(this.#heldBytes + bytes);
  }

  /** Runs the messages that wait, as far as their streams are idle. */
  #runNext(): void {
    while (this.#running.size < RUNNING_PER_CONNECTION_MAX) {
      const busy = new Set(this.#running.values());
      const index = this.#waiting.findIndex(({ message }) => !busy.has(message.streamId));
      if (index < 0) return this.#closeWhenIdle();
      const [next] = this.#waiting.splice(index, 1);
      if (next) this.#run(next);
    }
  }

  #run({ message, bytes }: Waiting): void {
    const { relay, socket, tcp, request } = this.#parties;
    let heldBytes = bytes;
    const release = (): void => {
      this.#release(heldBytes);
      heldBytes = 0;
    };
    const { streamId } = message;
    const conversation = this.#conversations.begin(message);
    const response = new MessageReply({
      channel: {
        tcp,
        send: (each, written) => socket.send(each, { binary: false }, written),
        cut: () => this.terminate(),
      },
      streamId,
      onEvent: (event) => conversation.take(event),
    });
    this.#running.set(response, streamId);
    response.once('close', () => {
      this.#running.delete(response);
      this.#usedMs = performance.now();
      release();
      conversation.end();
      this.#runNext();
    });
    void runResponse({ relay, request, response, conversation, onOpen: release });
  }

  /** Returns memory that the call of a message holds now, or that is not needed any more. */
  #release(bytes: number): void {
    this.#heldBytes -= bytes;
    this.#memory.holdBody(this.#heldBytes);
  }

  /** Holds memory for a long message while it is received. */
  #meter(bytes: number): void {
    this.#incomingBytes += bytes;
    if (this.#incomingBytes <= UNMETERED_MESSAGE_BYTES || this.#state === 'ending') return;
    const refusal = this.#memory.holdBody(this.#heldBytes + this.#incomingBytes);
    if (refusal) this.end(CLOSE.no_memory, refusal);
  }

  #reject(error: ApiError, streamId: string | null): void {
    const requestId = uuidv7();
    const { key, relay } = this.#parties;
    relay.requestLog.rejected(() => {
      const { status, code, param } = error;
      return { request: requestId, account: key.account, key: key.id, status, code, param };
    }, 'message rejected');
    if (++this.#unreadErrors > UNREAD_ERRORS_MAX) return this.terminate();
    const text = errorMessage(error, requestId);
    const named = streamId === null ? text : `{"stream_id":"${streamId}",${text.slice(1)}`;
    this.#parties.socket.send(named, () => this.#unreadErrors--);
  }

  #closeWhenIdle(): void {
    if (this.#state !== 'open' && !this.isBusy) this.#close();
  }

  #close(): void {
    const { socket } = this.#parties;
    if (socket.readyState !== socket.OPEN || !this.#last) return;
    const { code, error } = this.#last;
    socket.send(errorMessage(error, uuidv7()));
    socket.close(code, error.code);
  }

  #dropWaiting(): void {
    const bytes = this.#waiting.reduce((sum, each) => sum + each.bytes, 0);
    this.#waiting = [];
    this.#release(bytes);
  }

  /** The connection is closed: its running responses lose their client. */
  #clear(): void {
    this.#state = 'ending';
    this.#dropWaiting();
    this.#memory.close();
    this.#conversations.close();
    for (const response of [...this.#running.keys()]) response.destroy();
  }
}

const TOO_OLD = new ApiError('websocket_connection_limit_reached');
const IDLE = new ApiError('websocket_connection_limit_reached', {
  message: 'This WebSocket connection was not used for 30 minutes. Create a new one to continue.',
});
const TOO_MANY_WAITING = new ApiError('rate_limit_exceeded', {
  message:
    `More than ${WAITING_MESSAGES_MAX} messages of this connection wait for responses before them. ` +
    'Wait for one to end.',
});
