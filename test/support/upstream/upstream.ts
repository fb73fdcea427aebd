import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { headerOf, MalformedMessage } from '../wire/http-message.ts';
import { openConnection, type Connection, type Request } from './connection.ts';
import { errorObject, headBytes, ownHeaders } from './heads.ts';
import { type Batches, createBatches } from '../batches/provider.ts';
import { createLedger, type Attempt, type Ledger } from './ledger.ts';
import { obeying } from './obey.ts';
import { createOutput } from './output.ts';
import { playScript } from './play.ts';
import { readAsked, shapeAt } from './shapes.ts';
import { createStored, isStoredPath, RESPONSES } from './stored.ts';
import { parsePlan, parseScript, ScriptError, type Script } from './script.ts';

/**
 * A provider that uses OpenAI's wire format, and those of other protocols, over real sockets, misbehaves on
 * purpose, and keeps its own ledger. The model's name chooses what it does: `ok` is a healthy reply, `s:...`
 * carries a script (`upstream/script.ts` has the grammar), and `script()` gives a script to any other name.
 * It writes its HTTP by hand, byte by byte, because an HTTP server can't be made to misbehave.
 *
 *     node test/support/upstream/upstream.ts --port 9100 [--api-key sk-up]
 *     curl -s 127.0.0.1:9100/__ledger
 */
export type ScriptedUpstream = AsyncDisposable & {
  readonly port: number;
  readonly url: string;
  /** `url` with `/v1`: what `base_url` is set to. */
  readonly baseUrl: string;
  readonly ledger: Ledger;
  readonly batches: Batches;
  /** How many connections are open, for proofs that none leaks. */
  readonly connections: number;
  /** Gives a model's name a script, or several for successive attempts. @throws {ScriptError} */
  script(model: string, source: string): void;
  /** The attempts of the request that had this `user` field, in order. */
  attemptsOf(user: string): Attempt[];
  /** Closes the connections that carry no request, as providers do unannounced; reports how many. */
  closeIdle(): number;
  /** Drops every connection and frees the port. */
  close(): Promise<void>;
};

export type UpstreamOptions = {
  /** 0 or nothing: any free port. */
  port?: number;
  /** When set, a chat or model list request without `Bearer <apiKey>` is answered with 401. */
  apiKey?: string;
  /** Awaited with the body of each call before it is answered. */
  before?: (body: Record<string, unknown>) => Promise<void>;
};

const HOST = '127.0.0.1';
const BYTES_PER_PROMPT_TOKEN = 4;
const HEALTHY = 'ok';
/** Of output that comes slowly. */
const SLOW_PIECES = 12;
const SLOW_PIECE_MS = 250;
const CLOSING: [name: string, value: string] = ['connection', 'close'];

/**
 * Starts a scripted upstream on the loopback interface.
 * @throws {Error} when the port is taken.
 */
