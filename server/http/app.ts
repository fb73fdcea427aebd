import express, { type NextFunction, type Request, type Response } from 'express';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { uuidv7 } from '#db/ids.ts';
import { http } from '#db/node-http.ts';
import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import {
  CONNECTIONS_CHECK_MS,
  HEADER_BYTES_MAX,
  HEADERS_MAX,
  HEADERS_TIMEOUT_MS,
  KEEP_ALIVE_MS,
  PIPELINED_MAX,
  REQUEST_TIMEOUT_MS,
} from '#server/http/bounds.ts';
import { limitConnections } from '#server/http/connection-limit.ts';
import { serveHalfClosed } from '#server/http/half-closed.ts';
import { countTokens } from '#server/counting/count-tokens.ts';
import type { OpenReplies } from '#server/http/open-replies.ts';
import { presentsToken } from '#db/secrets/presents-token.ts';
import { readReadiness } from '#server/http/readiness.ts';
import { closeAfterReplies, endLingering } from '#server/http/lingering-close.ts';
import { checkHeaders } from '#server/http/check-headers.ts';
import { afterReplies, awaitsReply, pipelined } from '#server/http/pipeline.ts';
import { sendApiError, replyOf, sendJson, type WithReply } from '#server/http/respond.ts';
import { apiRoutes } from '#server/dashboard/api.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { apiRouter, mayReadEvents } from '#server/dashboard/gate.ts';
import { providerSignIn } from '#server/dashboard/identity/sign-in.ts';
import { LIVE, LIVE_SIGNED_IN, type Live } from '#server/feed/upgrade.ts';
import { asksForWebSocket, isWebSocket } from '#server/http/websocket-handshake.ts';
import { openApiRoutes } from '#server/openapi/routes.ts';
import type { ResponsesSockets } from '#server/websocket/responses-socket.ts';
import { pageHeaders } from '#server/dashboard/page/headers.ts';
import { pages } from '#server/dashboard/page/pages.ts';
import { READ_ROUTES, readRoutes } from '#server/read/routes.ts';
import type { ReadStore } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { LogProofs } from '#server/http/log-proofs.ts';
import { logRoutes } from '#server/http/log-routes.ts';
import { handleCall } from '#server/relay/handle.ts';
import type { RequestLog } from '#server/diagnostics/request-log.ts';
import type { Relay } from '#server/relay/relay.ts';
import {
  COUNT_TOKENS,
  countSpec,
  errorFormatOf,
  isGemini,
  RELAYED,
  relayedSpec,
  RESPONSES,
} from '#server/relay/routes.ts';
import { moveKeyToHeader } from '#server/http/key-in-query.ts';
import type { ModelList } from '#server/models/model-list.ts';
import { MODEL_ROUTES, modelRoutes } from '#server/models/model-routes.ts';
import { answerPreflight, bareRefusal, corsHeaders, sendError, type Reply } from '#server/relay/reply.ts';
import { BATCH_API_ROUTES, batchRoutes } from '#server/batches/batch-routes.ts';
import { MESSAGE_BATCH_ROUTES, messageBatchRoutes } from '#server/batches/messages/routes.ts';
import { FILE_ROUTES, fileRoutes } from '#server/batches/file-routes.ts';
import { STORED_ROUTES, storedRoutes } from '#server/stored/routes.ts';
import { proxyWarning } from '#server/sign-in/proxy-warning.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import { TOKEN_ROUTE, tokenRoute } from '#server/workloads/routes.ts';
import { PAGE_DIRECTORY } from '#server/process/web-build.ts';

export type App = {
  relay: Relay;
  modelList: ModelList;
  reads: ReadStore;
  proofs: LogProofs;
  live: Live;
  sockets: ResponsesSockets;
  dashboard: Dashboard;
  log: Logger;
  replies: OpenReplies;
  tls: { cert: Buffer; key: Buffer } | null;
};

/**
 * The HTTP server. Relayed routes are handled before Express, which routes everything else, so relayed calls
 * run no middleware.
 */
