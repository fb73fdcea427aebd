import { WebSocket } from 'ws';
import { until } from './relay.ts';

/** A message of the relay to a client of `/v1/responses`. */
export type ResponsesEvent = {
  type: string;
  stream_id?: string;
  sequence_number?: number;
  status?: number;
  delta?: string;
  headers?: Record<string, string>;
  error?: { code: string | null; type: string; message: string; param: string | null };
  response?: {
    id: string;
    status: string;
    store?: boolean;
    output: { type: string; content?: { text: string }[] }[];
    usage: { input_tokens: number; output_tokens: number } | null;
  };
  item?: { type: string };
  request_id?: string;
};

export type ResponsesSocketOptions = {
  port: number;
  key?: string | undefined;
  path?: string;
  headers?: Record<string, string>;
  /** Offers the compression of messages. */
  perMessageDeflate?: boolean;
};

/** A client of `/v1/responses` over a WebSocket, which keeps each message. */
export type ResponsesSocket = AsyncDisposable & {
  readonly socket: WebSocket;
  readonly events: readonly ResponsesEvent[];
  /** Sends `response.create` with these members. */
  create(members: object): void;
  /** Sends it, and waits for the last event of the response that follows. Not for responses side by side. */
  respond(members: object): Promise<ResponsesEvent>;
  /** Waits until the events are as wanted. */
  sees(condition: (events: readonly ResponsesEvent[]) => boolean): Promise<void>;
  /** How the connection ended. */
  readonly closed: Promise<{ code: number; reason: string }>;
  close(): Promise<void>;
};

/** The reply to a handshake that was refused. */
export class HandshakeRefused extends Error {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
  constructor(status: number, headers: NodeJS.Dict<string | string[]>, body: string) {
    super(`the handshake was refused with ${status}: ${body}`);
    this.status = status;
    this.headers = headers;
    this.body = body;
  }
  get code(): string {
    return (JSON.parse(this.body) as { error: { code: string } }).error.code;
  }
}

const LAST = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);
/** Whether an event is the last one of its response. */
export const isLast = ({ type }: ResponsesEvent): boolean => LAST.has(type);

/** Opens a connection. @throws {HandshakeRefused} */
export async function openResponses(options: ResponsesSocketOptions): Promise<ResponsesSocket> {
  const { port, key, path = '/v1/responses', headers = {}, perMessageDeflate = false } = options;
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
    perMessageDeflate,
    headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers },
  });
  const events: ResponsesEvent[] = [];
  const problems: unknown[] = [];
  socket.on('message', (bytes: Buffer, isBinary) => {
    try {
      if (isBinary) throw new TypeError('a binary message');
      events.push(JSON.parse(bytes.toString()) as ResponsesEvent);
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
      response.on('end', () =>
        reject(new HandshakeRefused(response.statusCode ?? 0, response.headers, body)),
      );
    });
  });
  socket.on('error', () => undefined);
  const create = (members: object): void =>
    socket.send(JSON.stringify({ type: 'response.create', ...members }));
  const sees = async (condition: (all: readonly ResponsesEvent[]) => boolean): Promise<void> => {
    await until(
      () => Promise.resolve(events),
      (all) => {
        if (problems.length > 0) throw problems[0];
        return condition(all);
      },
      'the events of a response',
    );
  };
  const close = async (): Promise<void> => {
    socket.close();
    await closed;
  };
  return {
    socket,
    events,
    closed,
    create,
    sees,
    close,
    async respond(members) {
      const before = events.length;
      create(members);
      await sees((all) => all.slice(before).some(isLast));
      return events.slice(before).find(isLast) as ResponsesEvent;
    },
    async [Symbol.asyncDispose]() {
      socket.terminate();
      await closed;
    },
  };
}

/** The text of a response's deltas. */
export const textOf = (events: readonly ResponsesEvent[]): string =>
  events
    .filter(({ type }) => type === 'response.output_text.delta')
    .map(({ delta }) => delta)
    .join('');