export async function startUpstream({
  port = 0,
  apiKey,
  before,
}: UpstreamOptions = {}): Promise<ScriptedUpstream> {
  const ledger = createLedger();
  const plans = new Map<string, [Script, ...Script[]]>([[HEALTHY, parsePlan('')]]);
  const played = new Map<string, number>();
  const connections = new Set<Connection>();
  const stored = createStored();
  const batches = createBatches();
  let connectionsSeen = 0;

  const server = createServer({ noDelay: true }, (socket) => {
    connectionsSeen += 1;
    const connection = openConnection(socket, connectionsSeen);
    connections.add(connection);
    socket.once('close', () => connections.delete(connection));
    void serve(connection);
  });

  async function serve(connection: Connection): Promise<void> {
    const { socket } = connection;
    try {
      for (let request = await connection.nextRequest(); request; request = await connection.nextRequest()) {
        if (!(await answer(connection, request))) break;
      }
    } catch (error) {
      if (!(error instanceof MalformedMessage)) throw error;
      if (!socket.destroyed) socket.write(jsonReply(400, errorObject(400, null)));
    }
    if (!socket.destroyed) socket.end();
  }

  /** Answers one request; false when the connection is to be closed. */
  async function answer(connection: Connection, request: Request): Promise<boolean> {
    const { method, path, query } = request;
    if (method === 'POST' && shapeAt(path)) return answerCall(connection, request);
    if (method !== 'GET' || path !== '/__ledger')
      ledger.visits.push({
        at: Date.now(),
        method,
        path,
        query,
        authorization: headerOf(request, 'authorization'),
      });
    const streamed = method === 'GET' ? stored.streamOf(path, query) : null;
    if (streamed) return answerStream(connection, streamed);
    if (batches.isPath(path)) return answerBatches(connection, request);
    const kept = isStoredPath(path) ? answerStored(request) : null;
    connection.socket.write(kept ?? plainAnswer(request));
    return true;
  }

  async function answerStream(
    { socket, gone }: Connection,
    { begun, rest, endsAtMs }: NonNullable<ReturnType<typeof stored.streamOf>>,
  ): Promise<boolean> {
    socket.write(headBytes(200, [...ownHeaders(0), ['content-type', 'text/event-stream'], CLOSING]));
    socket.write(Buffer.concat(begun));
    while (Date.now() < endsAtMs && !gone.aborted) await wait(10);
    socket.write(Buffer.concat(rest));
    return false;
  }

  async function answerBatches({ socket }: Connection, request: Request): Promise<boolean> {
    if (!isAuthorized(credentialOf(request))) {
      socket.write(jsonReply(401, errorObject(401, null)));
      return true;
    }
    const answered = await batches.answer(request);
    if (answered === 'cut') return false;
    const { status, body, cutAfter, isSlow } = answered;
    if (!Buffer.isBuffer(body)) socket.write(jsonReply(status, body));
    else {
      const length = String(body.length);
      const type = 'application/octet-stream';
      socket.write(headBytes(status, [...ownHeaders(0), ['content-type', type], ['content-length', length]]));
      const each = isSlow ? Math.ceil(body.length / SLOW_PIECES) : body.length;
      for (let at = 0; at < (cutAfter ?? body.length); at += each) {
        socket.write(body.subarray(at, Math.min(at + each, cutAfter ?? body.length)));
        if (isSlow) await wait(SLOW_PIECE_MS);
      }
    }
    return cutAfter === undefined;
  }

  function answerStored(request: Request): Buffer {
    if (!isAuthorized(headerOf(request, 'authorization'))) return jsonReply(401, errorObject(401, null));
    const { status, body } = stored.answer(request.method, request.path);
    return jsonReply(status, body);
  }

  function plainAnswer({ method, path, headers }: Request): Buffer {
    const { attempts, visits } = ledger;
    if (method === 'GET' && path === '/__ledger') return jsonReply(200, { attempts, visits });
    if (method !== 'GET' || path !== '/v1/models') return jsonReply(404, errorObject(404, null));
    if (!isAuthorized(headerOf({ headers }, 'authorization'))) return jsonReply(401, errorObject(401, null));
    const data = [...plans.keys()].map((id) => ({
      id,
      object: 'model',
      created: 1_750_000_000,
      owned_by: 'scripted',
    }));
    return jsonReply(200, { object: 'list', data });
  }

  async function answerCall(connection: Connection, request: Request): Promise<boolean> {
    const credential = credentialOf(request);
    const attempt = attemptOf(
      request,
      ledger.attempts.length + 1,
      connection.number,
      isAuthorized(credential),
    );
    ledger.open(attempt, request.body);
    if (before) await before(parseObject(request.body));
    const reported = attempt.authorized ? nextScript(attempt) : refusal(401);
    const { script, ...asked } = obeying(
      reported,
      reported.obey === 'yes' ? parseObject(request.body) : {},
      attempt.attempt,
    );
    const out = createOutput(connection.socket, connection.gone, attempt, ledger);
    const subject = {
      id: attempt.id,
      model: attempt.model ?? '',
      createdAtSeconds: Math.floor(attempt.at / 1000),
      askedUsage: attempt.askedUsage,
      promptTokens: Math.ceil(attempt.bodyBytes / BYTES_PER_PROMPT_TOKEN),
      ...asked,
      asked: () => parseObject(request.body),
    };
    if (attempt.path === RESPONSES && attempt.authorized) stored.keep(script, subject);
    const reusable = await playScript({ script, attempt, out, ledger }, subject, credential);
    if (reusable && script.idle !== null) {
      setTimeout(() => connection.idle && connection.socket.end(), script.idle).unref();
    }
    return reusable;
  }

  function nextScript(attempt: Attempt): Script {
    if (attempt.model === null) return refusal(400);
    const plan = planOf(attempt.model);
    const key = JSON.stringify([attempt.model, attempt.user]);
    const turn = played.get(key) ?? 0;
    played.set(key, turn + 1);
    return plan[turn] ?? plan.at(-1) ?? plan[0];
  }

  function planOf(model: string): [Script, ...Script[]] {
    const known = plans.get(model);
    if (known) return known;
    if (!model.startsWith('s:')) return [refusal(404)];
    try {
      return parsePlan(model.slice(2));
    } catch (error) {
      if (!(error instanceof ScriptError)) throw error;
      // No test expects a 501 of an upstream, so that a misspelt script can't pass for a fault.
      console.error(`scripted upstream: ${model}: ${error.message}`);
      return [refusal(501)];
    }
  }

  function isAuthorized(credential: string | null): boolean {
    return apiKey === undefined || credential === `Bearer ${apiKey}`;
  }

  function attemptOf(request: Request, number: number, connection: number, authorized: boolean): Attempt {
    const isForm = headerOf(request, 'content-type')?.startsWith('multipart/') === true;
    const fields = isForm ? formFieldsOf(request.body) : fieldsOf(request.body);
    const asked = readAsked(request.path, fields);
    return {
      attempt: number,
      at: Date.now(),
      connection,
      id: `chatcmpl-${portOf(server)}-${number}`,
      path: request.path,
      ...asked,
      authorized,
      headers: request.headers,
      requestId: headerOf(request, 'x-request-id'),
      bodyBytes: request.body.length,
      bodySha256: createHash('sha256').update(request.body).digest('hex'),
      status: null,
      tokensSent: 0,
      contentBytesSent: 0,
      replyBytesSent: 0,
      bytesSent: 0,
      finishSent: false,
      doneSent: false,
      usageReported: null,
      usageIsFinal: false,
      usageAt: null,
      clientClosedEarly: false,
      ended: 'open',
      endedAt: null,
    };
  }

  async function close(): Promise<void> {
    if (!server.listening) return;
    server.close();
    for (const { socket } of connections) socket.destroy();
    await once(server, 'close');
  }

  server.listen(port, HOST);
  await once(server, 'listening');
  const url = `http://${HOST}:${portOf(server)}`;
  return {
    port: portOf(server),
    url,
    baseUrl: `${url}/v1`,
    ledger,
    batches,
    get connections() {
      return connections.size;
    },
    script(model, source) {
      plans.set(model, parsePlan(source));
    },
    attemptsOf(user) {
      return ledger.attempts.filter((attempt) => attempt.user === user);
    },
    closeIdle() {
      const idle = [...connections].filter((connection) => connection.idle);
      for (const { socket } of idle) socket.end();
      return idle.length;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** A port of the loopback interface on which no one listens. */
export async function refusedPort(): Promise<number> {
  const server = createServer().listen(0, HOST);
  await once(server, 'listening');
  const port = portOf(server);
  server.close();
  await once(server, 'close');
  return port;
}

/** What the upstream looks at in a request's body. A body that is no chat request has no model. */
function fieldsOf(body: Buffer): Pick<Attempt, 'model' | 'user' | 'sse' | 'askedUsage'> {
  const value = parseObject(body);
  const options = value['stream_options'];
  return {
    model: typeof value['model'] === 'string' ? value['model'] : null,
    user: typeof value['user'] === 'string' ? value['user'] : null,
    sse: value['stream'] === true || value['stream_format'] === 'sse',
    askedUsage: isObject(options) && options['include_usage'] === true,
  };
}

/** The same of a form. */
function formFieldsOf(body: Buffer): Pick<Attempt, 'model' | 'user' | 'sse' | 'askedUsage'> {
  const text = body.toString('latin1');
  const field = (name: string): string | null =>
    new RegExp(`name="${name}"\\r\\n\\r\\n([^\\r]*)\\r\\n`).exec(text)?.[1] ?? null;
  return { model: field('model'), user: field('user'), sse: field('stream') === 'true', askedUsage: false };
}

/** As a bearer, whatever its header. */
function credentialOf(request: Request): string | null {
  const apiKey = headerOf(request, 'x-api-key') ?? headerOf(request, 'x-goog-api-key');
  return headerOf(request, 'authorization') ?? (apiKey === null ? null : `Bearer ${apiKey}`);
}

function parseObject(body: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body.toString());
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function refusal(status: number): Script {
  return parseScript(`status=${status}`);
}

function jsonReply(status: number, value: object): Buffer {
  const body = Buffer.from(JSON.stringify(value));
  const length = String(body.length);
  const head = headBytes(status, [
    ...ownHeaders(0),
    ['content-type', 'application/json'],
    ['content-length', length],
  ]);
  return Buffer.concat([head, body]);
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the upstream does not listen');
  return address.port;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { port: { type: 'string' }, 'api-key': { type: 'string' } } });
  const apiKey = values['api-key'];
  const upstream = await startUpstream({
    port: Number(values.port ?? 0),
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  console.log(`upstream ready ${upstream.port}`);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void upstream.close());
}
