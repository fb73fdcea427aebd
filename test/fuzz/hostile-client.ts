import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** What a client does on one connection. */
export type Conversation = {
  /** Pieces to send, one write each; a number is a pause in ms. */
  steps: readonly (Buffer | string | number)[];
  /** How it ends: the client waits for the server to close, half-closes, leaves, or resets. */
  end: 'wait' | 'half-close' | 'leave' | 'reset';
  /** The longest time after the last step. */
  patienceMs: number;
  /** Never reads; what the server sends stays in the buffers of the connection. */
  isDeaf?: boolean;
};

/** Received characters that are kept. */
const KEPT_CHARACTERS_MAX = 256 * 1024;
const TURN_MS = 20;
const TURNS = 5;

/** @returns the received bytes in latin1, and whether the server closed the connection. */
export async function converse(
  port: number,
  { steps, end, patienceMs, isDeaf = false }: Conversation,
): Promise<{ received: string; isClosedByServer: boolean }> {
  let received = '';
  let isClosedByServer = false;
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
  const left = new AbortController();
  const closed = Promise.withResolvers<void>();
  socket.on('error', () => (isClosedByServer = true));
  socket.on('close', () => closed.resolve());
  socket.on('end', () => {
    isClosedByServer = true;
    socket.end();
  });
  if (isDeaf) socket.pause();
  else
    socket.on('data', (bytes: Buffer) => {
      if (received.length < KEPT_CHARACTERS_MAX) received += bytes.toString('latin1');
    });
  for (const step of steps) {
    if (socket.destroyed) break;
    if (typeof step === 'number') await Promise.race([wait(step), closed.promise]);
    else await written(socket, step, patienceMs);
  }
  if (end === 'half-close') socket.end();
  if (end !== 'reset' && end !== 'leave') {
    await Promise.race([
      closed.promise,
      wait(patienceMs, undefined, { signal: left.signal }).catch(() => undefined),
    ]);
    left.abort();
    // On a busy machine the end may have arrived behind the timer.
    for (let turn = 0; turn < TURNS && !socket.destroyed; turn++) await wait(TURN_MS);
    socket.destroy();
    await closed.promise;
  } else {
    await Promise.race([wait(patienceMs), closed.promise]);
    if (end === 'reset') socket.resetAndDestroy();
    else socket.destroy();
    await closed.promise;
  }
  return { received, isClosedByServer };
}

/** Writes, and waits until the kernel has taken it, or not for longer than this. */
async function written(socket: Socket, bytes: Buffer | string, patienceMs: number): Promise<void> {
  const done = Promise.withResolvers<void>();
  const timer = setTimeout(done.resolve, patienceMs);
  socket.write(bytes, 'latin1', () => done.resolve());
  await done.promise;
  clearTimeout(timer);
}
