import type { Worker } from 'node:cluster';
import { LAST_MESSAGES_MS } from '#server/process/bounds.ts';

/** What node:cluster sends for a new connection, and the child's word on it. */
type Internal = { cmd?: string; act?: string; seq?: number; ack?: number };
/** The connection itself. */
type Handle = { close(): void };

/**
 * Passes connections on that were handed to a child which died before it took them. Node keeps them
 * open and forgets them, and their clients wait until they lose patience: of 30 children that were
 * killed under load 28 left one behind. For Node it then looks as if the child had declined, and it
 * gives the connection to the next; where there is none the connection is closed. This reads messages of
 * node:cluster that are its own affair; should they change some day, nothing is passed on and
 * test/process/server-cluster.test.ts tells.
 * @param hasOthers whether another child listens.
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
