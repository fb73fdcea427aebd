import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { uuidv7 } from '#db/ids.ts';
import { SESSION_CHECK_MS, VIEWER_CLOSE_MS, VIEWER_MESSAGE_BYTES_MAX } from '#server/feed/bounds.ts';
import type { Feed, Viewing } from '#server/feed/feed.ts';
import { LiveQuery } from '#server/contract/frames.ts';
import { LIVE_PROTOCOL } from '#server/contract/live-protocol.ts';
import { type Gate, isOwnOrigin, scopeOfMember } from '#server/dashboard/gate.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { readQuery } from '#server/read/query.ts';
import { scopeOf } from '#server/read/scope.ts';
import { ClosedSessions, KeyPermission, SessionPermission } from '#server/feed/viewer-permission.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { readExchangedSecret } from '#server/secrets/exchanged-secret.ts';
import { digestSecret, SECRET_PREFIX } from '#server/secrets/key-secret.ts';
import { authenticate, readBearerSecret } from '#server/access/authenticate.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import type { Relay } from '#server/relay/relay.ts';
import { checkHandshake, closeTimeout, refuseHandshake } from '#server/http/websocket-handshake.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/** Paths of the feed for keys and for signed-in members. */
export const LIVE = '/v1/live';
export const LIVE_SIGNED_IN = '/api/v1/live';

/**
 * `GET /v1/live` and `GET /api/v1/live`: authenticates and authorizes before the WebSocket opens, so that an
 * error is an ordinary HTTP reply. From there on the connection belongs to the feed.
 */
