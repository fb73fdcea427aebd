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
import { digestSecret, SECRET_PREFIX } from '#server/secrets/key-secret.ts';
import { authenticate, readBearerSecret } from '#server/access/authenticate.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import type { Relay } from '#server/relay/relay.ts';
import { bareRefusal } from '#server/relay/reply.ts';
import { errorFields, type Logger } from '#server/process/logger.ts';

/** The feed for programs with a key, and for people who are signed in. */
export const LIVE = '/v1/live';
export const LIVE_SIGNED_IN = '/api/live';

/** The types of `ws` don't name it. */
const CLOSE_TIMEOUT = { closeTimeout: VIEWER_CLOSE_MS };

/**
 * Whether a request asks for a WebSocket. Any other wish to upgrade, such as to HTTP/2, is passed over, as
 * HTTP allows.
 */
export function isWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * `GET /v1/live` and `GET /api/live` as a WebSocket: who may look on is decided before it opens, and a
 * refusal is an ordinary HTTP reply. From there on the connection is the feed's.
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
    // Each viewer would need a compressor of its own, for what all of them share otherwise.
    perMessageDeflate: false,
    ...CLOSE_TIMEOUT,
    handleProtocols: (offered) => (offered.has(LIVE_PROTOCOL) ? LIVE_PROTOCOL : false),
  });

  constructor(relay: Relay, feed: Feed, { find, log, publicOrigin }: Gate) {
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
      socket.end(bareRefusal(new ApiError('bad_request'), uuidv7())),
    );
  }

  /**
   * Takes a connection over, in answer to a request that {@link isWebSocket}. Never throws.
   * @param path which of the two it asks for.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, path: string): void {
    const requestId = uuidv7();
    const refuse = (refusal: ApiError): void => {
      socket.end(bareRefusal(refusal, requestId));
      // Nobody reads what a client still sends, or waits for it to leave.
      socket.resume();
      setTimeout(() => socket.destroy(), VIEWER_CLOSE_MS).unref();
    };
    // It may break while nobody else looks after it yet.
    socket.on('error', () => socket.destroy());
    this.#open(path, request, socket, head, requestId).then(
      (refusal) => refusal && refuse(refusal),
      (error: unknown) => {
        this.#log.error({ request: requestId, ...errorFields(error) }, 'opening a live feed failed');
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
    if (this.#relay.draining) return new ApiError('shutting_down');
    if (!this.#relay.readModel.isCurrent()) return new ApiError('store_unavailable');
    const viewer =
      path === LIVE_SIGNED_IN ? await this.#signedIn(request, socket) : holderOfKey(this.#relay, request);
    if (viewer instanceof ApiError) return viewer;
    // What is done when it closes would never be done.
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
    if (this.#relay.draining) return new ApiError('shutting_down');
    if (!socket.destroyed) this.#sockets.handleUpgrade(request, socket, head, join);
    return null;
  }

  /**
   * Somebody who is signed in. That their session was closed is told by the log; that it has expired is
   * looked for.
   */
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

  /** Ends a session's feeds where it is there no more. That the store can't say is no reason to. */
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
 * Browsers send cookies whoever's page it is, and let every page open a WebSocket to anywhere. They do
 * say whose page it is; whoever says nothing is none, and has no business with a cookie.
 */
function checkOwnOrigin({ headers }: IncomingMessage, publicOrigin: string | undefined): ApiError | null {
  const site = headers['sec-fetch-site'];
  return isOwnOrigin(headers, publicOrigin) && (site === undefined || site === 'same-origin')
    ? null
    : new ApiError('cross_site_request');
}

/**
 * Who wants to look on, and what they may see. An API key counts here as at any other route, its
 * origins included. A page's script can set no header on a WebSocket, so the secret may stand among
 * the subprotocols instead: `new WebSocket(url, ['daybook.v1', secret])`.
 */
function holderOfKey(relay: Relay, request: IncomingMessage): Viewer | ApiError {
  const headers = credentialOf(request);
  const key = authenticate(headers, relay.readModel, relay.pepper, relay.secretUse);
  if (key instanceof ApiError) return key;
  const caller = requestContextOf(request, LIVE, relay.trustedProxies);
  const forbidden = authorize(key, caller, relay.readModel);
  if (forbidden) return forbidden;
  const digest = digestSecret(relay.pepper, readBearerSecret(headers) ?? '');
  return { right: new KeyPermission(relay.readModel, { key: key.id, digest, caller }), scope: scopeOf(key) };
}

/**
 * The headers with the one credential: as they came or, where a subprotocol looks like a secret, with that as
 * well.
 */
function credentialOf({ headers, rawHeaders }: IncomingMessage): readonly string[] {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((each) => each.trim());
  return [
    ...rawHeaders,
    ...offered
      .filter((each) => each.startsWith(SECRET_PREFIX))
      .flatMap((secret) => ['authorization', `Bearer ${secret}`]),
  ];
}

/** What every browser and library sends, and whoever does not is told in our words. */
function checkHandshake({ headers }: IncomingMessage): ApiError | null {
  const isWhole =
    headers['sec-websocket-version'] === '13' &&
    /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '');
  if (isWhole) return null;
  return new ApiError('bad_request', {
    message: 'A WebSocket handshake needs Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key.',
    headers: ['sec-websocket-version', '13'],
  });
}