export function createServer(app: App): Server {
  const routes = otherRoutes(app);
  const isKeyMoved = app.dashboard.config.KEY_IN_QUERY === 'accept';
  const handle = (
    request: IncomingMessage,
    response: ServerResponse,
    unexpected: ApiError | null = null,
  ): void => {
    const turn = pipelined(request, response);
    if (turn === 'ignore') return;
    const path = normalPath(request.url ?? '/');
    if (isKeyMoved && isGemini(path)) moveKeyToHeader(request);
    const reply = replyTo(app.relay, request, path);
    const malformed = turn === 'refuse' ? tooManyPipelined() : checkHeaders(request);
    if (malformed) {
      // Where the next request begins is in doubt.
      response.shouldKeepAlive = false;
      return sendError(request, response, reply, malformed);
    }
    if (unexpected) return sendError(request, response, reply, unexpected);
    const isPost = request.method === 'POST';
    const spec = isPost ? relayedSpec(path, request.url ?? '') : undefined;
    if (spec instanceof ApiError) return sendError(request, response, reply, spec);
    app.replies.add(response, spec !== undefined);
    const orFault = (handled: Promise<void>): void => {
      handled.catch((error: unknown) => {
        reply.diagnostics?.fault(error);
        if (response.headersSent) response.destroy();
        else sendError(request, response, reply, new ApiError('internal_error'));
      });
    };
    if (spec) return orFault(handleCall(app.relay, spec, request, response, reply));
    const count = isPost ? countSpec(path, request.url ?? '') : undefined;
    if (count instanceof ApiError) return sendError(request, response, reply, count);
    if (count) return orFault(countTokens(app.relay, count, request, response, reply));
    request.url = path + queryOf(request.url ?? '');
    // The routes under /api authenticate by cookie, so no page on another origin may read their replies.
    if (request.url.startsWith('/api/v1/')) reply.extraHeaders = [];
    (response as WithReply).reply = reply;
    routes(request, response);
  };
  const options = {
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
    noDelay: true,
    allowHalfOpen: true,
    // Node's own reply to a missing Host header has no body; ours is an error object.
    requireHostHeader: false,
    // Any other upgrade request is handled as a plain request, as HTTP allows.
    // So is one behind a request whose reply would end up among the frames.
    shouldUpgradeCallback: (request: IncomingMessage) =>
      isWebSocket(request) &&
      !awaitsReply(request.socket) &&
      [LIVE, LIVE_SIGNED_IN, RESPONSES.route].includes(normalPath(request.url ?? '/')),
  };
  const server = app.tls
    ? process.getBuiltinModule('node:https').createServer({ ...options, ...app.tls })
    : http.createServer(options);
  server.on('request', (request, response) => handle(request, response));
  limitConnections(server, app.relay.requestLog);
  serveHalfClosed(server);
  // One more than is accepted, since Node drops the rest without a word.
  server.maxHeadersCount = HEADERS_MAX + 1;
  // The handlers send 100 Continue only after the headers have been accepted.
  server.on('checkContinue', (request, response) => handle(request, response));
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) =>
    handle(request, response, new ApiError('expectation_failed')),
  );
  // Without a listener Node closes the connection, together with the replies that it waits for.
  server.on('connect', (_request, socket: Socket) => {
    socket.on('error', () => socket.destroy());
    const refusal = new ApiError('method_not_allowed');
    afterReplies(socket, () => refuseBare(socket, refusal, 'CONNECT', app.relay.requestLog));
  });
  server.on('upgrade', (request, socket, head) => {
    const path = normalPath(request.url ?? '/');
    if (path === RESPONSES.route) app.sockets.upgrade(request, socket, head);
    else app.live.upgrade(request, socket, head, path);
  });
  server.on('clientError', (error, socket: Socket) => answerParserError(error, socket, app.relay.requestLog));
  return server;
}

/** The headers and the error format of every reply to a request, as clients of its path expect them. */
function replyTo(
  { requestLog, trustedProxies, observer }: Relay,
  request: IncomingMessage,
  path: string,
): Reply {
  const requestId = uuidv7();
  const { headers } = request;
  const { errorFormat: shape, requestIdHeader } = errorFormatOf(path);
  const cors = corsHeaders(headers);
  return {
    requestId,
    extraHeaders: requestIdHeader === undefined ? cors : [...cors, requestIdHeader, requestId],
    errorFormat: shape,
    diagnostics: new RequestDiagnostics(requestLog, request, { requestId, path, trustedProxies, observer }),
  };
}