export class Live {
  readonly #relay: Relay;
  readonly #feed: Feed;
  readonly #find: Gate['find'];
  readonly #publicOrigin: string | undefined;
  readonly #log: Logger;
  readonly #closed = new ClosedSessions();
  readonly #sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: VIEWER_MESSAGE_BYTES_MAX,
    // Each viewer would need its own compressor for messages that all of them share.
    perMessageDeflate: false,
    // Viewers answer pings themselves, within the bound of their buffer.
    autoPong: false,
    ...closeTimeout(VIEWER_CLOSE_MS),
    handleProtocols: (offered) => (offered.has(LIVE_PROTOCOL) ? LIVE_PROTOCOL : false),
  });

  constructor(relay: Relay, feed: Feed, { find, log, publicOrigin }: Omit<Gate, 'keys'>) {
    this.#relay = relay;
    this.#feed = feed;
    this.#find = find;
    this.#publicOrigin = publicOrigin;
    this.#log = log;
    relay.readModel.onSession((event) => {
      if (event.type === 'session.closed') this.#closed.add(event.session);
      feed.closeEnded();
    });
    this.#sockets.on('wsClientError', (_error, socket) =>
      refuseHandshake(socket, new ApiError('bad_request'), uuidv7()),
    );
  }

  /**
   * Handles an upgrade for which {@link isWebSocket} is true. Never throws.
   * @param path which of the two paths it requests.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, path: string): void {
    const requestId = uuidv7();
    const { requestLog, trustedProxies, observer } = this.#relay;
    const diagnostics = new RequestDiagnostics(requestLog, request, {
      ...{ requestId, path, trustedProxies, observer },
    });
    const refuse = (refusal: ApiError): void => {
      diagnostics.rejected(refusal);
      refuseHandshake(socket, refusal, requestId);
    };
    // No other listener handles errors of the socket yet.
    socket.on('error', () => socket.destroy());
    this.#open(path, request, socket, head, requestId).then(
      (refusal) => refusal && refuse(refusal),
      (error: unknown) => {
        diagnostics.fault(error);
        refuse(new ApiError('internal_error'));
      },
    );
  }

  async #open(
    path: string,
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    requestId: string,
  ): Promise<ApiError | null> {
    if (this.#isClosed()) return new ApiError('shutting_down');
    if (!this.#relay.readModel.isCurrent()) return new ApiError('store_unavailable');
    const viewer =
      path === LIVE_SIGNED_IN ? await this.#signedIn(request, socket) : holderOfKey(this.#relay, request);
    if (viewer instanceof ApiError) return viewer;
    // Its close event has already fired.
    if (socket.destroyed) return null;
    const query = readQuery(LiveQuery, request.url ?? '');
    if (query instanceof ApiError) return query;
    const broken = checkHandshake(request);
    if (broken) return broken;
    const { after = null, ...filter } = query;
    const release = this.#feed.reserve(viewer.right);
    if (release instanceof ApiError) return release;
    socket.once('close', release);
    let join: Awaited<ReturnType<Feed['open']>>;
    try {
      join = await this.#feed.open({ ...viewer, filter, after });
    } catch (error) {
      this.#log.warn(
        { request: requestId, ...errorFields(error) },
        'the log could not be read for a live feed',
      );
      return new ApiError('store_unavailable');
    }
    if (this.#isClosed()) return new ApiError('shutting_down');
    if (!socket.destroyed) this.#sockets.handleUpgrade(request, socket, head, join);
    return null;
  }

  /** Whether viewers are turned away, because the listener is closed. */
  #isClosed(): boolean {
    const { phase } = this.#relay;
    return phase === 'draining' || phase === 'stopped';
  }

  /** A signed-in member. The log reports a closed session; expiry is polled. */
  async #signedIn(request: IncomingMessage, socket: Duplex): Promise<Viewer | ApiError> {
    const foreign = checkOwnOrigin(request, this.#publicOrigin);
    if (foreign) return foreign;
    const who = await this.#find(request);
    if (who instanceof ApiError) return who;
    if (!socket.destroyed) {
      const looking = setInterval(() => void this.#look(request, who), SESSION_CHECK_MS);
      socket.once('close', () => clearInterval(looking));
    }
    const scope = scopeOfMember(who);
    return { right: new SessionPermission(this.#relay.readModel, this.#closed, who, scope), scope };
  }

  /** Closes the feeds of an expired session. An unavailable store isn't a reason to close them. */
  async #look(request: IncomingMessage, { session }: SignedIn): Promise<void> {
    try {
      const now = await this.#find(request, false);
      if (now instanceof ApiError ? now.status !== 401 : now.session === session) return;
      this.#closed.add(session);
      this.#feed.closeEnded();
    } catch (error) {
      this.#log.warn(errorFields(error), 'looking whether a session has expired failed');
    }
  }
}

type Viewer = Pick<Viewing, 'right' | 'scope'>;

/**
 * Browsers send cookies from every site, and let every page open a WebSocket to any host, but they report the
 * site. A client that reports none isn't a browser and must use a key.
 */
function checkOwnOrigin({ headers }: IncomingMessage, publicOrigin: string | undefined): ApiError | null {
  const site = headers['sec-fetch-site'];
  return isOwnOrigin(headers, publicOrigin) && (site === undefined || site === 'same-origin')
    ? null
    : new ApiError('cross_site_request');
}

/**
 * The holder of a key, and its scope. The key counts as at any other route, its allowed origins included. A
 * page's script can't set headers on a WebSocket, so the secret may be a subprotocol instead: `new
 * WebSocket(url, ['daybook.v1', secret])`.
 */
function holderOfKey(relay: Relay, request: IncomingMessage): Viewer | ApiError {
  const headers = credentialOf(request);
  const key = authenticate(headers, relay.readModel, relay.pepper, relay.secretUse);
  if (key instanceof ApiError) return key;
  const caller = requestContextOf(request, LIVE, relay.trustedProxies);
  const forbidden = authorize(key, caller, relay.readModel);
  if (forbidden) return forbidden;
  const secret = readBearerSecret(headers) ?? '';
  const digest = digestSecret(relay.pepper, secret);
  const untilMs =
    (key.workload === null ? null : readExchangedSecret(relay.pepper, secret)) ?? Number.POSITIVE_INFINITY;
  const right = new KeyPermission(relay.readModel, { key: key.id, digest, untilMs, caller });
  return { right, scope: scopeOf(key) };
}

/** The headers, plus the secret from the subprotocols, if there is one. */
function credentialOf({ headers, rawHeaders }: IncomingMessage): readonly string[] {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((each) => each.trim());
  return [
    ...rawHeaders,
    ...offered
      .filter((each) => each.startsWith(SECRET_PREFIX))
      .flatMap((secret) => ['authorization', `Bearer ${secret}`]),
  ];
}
