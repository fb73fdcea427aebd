import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { PIPELINED_MAX } from '#server/http/bounds.ts';
import { closeAfterReplies } from '#server/http/lingering-close.ts';

/** The requests of one connection whose replies have not ended. */
type Connection = {
  unanswered: ServerResponse[];
  /** The newest reply that has not ended, or that closes the connection. */
  newest: ServerResponse | null;
  /** It serves no further request. */
  isClosing: boolean;
  whenAnswered: (() => void) | null;
};

const connections = new WeakMap<Duplex, Connection>();

/**
 * Bounds the pipelined requests of a connection. Node hands out every request that it has parsed, before the
 * replies to earlier ones have ended: without a bound one connection could run any number of calls at once,
 * and a request behind a reply that closes the connection would run although its reply is never sent.
 *
 * @returns `serve`; `refuse` for the first request beyond the bound, whose reply is the connection's last;
 * `ignore` for every request behind a reply that closes the connection.
 */
export function pipelined(
  { socket }: IncomingMessage,
  response: ServerResponse,
): 'serve' | 'refuse' | 'ignore' {
  const connection = connectionOf(socket);
  if (connection.newest?.shouldKeepAlive === false) stopServing(connection, socket);
  if (connection.isClosing) return 'ignore';
  connection.unanswered.push(response);
  connection.newest = response;
  response.on('close', () => {
    const index = connection.unanswered.indexOf(response);
    if (index !== -1) connection.unanswered.splice(index, 1);
    if (connection.newest === response && response.shouldKeepAlive) connection.newest = null;
    if (connection.unanswered.length === 0) connection.whenAnswered?.();
  });
  if (connection.unanswered.length <= PIPELINED_MAX) return 'serve';
  response.shouldKeepAlive = false;
  stopServing(connection, socket);
  return 'refuse';
}

/** Whether an earlier request of this connection waits for the end of its reply. */
export function awaitsReply(socket: Duplex): boolean {
  return (connections.get(socket)?.unanswered.length ?? 0) > 0;
}

/** The one reply of this connection that has not ended, if it is the only one. */
export function onlyReplyOf(socket: Duplex): ServerResponse | 'none' | 'several' {
  const { unanswered, newest = null } = connections.get(socket) ?? {};
  if (!unanswered?.length || newest === null) return 'none';
  return unanswered.length === 1 ? newest : 'several';
}

/** Calls `done` when no request of this connection waits for the end of its reply. */
export function afterReplies(socket: Duplex, done: () => void): void {
  if (awaitsReply(socket)) connectionOf(socket).whenAnswered = done;
  else done();
}

function connectionOf(socket: Duplex): Connection {
  const known = connections.get(socket);
  if (known) return known;
  const connection: Connection = { unanswered: [], newest: null, isClosing: false, whenAnswered: null };
  connections.set(socket, connection);
  socket.on('close', () => setImmediate(closeAll, connection.unanswered));
  return connection;
}

/**
 * Closes the responses of a closed connection that Node has left open: those that waited for the end of
 * others when a CONNECT took the connection from Node's server. Their calls would end by deadlines only.
 */
function closeAll(unanswered: readonly ServerResponse[]): void {
  for (const response of [...unanswered]) {
    response.destroy();
    response.emit('close');
  }
}

function stopServing(connection: Connection, socket: Socket): void {
  if (connection.isClosing) return;
  connection.isClosing = true;
  closeAfterReplies(socket);
}
