import type { Socket } from 'node:net';

/**
 * The client's side of a call: where its reply is written, how fast the client takes it, and when the client
 * has gone. Node's response to an HTTP request is one; so is a reply over a WebSocket.
 */
export type ClientReply = {
  readonly headersSent: boolean;
  readonly statusCode: number;
  /** The client takes no byte any more: it has the whole reply, or has disconnected. */
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  /** The connection has taken the last byte. */
  readonly writableFinished: boolean;
  /** The buffer is full: `drain` follows. */
  readonly writableNeedDrain: boolean;
  /** The connection, as long as it belongs to the reply. */
  readonly socket: Socket | null;
  /** The client may send the body that it holds back. */
  writeContinue(): void;
  writeHead(status: number, headers: string[]): unknown;
  flushHeaders(): void;
  write(bytes: Buffer | string): boolean;
  end(bytes?: Buffer | string): unknown;
  destroy(): unknown;
  on(event: 'close', listener: () => void): unknown;
  once(event: 'close' | 'drain' | 'finish', listener: () => void): unknown;
};
