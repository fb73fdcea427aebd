import type { Server } from 'node:http';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import {
  ACCEPT_REST_MS,
  DRAIN_MS,
  DRAIN_POLL_MS,
  FIRST_REQUEST_MS,
  LAST_BYTES_MS,
  OTHER_REPLIES_MS,
} from '#server/process/bounds.ts';
import type { OpenReplies } from '#server/http/open-replies.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { ResponsesSockets } from '#server/websocket/responses-socket.ts';

/** How a server stops. */
export type StopOptions = {
  /**
   * How long it still accepts connections and calls after `/readyz` turned, in ms, so that load balancers
   * notice first. Absent: no time.
   */
  lameDuckMs?: number;
  /** Ends the lame-duck time and the drain when it is aborted: running calls end with an error. */
  cut?: AbortSignal;
};

/** What a drain acts on. */
export type Draining = {
  http: Server;
  relay: Relay;
  replies: OpenReplies;
  sockets: Pick<ResponsesSockets, 'isBusy' | 'drain' | 'close'>;
  log: Logger;
};

/**
 * The lame-duck time: `/readyz` replies 503, everything else is served, and each reply closes its
 * connection, so that clients and load balancers connect elsewhere.
 */
export async function lameDuck(
  { relay, replies, log }: Draining,
  { lameDuckMs = 0, cut }: StopOptions,
): Promise<void> {
  relay.phase = 'lame_duck';
  replies.closeConnections();
  if (lameDuckMs === 0) return;
  log.info({ lame_duck_ms: lameDuckMs }, 'shutdown: not ready; still accepting calls');
  await wait(lameDuckMs, undefined, { signal: cut }).catch(() => undefined);
}

/**
 * The drain: the listener is closed, and calls on open connections are served to their end, also those
 * whose request is still arriving. Connections that the kernel has established are accepted first, and those
 * without a request have FIRST_REQUEST_MS to send one: their clients can't know of the stop. Calls that run
 * after DRAIN_MS, or when `cut` is aborted, end with an error; other replies have OTHER_REPLIES_MS.
 */
export async function drain(
  { http, relay, replies, sockets, log }: Draining,
  { cut }: StopOptions,
): Promise<void> {
  relay.phase = 'draining';
  sockets.drain();
  await acceptRest(http);
  http.close();
  log.info({ running: relay.running.size }, 'shutdown: listener closed; draining');
  const startedMs = performance.now();
  const isOver = async (): Promise<boolean> => {
    // Replies that began before the stop have promised to keep their connections.
    http.closeIdleConnections();
    const connections = await countConnections(http);
    const waitedMs = performance.now() - startedMs;
    if (cut?.aborted === true || waitedMs > DRAIN_MS) return true;
    if (relay.running.size > 0 || replies.calls > 0 || sockets.isBusy) return false;
    if (connections > 0 && waitedMs < FIRST_REQUEST_MS) return false;
    return replies.others === 0 || waitedMs > OTHER_REPLIES_MS;
  };
  while (!(await isOver())) await wait(DRAIN_POLL_MS);
  relay.phase = 'stopped';
  if (relay.running.size > 0) log.warn({ running: relay.running.size }, 'shutdown: running calls are cut');
  for (const call of relay.running.members()) call.fail('shutting_down', 'service_unavailable');
  const cutMs = performance.now();
  while (replies.calls > 0 && performance.now() - cutMs < LAST_BYTES_MS) await wait(DRAIN_POLL_MS);
  await sockets.close();
  http.closeAllConnections();
  log.info('shutdown: connections closed');
}

/**
 * Accepts the connections that wait in the kernel's queue, which closing the listener would reset. A busy
 * event loop may have left many there, and Node accepts some in each turn.
 */
async function acceptRest(http: Server): Promise<void> {
  let accepted = 0;
  const count = (): void => void accepted++;
  http.on('connection', count);
  const endMs = performance.now() + ACCEPT_REST_MS;
  // The first turn may be the one in which the stop was noticed, behind its poll.
  await nextTurn();
  do {
    accepted = 0;
    await nextTurn();
  } while (accepted > 0 && performance.now() < endMs);
  http.off('connection', count);
}

function countConnections(http: Server): Promise<number> {
  return new Promise((resolve) => {
    http.getConnections((_error, count) => resolve(count));
  });
}