/** The path without its query, and without the doubled or trailing slashes that some base URLs lead to. */
function normalPath(url: string): string {
  if (url === CHAT_COMPLETIONS) return url;
  // HTTP allows the absolute form, which clients behind a proxy send; only its path counts.
  const path = url.replace(/^https?:\/\/[^/?]*/i, '').split('?', 1)[0] as string;
  return path.replace(/\/{2,}/g, '/').replace(/(?<=.)\/$/, '') || '/';
}

/** The query with its question mark; empty if absent. */
function queryOf(url: string): string {
  const at = url.indexOf('?');
  return at < 0 ? '' : url.slice(at);
}

function otherRoutes({ relay, modelList, reads, proofs, dashboard, log }: App): express.Express {
  const routes = express();
  routes.disable('x-powered-by');
  routes.disable('etag');
  routes.set('case sensitive routing', true);

  // Agents check that the server is reachable before their first call.
  routes.head('/', (request, response, next) => {
    if (/\btext\/html\b/i.test(request.headers.accept ?? '')) return next();
    response.writeHead(200, ['x-request-id', replyOf(response).requestId, ...replyOf(response).extraHeaders]);
    response.end();
  });

  routes.options(/^\/v1(?:beta)?(\/|$)/, (request, response) =>
    answerPreflight(request, response, replyOf(response)),
  );

  routes.get('/healthz', (_request, response) => sendJson(response, 200, { status: 'alive' }));
  routes.get('/readyz', (request, response) => {
    const ready = readReadiness(relay, presentsToken(request, dashboard.config.READYZ_TOKEN));
    sendJson(response, ready.status === 'ready' ? 200 : 503, ready);
  });

  routes.use(modelRoutes(relay, modelList));
  routes.use(storedRoutes(relay));
  routes.use(fileRoutes(relay));
  routes.use(batchRoutes(relay));
  routes.use(messageBatchRoutes(relay));
  routes.use(readRoutes({ relay, reads, witnesses: dashboard.config.WITNESSES }));
  routes.use(logRoutes(proofs, relay.trustedProxies, (request) => mayReadEvents(dashboard, request)));
  const headers = pageHeaders(dashboard.config);
  routes.use('/api', proxyWarning(relay.trustedProxies, log), headers);
  const managed = apiRoutes(dashboard);
  routes.use(openApiRoutes(managed, headers));
  routes.use(tokenRoute(dashboard));
  routes.use('/sign-in', headers);
  routes.use(providerSignIn(dashboard));
  routes.use(
    apiRouter(managed, {
      find: dashboard.find,
      keys: relay,
      log,
      publicOrigin: dashboard.config.PUBLIC_URL,
    }),
  );

  // WebSocket upgrades are handled before Express.
  routes.get([LIVE, LIVE_SIGNED_IN], (request, response) =>
    sendApiError(request, response, new ApiError('upgrade_required', { headers: ['upgrade', 'websocket'] })),
  );

  for (const [path, allow] of [
    ...[...RELAYED.keys(), COUNT_TOKENS].map((relayed) => [relayed, 'POST, OPTIONS'] as const),
    ...[...MODEL_ROUTES, ...READ_ROUTES].map((route) => [route, 'GET, HEAD, OPTIONS'] as const),
    ...STORED_ROUTES,
    ...FILE_ROUTES,
    ...BATCH_API_ROUTES,
    ...MESSAGE_BATCH_ROUTES,
    [LIVE, 'GET'],
    [LIVE_SIGNED_IN, 'GET'],
    [TOKEN_ROUTE, 'POST'],
    ['/healthz', 'GET, HEAD'],
    ['/readyz', 'GET, HEAD'],
  ]) {
    routes.all(path, (request, response) => {
      if (asksForWebSocket(request)) return sendApiError(request, response, NO_WEBSOCKET);
      response.setHeader('allow', allow);
      sendApiError(
        request,
        response,
        new ApiError('method_not_allowed', { message: `This route takes ${allow}.` }),
      );
    });
  }
  routes.use(pages(PAGE_DIRECTORY, headers));
  routes.use((request, response) => sendApiError(request, response, notFound(request.path)));
  routes.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    // Express rejects a path that it can't decode.
    const status = (error as { status?: unknown } | null)?.status;
    if (status === 400) return sendApiError(request, response, new ApiError('bad_request'));
    replyOf(response).diagnostics?.fault(error);
    sendApiError(request, response, new ApiError('internal_error'));
  });
  return routes;
}

