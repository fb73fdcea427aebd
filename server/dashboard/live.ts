import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { Key } from '#db/fold/key.ts';
import { uuidv7 } from '#db/ids.ts';
import { VIEWER_CLOSE_MS, VIEWER_MESSAGE_BYTES_MAX } from '#server/bounds.ts';
import type { Feed, Viewing } from '#server/dashboard/feed.ts';
import { LiveQuery } from '#server/dashboard/frames.ts';
import { LIVE_PROTOCOL } from '#server/dashboard/live-protocol.ts';
import { readQuery } from '#server/dashboard/read-query.ts';
import { scopeOf } from '#server/dashboard/scope.ts';
import { Refusal } from '#server/errors.ts';
import { digestSecret, SECRET_PREFIX } from '#server/key-secret.ts';
import { authenticate, sentSecret } from '#server/relay/authenticate.ts';
import { authorize } from '#server/relay/authorize.ts';
import { callerOf } from '#server/relay/caller.ts';
import type { Relay } from '#server/relay/relay.ts';
import { bareRefusal } from '#server/relay/reply.ts';
import { errorFields, type Logger } from '#server/telemetry.ts';

export const LIVE = '/v1/live';

/** The types of `ws` don't name it. */
const CLOSE_TIMEOUT = { closeTimeout: VIEWER_CLOSE_MS };

/** Whether a request asks for a WebSocket. Any other wish to upgrade, such as to HTTP/2, is passed over, as HTTP allows. */
export function isWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * `GET /v1/live` as a WebSocket: who may look on is decided before it opens, and a refusal is an
 * ordinary HTTP reply. From there on the connection is the feed's.
 */
export class Live {
  readonly #relay: Relay;
  readonly #feed: Feed;
  readonly #log: Logger;
  readonly #sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: VIEWER_MESSAGE_BYTES_MAX,
    // Each viewer would need a compressor of its own, for what all of them share otherwise.
    perMessageDeflate: false,
    ...CLOSE_TIMEOUT,
    handleProtocols: (offered) => (offered.has(LIVE_PROTOCOL) ? LIVE_PROTOCOL : false),
  });

  constructor(relay: Relay, feed: Feed, log: Logger) {
    this.#relay = relay;
    this.#feed = feed;
    this.#log = log;
    this.#sockets.on('wsClientError', (_error, socket) => socket.end(bareRefusal(new Refusal('bad_request'), uuidv7())));
  }

  /** Takes a connection over, in answer to a request that {@link isWebSocket}. Never throws. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const requestId = uuidv7();
    const refuse = (refusal: Refusal): void => {
      socket.end(bareRefusal(refusal, requestId));
      // Nobody reads what a client still sends, or waits for it to leave.
      socket.resume();
      setTimeout(() => socket.destroy(), VIEWER_CLOSE_MS).unref();
    };
    // It may break while nobody else looks after it yet.
    socket.on('error', () => socket.destroy());
    this.#open(request, socket, head, requestId).then(
      (refusal) => refusal && refuse(refusal),
      (error: unknown) => {
        this.#log.error({ request: requestId, ...errorFields(error) }, 'opening a live feed failed');
        refuse(new Refusal('internal_error'));
      },
    );
  }

  async #open(request: IncomingMessage, socket: Duplex, head: Buffer, requestId: string): Promise<Refusal | null> {
    if (this.#relay.draining) return new Refusal('shutting_down');
    const viewer = authenticateViewer(this.#relay, request);
    if (viewer instanceof Refusal) return viewer;
    const query = readQuery(LiveQuery, request.url ?? '');
    if (query instanceof Refusal) return query;
    const broken = checkHandshake(request);
    if (broken) return broken;
    const { after = null, ...filter } = query;
    const release = this.#feed.reserve(viewer.keyId);
    if (release instanceof Refusal) return release;
    socket.once('close', release);
    let join: Awaited<ReturnType<Feed['open']>>;
    try {
      join = await this.#feed.open({ ...viewer, filter, after });
    } catch (error) {
      this.#log.warn({ request: requestId, ...errorFields(error) }, 'the log could not be read for a live feed');
      return new Refusal('store_unavailable');
    }
    if (this.#relay.draining) return new Refusal('shutting_down');
    if (!socket.destroyed) this.#sockets.handleUpgrade(request, socket, head, join);
    return null;
  }
}

type Viewer = Pick<Viewing, 'keyId' | 'digest' | 'caller' | 'scope'>;

/**
 * Who wants to look on, and what they may see. An API key counts here as at any other route, its
 * origins included. A page's script can set no header on a WebSocket, so the secret may stand among
 * the subprotocols instead: `new WebSocket(url, ['daybook.v1', secret])`. The dashboard's session
 * cookie will be taken here, and only from the dashboard's own origin, since browsers send cookies
 * whoever's page it is.
 */
function authenticateViewer(relay: Relay, request: IncomingMessage): Viewer | Refusal {
  if (!relay.readModel.isCurrent()) return new Refusal('store_unavailable');
  const headers = credentialOf(request);
  const key: Key | Refusal = authenticate(headers, relay.readModel, relay.pepper);
  if (key instanceof Refusal) return key;
  const caller = callerOf(request, LIVE, relay.trustedProxies);
  const forbidden = authorize(key, caller, relay.readModel);
  if (forbidden) return forbidden;
  return { keyId: key.id, digest: digestSecret(relay.pepper, sentSecret(headers) ?? ''), caller, scope: scopeOf(key) };
}

/** The headers with the one credential: as they came or, where a subprotocol looks like a secret, with that as well. */
function credentialOf({ headers, rawHeaders }: IncomingMessage): readonly string[] {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((each) => each.trim());
  return [...rawHeaders, ...offered.filter((each) => each.startsWith(SECRET_PREFIX)).flatMap((secret) => ['authorization', `Bearer ${secret}`])];
}

/** What every browser and library sends, and whoever does not is told in our words. */
function checkHandshake({ headers }: IncomingMessage): Refusal | null {
  const isWhole = headers['sec-websocket-version'] === '13' && /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '');
  if (isWhole) return null;
  return new Refusal('bad_request', { message: 'A WebSocket needs Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key.', headers: ['sec-websocket-version', '13'] });
}
