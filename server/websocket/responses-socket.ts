import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { uuidv7 } from '#db/ids.ts';
import type { Key } from '#db/fold/key.ts';
import { authenticate } from '#server/access/authenticate.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import { KeyedSemaphore } from '#server/control/keyed-semaphore.ts';
import { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { checkHandshake, closeTimeout, refuseHandshake } from '#server/http/websocket-handshake.ts';
import type { BufferLimits } from '#server/limits/open-calls.ts';
import type { Relay } from '#server/relay/relay.ts';
import { RESPONSES } from '#server/relay/routes.ts';
import {
  CLOSE_MS,
  CONNECTIONS_CHECK_MS,
  CONTEXTS_SHARE,
  SOCKETS_MAX,
  SOCKETS_PER_KEY_MAX,
} from '#server/websocket/bounds.ts';
import { CLOSE, ResponsesConnection } from '#server/websocket/connection.ts';
import { Contexts } from '#server/websocket/contexts.ts';

/**
 * WebSockets to `/v1/responses`: authenticates and authorizes before the WebSocket opens, so that an error is
 * an ordinary HTTP reply. A connection ends with its key's permission; each of its responses is checked as
 * any other call.
 */
export class ResponsesSockets {
  readonly #relay: Relay;
  readonly #contexts: Contexts;
  readonly #connections = new Set<ResponsesConnection>();
  readonly #places = new KeyedSemaphore();
  #taken = 0;
  #checking: NodeJS.Timeout | undefined;
  readonly #sockets: WebSocketServer;

  /** @param memory for bodies, of which conversations may take a share. */
  constructor(relay: Relay, memory: BufferLimits) {
    this.#relay = relay;
    this.#contexts = new Contexts({
      bytes: memory.process * CONTEXTS_SHARE,
      bytesPerOwner: memory.key * CONTEXTS_SHARE,
    });
    this.#sockets = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      maxPayload: relay.maxBodyBytes,
      // A message would be inflated before its size is known, and each connection would need a compressor.
      perMessageDeflate: false,
      ...closeTimeout(CLOSE_MS),
      handleProtocols: () => false,
    });
    this.#sockets.on('wsClientError', (_error, socket) =>
      refuseHandshake(socket, new ApiError('bad_request'), uuidv7()),
    );
    relay.readModel.onChange((accounts) => this.#reevaluate(accounts));
  }

  /** Open connections. */
  get count(): number {
    return this.#taken;
  }

  /** Whether responses of any connection run or wait. */
  get isBusy(): boolean {
    return [...this.#connections].some(({ isBusy }) => isBusy);
  }

  /** The bytes of the conversations that they keep. */
  get contextBytes(): number {
    return this.#contexts.bytes;
  }

  /** Handles an upgrade to `/v1/responses`. Never throws. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const requestId = uuidv7();
    const { requestLog, trustedProxies, observer } = this.#relay;
    const diagnostics = new RequestDiagnostics(requestLog, request, {
      requestId,
      path: RESPONSES.route,
      trustedProxies,
      observer,
    });
    // No other listener handles errors of the socket yet.
    socket.on('error', () => socket.destroy());
    const refusal = this.#open(request, socket as Socket, head, requestId);
    if (!refusal) return;
    diagnostics.rejected(refusal);
    refuseHandshake(socket, refusal, requestId);
  }

  #open(request: IncomingMessage, tcp: Socket, head: Buffer, requestId: string): ApiError | null {
    const relay = this.#relay;
    const { phase, fencing, openCalls, readModel, pepper, secretUse, trustedProxies } = relay;
    if (phase === 'draining' || phase === 'stopped') return new ApiError('shutting_down');
    if (openCalls.isFull) return new ApiError('relay_overloaded');
    const isFit = readModel.isCurrent() && fencing.isValid(performance.now());
    if (!isFit) return new ApiError('store_unavailable');
    const key = authenticate(request.rawHeaders, readModel, pepper, secretUse);
    if (key instanceof ApiError) return key;
    const { route } = RESPONSES;
    const release =
      authorize(key, requestContextOf(request, route, trustedProxies), readModel) ??
      checkHandshake(request) ??
      this.#reserve(key);
    if (release instanceof ApiError) {
      relay.rejections.note(key, { request: requestId, route }, release);
      return release;
    }
    tcp.once('close', release);
    if (tcp.destroyed) return null;
    this.#sockets.handleUpgrade(request, tcp, head, (socket) => {
      const contexts = this.#contexts;
      const connection = new ResponsesConnection({ relay, contexts, socket, tcp, request, key });
      this.#connections.add(connection);
      this.#checking ??= setInterval(() => this.#check(), CONNECTIONS_CHECK_MS).unref();
      void connection.closed.then(() => this.#leave(connection));
    });
    return null;
  }

  #reserve({ id }: Key): (() => void) | ApiError {
    if (this.#taken >= SOCKETS_MAX) return FULL;
    const leave = this.#places.acquire(id, SOCKETS_PER_KEY_MAX);
    if (!leave) return TOO_MANY;
    this.#taken++;
    return () => {
      this.#taken--;
      leave();
    };
  }

  #leave(connection: ResponsesConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size > 0) return;
    clearInterval(this.#checking);
    this.#checking = undefined;
  }

  #check(): void {
    const nowMs = performance.now();
    for (const connection of this.#connections) connection.check(nowMs);
  }

  /** Keys, accounts or plans have changed: ends the connections that would not be opened any more. */
  #reevaluate(accounts: ReadonlySet<string>): void {
    const { readModel, pepper, trustedProxies } = this.#relay;
    for (const connection of this.#connections) {
      if (!accounts.has(connection.key.account)) continue;
      const { request } = connection;
      const key = authenticate(request.rawHeaders, readModel, pepper);
      const refusal =
        key instanceof ApiError
          ? key
          : authorize(key, requestContextOf(request, RESPONSES.route, trustedProxies), readModel);
      // What this version doesn't know is an error of each response only.
      if (refusal && refusal.status < 500) connection.end(CLOSE.not_permitted, refusal);
    }
  }

  /** The server is shutting down: each connection is closed when its responses have ended. */
  drain(): void {
    for (const connection of this.#connections)
      connection.finish(CLOSE.restarting, new ApiError('shutting_down'));
  }

  /** Closes all connections; resolves when they are closed. */
  async close(): Promise<void> {
    const all = [...this.#connections];
    for (const connection of all) connection.end(CLOSE.restarting, new ApiError('shutting_down'));
    await Promise.all(all.map(({ closed }) => closed));
  }
}

const FULL = new ApiError('relay_overloaded', {
  message: 'This server has too many WebSocket connections. Try again.',
});
const TOO_MANY = new ApiError('rate_limit_exceeded', {
  message: `Too many WebSocket connections: the maximum is ${SOCKETS_PER_KEY_MAX}. Close one first.`,
});