/** Clients that prefer a WebSocket take 426 for an answer, and use HTTP from then on. */
const NO_WEBSOCKET = new ApiError('upgrade_required', {
  message:
    'No WebSocket can be opened here: the route has none, or a front has removed the upgrade. ' +
    'Send a request over HTTP/1.1.',
  headers: ['upgrade', 'HTTP/1.1'],
});

/** The most common mistake in a base URL is a missing /v1. */
const WITHOUT_V1 =
  /^\/(chat|models|usage|requests|live|completions|responses|messages|embeddings|files|batches)(\/|$)/;

function notFound(path: string): ApiError {
  if (WITHOUT_V1.test(path))
    return new ApiError('route_not_found', {
      message: 'There is no such route. The base URL of the API ends in /v1.',
    });
  if (path === '/')
    return new ApiError('route_not_found', {
      message: 'The API is under /v1. In a browser, this address is the dashboard.',
    });
  return new ApiError('route_not_found');
}

type ParserError = NodeJS.ErrnoException & { rawPacket?: Buffer; bytesParsed?: number };

/**
 * Replies to requests that the HTTP parser rejects, on the raw socket, since there is no response object yet.
 * If the offending line is the Authorization header, its key is malformed: 401.
 */
function answerParserError(error: ParserError, socket: Socket, log: RequestLog): void {
  // What follows a request that asked for the end of the connection is ignored; its reply is not.
  if (error.code === 'HPE_CLOSED_CONNECTION') return closeAfterReplies(socket);
  // A second reply would corrupt the one that Node may be writing.
  const running =
    (socket as Socket & Record<'_httpMessage', ServerResponse | null | undefined>)['_httpMessage'] ?? null;
  const answered = running !== null && (running.headersSent || running.req.complete);
  if (error.code === 'ECONNRESET' || !socket.writable || (answered && !running.writableEnded)) {
    log.debug(() => ({ reason: error.code ?? 'unknown' }), 'client connection failed');
    socket.destroy();
    return;
  }
  refuseBare(socket, parserProblem(error), error.code ?? 'unknown', log, answered);
}

/** Refuses a request that has no response object, and closes its connection lingering. */
function refuseBare(
  socket: Socket,
  refusal: ApiError,
  reason: string,
  log: RequestLog,
  isAnswered = false,
): void {
  const requestId = uuidv7();
  const { status, code } = refusal;
  log.rejected(() => ({ request: requestId, status, code, reason }), 'request rejected: malformed');
  endLingering(socket, isAnswered ? '' : bareRefusal(refusal, requestId));
}

function tooManyPipelined(): ApiError {
  return new ApiError('bad_request', {
    message:
      `More than ${PIPELINED_MAX} requests on this connection wait for their replies. ` +
      'Wait for a reply, or use another connection.',
  });
}

function parserProblem(error: ParserError): ApiError {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return new ApiError('request_timeout');
  const line = offendingLine(error);
  if (line !== null && /^(authorization|x-api-key)[ \t]*:/i.test(line))
    return new ApiError('invalid_api_key');
  if (error.code !== 'HPE_HEADER_OVERFLOW') return new ApiError('bad_request');
  // A line that began in an earlier packet has no header name here; it may be the key's, so no key was read.
  if (line !== null && !/^[\w-]+[ \t]*:|^[A-Z]+ /.test(line)) {
    return new ApiError('invalid_api_key', {
      message: 'No API key could be read: the request headers are too large.',
    });
  }
  return new ApiError('headers_too_large');
}

/** The beginning of the line that the parser rejected, as far as the last packet contains it. */
function offendingLine({ rawPacket: packet, bytesParsed }: ParserError): string | null {
  if (!packet) return null;
  const at = Math.min(bytesParsed ?? packet.length, packet.length);
  let start = packet.lastIndexOf('\n', Math.max(0, at - 1)) + 1;
  // A folded line is a part of the one before it.
  while (start > 1 && (packet[start] === 0x20 || packet[start] === 0x09)) {
    start = packet.lastIndexOf('\n', start - 2) + 1;
  }
  return packet.toString('latin1', start, Math.min(packet.length, start + 64));
}
