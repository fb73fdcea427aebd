import type { Socket } from 'node:net';
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';
import type { Attempt, Ledger } from './ledger.ts';

/** The other side has left, so the rest of the script has no one to play to. */
export class ClientGone extends Error {}

export type OutputFraming = 'chunked' | 'plain';

/** The sending half of one attempt. It counts in the ledger what it hands to the socket. */
export type Output = {
  /** Sends the reply's head and remembers how the body after it is framed. @throws {ClientGone} */
  head(bytes: Buffer, framing: OutputFraming): Promise<void>;
  /** Sends bytes that are no HTTP. @throws {ClientGone} */
  raw(bytes: Buffer): Promise<void>;
  /** Sends one piece of the body, as a chunk of its own when it is chunked. @throws {ClientGone} */
  body(bytes: Buffer): Promise<void>;
  /** Ends the body properly. @throws {ClientGone} */
  endBody(): Promise<void>;
  /** Waits. @throws {ClientGone} as soon as the other side leaves. */
  pause(timeMs: number): Promise<void>;
  /** Waits for as long as the other side stays. @throws {ClientGone} */
  hang(): Promise<never>;
  /** Closes with RST once everything that is sent. */
  reset(): Promise<void>;
};

/** The output of one attempt over its connection; `gone` is aborted when the other side leaves. */
export function createOutput(socket: Socket, gone: AbortSignal, attempt: Attempt, ledger: Ledger): Output {
  let framing: OutputFraming = 'plain';

  async function handOver(...pieces: Buffer[]): Promise<void> {
    if (gone.aborted) throw new ClientGone();
    socket.cork();
    let roomLeft = true;
    for (const piece of pieces) {
      roomLeft = socket.write(piece);
      attempt.bytesSent += piece.length;
    }
    socket.uncork();
    if (!roomLeft) await drained();
  }

  /**
   * Waits until the buffer has drained or the client has left. Bytes already written stay sent; only the next
   * piece has no receiver.
   */
  function drained(): Promise<void> {
    return new Promise((resolve) => {
      const settle = (): void => {
        socket.off('drain', settle);
        gone.removeEventListener('abort', settle);
        resolve();
      };
      socket.once('drain', settle);
      gone.addEventListener('abort', settle);
      if (gone.aborted || !socket.writableNeedDrain) settle();
    });
  }

  return {
    async head(bytes, bodyFraming) {
      framing = bodyFraming;
      await handOver(bytes);
    },
    raw: handOver,
    async body(bytes) {
      if (bytes.length === 0) return;
      if (gone.aborted) throw new ClientGone();
      ledger.keepReply(attempt, bytes);
      attempt.replyBytesSent += bytes.length;
      if (framing === 'plain') await handOver(bytes);
      else await handOver(Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n'));
    },
    async endBody() {
      if (framing === 'chunked') await handOver(Buffer.from('0\r\n\r\n'));
    },
    async pause(timeMs) {
      // Without a pause the event loop still turns once, so that a departure is noticed in between.
      await (timeMs === 0 ? turn() : wait(timeMs, undefined, { signal: gone }).catch(() => undefined));
      if (gone.aborted) throw new ClientGone();
    },
    hang() {
      return new Promise((_, reject) => {
        const leave = (): void => reject(new ClientGone());
        gone.addEventListener('abort', leave, { once: true });
        if (gone.aborted) leave();
      });
    },
    async reset() {
      // An empty write is called back after all writes before it, or when the socket has failed.
      await new Promise<void>((resolve) => {
        socket.write('', () => resolve());
      });
      socket.resetAndDestroy();
    },
  };
}
