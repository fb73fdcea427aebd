import { WebSocket } from 'ws';
import { type Frame, type FrameOf, LiveMessage } from '#server/contract/frames.ts';
import { until } from './relay.ts';

export type LiveOptions = {
  port: number;
  /** `/v1/live`, or the one for those who are signed in. */
  path?: '/v1/live' | '/api/v1/live';
  key?: string;
  /** What follows the question mark. */
  query?: string;
  origin?: string;
  /** More headers of the handshake. */
  headers?: Record<string, string>;
  protocols?: string[];
};

/** A viewer of the live feed, which checks each message against the vocabulary and keeps it. */
export type LiveViewer = AsyncDisposable & {
  readonly socket: WebSocket;
  readonly messages: readonly LiveMessage[];
  /** How much was sent to it in messages. */
  readonly bytes: number;
  /** All frames of one type so far. */
  frames<T extends Frame['type']>(type: T): FrameOf<T>[];
  /** The position up to which it has seen everything. */
  readonly position: number;
  /** Waits until what it has seen is as wanted. */
  sees(condition: (viewer: LiveViewer) => boolean, timeoutMs?: number): Promise<void>;
  /** How the connection ended. */
  readonly closed: Promise<{ code: number; reason: string }>;
  /** Leaves; resolves when the connection is closed. */
  leave(): Promise<void>;
};

/** Looks on. @throws {LiveRefused} when the server refuses. */
export async function lookOn(options: LiveOptions): Promise<LiveViewer> {
  const socket = openSocket(options);
  const messages: LiveMessage[] = [];
  let received = 0;
  const problems: unknown[] = [];
  socket.on('message', (bytes: Buffer, isBinary) => {
    received += bytes.length;
    try {
      if (isBinary) throw new TypeError('a binary message');
      const message = LiveMessage.parse(JSON.parse(bytes.toString()));
      const before = messages.at(-1)?.position ?? 0;
      if (message.position < before)
        throw new RangeError(`the position went back from ${before} to ${message.position}`);
      messages.push(message);
    } catch (error) {
      problems.push(error);
    }
  });
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }));
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('open', () => resolve());
    socket.once('error', reject);
    socket.once('unexpected-response', (_request, response) => {
      let body = '';
      response.on('data', (bytes: Buffer) => (body += bytes.toString()));
      response.on('end', () => reject(new LiveRefused(response.statusCode ?? 0, response.headers, body)));
    });
  });
  socket.on('error', (error) => problems.push(error));
  const viewer: LiveViewer = {
    socket,
    messages,
    get bytes() {
      return received;
    },
    frames: (type) =>
      messages.flatMap(({ frames }) => frames).filter((frame) => frame.type === type) as never,
    get position() {
      return messages.at(-1)?.position ?? 0;
    },
    async sees(condition, timeoutMs) {
      await until(
        () => messages.slice(-5),
        () => {
          if (problems.length > 0) throw new AggregateError(problems, 'a viewer got what it must not get');
          return condition(viewer);
        },
        'what the viewer sees',
        timeoutMs,
      );
    },
    closed,
    async leave() {
      socket.close();
      await closed;
    },
    async [Symbol.asyncDispose]() {
      socket.terminate();
      await closed;
      if (problems.length > 0) throw new AggregateError(problems, 'a viewer got what it must not get');
    },
  };
  await viewer.sees(({ messages: [first] }) => first !== undefined);
  return viewer;
}

/** The server answered with HTTP. */
export class LiveRefused extends Error {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly code: string;
  readonly body: string;

  constructor(status: number, headers: Record<string, string | string[] | undefined>, body: string) {
    super(`refused with ${status}: ${body}`);
    this.status = status;
    this.headers = headers;
    this.body = body;
    this.code = (JSON.parse(body) as { error: { code: string } }).error.code;
  }
}

/** The refusal that looking on meets. @throws {Error} when there is none. */
export async function refusedLook(options: LiveOptions): Promise<LiveRefused> {
  try {
    await (await lookOn(options)).leave();
  } catch (error) {
    if (error instanceof LiveRefused) return error;
    throw error;
  }
  throw new Error('nobody was refused');
}

function openSocket({
  port,
  path = '/v1/live',
  key,
  query = '',
  origin,
  headers = {},
  protocols = [],
}: LiveOptions): WebSocket {
  return new WebSocket(`ws://127.0.0.1:${port}${path}${query === '' ? '' : `?${query}`}`, protocols, {
    headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers },
    ...(origin === undefined ? {} : { origin }),
    perMessageDeflate: false,
  });
}
