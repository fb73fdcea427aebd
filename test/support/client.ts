import { connect } from 'node:net';
import { readChatBody, type ChatBody, type Moment } from './wire/chat-body.ts';
import { headerOf, MalformedMessage, readReply, statusOf } from './wire/http-message.ts';
import type { ClientRow } from './identity/identity.ts';

export type ChatOptions = {
  port: number;
  key?: string;
  /** An object is sent as JSON; text and bytes go out as they are. */
  body: object | string | Buffer;
  path?: string;
  headers?: Record<string, string>;
  /** Leaves after this many tokens. */
  abortAfterTokens?: number;
  /** Leaves at this moment. `half_body`: with half of the request's body sent. */
  abortAt?: 'connected' | 'half_body' | 'sent' | 'head' | Moment;
  /** Leaves by closing (the default) or by RST. */
  abortBy?: 'close' | 'reset';
  /** Leaves when this is aborted. */
  signal?: AbortSignal;
  /** Told when the reply's head is there. */
  onHead?: () => void;
  timeoutMs?: number;
};

/** The client's row for the identity checker, and all that a test may want to look at besides. */
export type ChatReply = ClientRow &
  ChatBody & {
    /** What went wrong on the wire: a system error's code, `closed`, `timeout`, `not HTTP`; or null. */
    problem: string | null;
    /** What arrived, from the first byte of the status line; bounded, see `isTruncated`. */
    raw: Buffer;
    /** The reply's body without framing, bounded in the same way. */
    body: Buffer;
    isTruncated: boolean;
    headers: [name: string, value: string][];
    /** The first value of a header, whatever the case of its name. */
    header(name: string): string | null;
  };

const TIMEOUT_MS = 120_000;
/** A longer reply is still read to its end and counted, but not kept. */
const KEPT_BYTES_MAX = 16 * 1024 ** 2;
const CHAT_PATH = '/v1/chat/completions';

/**
 * Makes one chat call over a connection of its own, on a bare socket: it sees every byte and can
 * leave at any moment. It never rejects: whatever the other side does becomes part of the result.
 */
export function chat(options: ChatOptions): Promise<ChatReply> {
  const request = requestOf(options);
  const raw: Buffer[] = [];
  const kept: Buffer[] = [];
  let headers: [name: string, value: string][] = [];
  let status: number | null = null;
  let rawBytes = 0;
  let bodyBytes = 0;

  return new Promise((resolve) => {
    const socket = connect({ port: options.port, host: '127.0.0.1', noDelay: true });
    const timer = setTimeout(() => stop('timeout'), options.timeoutMs ?? TIMEOUT_MS);
    let isStopped = false;

    const body = readChatBody((moment, tokens) => {
      if (options.abortAt === moment || tokens >= (options.abortAfterTokens ?? Infinity)) leave();
    });
    const reader = readReply('POST', {
      head(head) {
        ({ headers } = head);
        status = statusOf(head);
        options.onHead?.();
        body.begin(headerOf(head, 'content-type'));
        if (options.abortAt === 'head') leave();
      },
      body(bytes) {
        if (isStopped) return;
        bodyBytes += bytes.length;
        if (bodyBytes <= KEPT_BYTES_MAX) kept.push(bytes);
        body.push(bytes);
      },
    });

    function leave(): void {
      stop(null, true);
    }

    function stop(problem: string | null, aborted = false): void {
      if (isStopped) return;
      isStopped = true;
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', leave);
      if (aborted && options.abortBy === 'reset') socket.resetAndDestroy();
      else socket.destroy();
      const isSuccess = status !== null && status >= 200 && status < 300;
      const whole = Buffer.concat(kept);
      const seen = body.end(whole);
      resolve({
        ...seen,
        user: request.user,
        model: request.model,
        requestId: headerOf({ headers }, 'x-request-id'),
        upstreamId: isSuccess ? seen.id : null,
        status,
        bytes: bodyBytes,
        finished: reader.complete,
        aborted,
        problem,
        raw: Buffer.concat(raw),
        body: whole,
        isTruncated: rawBytes > KEPT_BYTES_MAX,
        headers,
        header: (name) => headerOf({ headers }, name),
      });
    }

    socket.once('connect', () => {
      if (options.abortAt === 'connected') return leave();
      const isHalf = options.abortAt === 'half_body';
      socket.write(request.head);
      socket.write(isHalf ? request.body.subarray(0, request.body.length / 2) : request.body, () => {
        if (isHalf || options.abortAt === 'sent') leave();
      });
    });
    socket.on('data', (bytes: Buffer) => {
      rawBytes += bytes.length;
      if (rawBytes <= KEPT_BYTES_MAX) raw.push(bytes);
      try {
        reader.push(bytes);
      } catch (error) {
        if (!(error instanceof MalformedMessage)) throw error;
        stop('not HTTP');
      }
      if (reader.complete) stop(null);
    });
    socket.on('error', (error: NodeJS.ErrnoException) => stop(error.code ?? error.message));
    socket.once('close', () => {
      reader.closed();
      stop(reader.complete ? null : 'closed');
    });
    if (options.signal?.aborted) leave();
    else options.signal?.addEventListener('abort', leave, { once: true });
  });
}

type Request = { head: Buffer; body: Buffer; user: string | null; model: string | null };

function requestOf({ port, key, body: given, path = CHAT_PATH, headers = {} }: ChatOptions): Request {
  const isReady = typeof given === 'string' || Buffer.isBuffer(given);
  const body = Buffer.from(isReady ? given : JSON.stringify(given));
  const lines = Object.entries({
    host: `127.0.0.1:${port}`,
    'content-type': 'application/json',
    'content-length': String(body.length),
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const fields = isReady ? parsedOrEmpty(body) : given;
  return {
    head: Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'),
    body,
    user: 'user' in fields && typeof fields.user === 'string' ? fields.user : null,
    model: 'model' in fields && typeof fields.model === 'string' ? fields.model : null,
  };
}

function parsedOrEmpty(body: Buffer): object {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
