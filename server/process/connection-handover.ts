import type { Worker } from 'node:cluster';
import { LAST_MESSAGES_MS } from '#server/process/bounds.ts';

/** The message of node:cluster for a new connection, and the child's acknowledgment. */
type Internal = { cmd?: string; act?: string; seq?: number; ack?: number };
/** The connection itself. */
type Handle = { close(): void };

/**
 * Passes on connections that were handed to a child which died before it accepted them. Node keeps such
 * connections open and never handles them, so their clients wait until they time out: of 30 children killed
 * under load, 28 left one behind. This makes Node believe that the child declined the connection, so that it
 * gives the connection to the next child; if no child is left, the connection is closed. The messages of
 * node:cluster that this reads are internal. If they change, connections are no longer passed on and
 * test/process/server-cluster.test.ts fails.
 * @param hasOthers whether another child is listening.
 */
export function passOnConnections(
  { process: child }: Pick<Worker, 'process'>,
  hasOthers: () => boolean,
): void {
  const waiting = new Map<number, Handle | undefined>();
  const send = child.send.bind(child) as (...all: unknown[]) => boolean;
  child.send = (message: Internal, ...more: unknown[]) => {
    if (message?.cmd === 'NODE_CLUSTER' && message.act === 'newconn' && message.seq !== undefined)
      waiting.set(message.seq, more[0] as Handle | undefined);
    return send(message, ...more);
  };
  child.on('internalMessage', ({ ack }: Internal) => {
    if (ack !== undefined) waiting.delete(ack);
  });
  child.once('exit', () => {
    setTimeout(() => {
      for (const [ack, handle] of [...waiting]) {
        if (hasOthers()) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: false });
        else handle?.close();
      }
    }, LAST_MESSAGES_MS);
  });
}
