import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { ClientReply } from '#server/http/client-reply.ts';

/**
 * Resets the connection of a client that doesn't read its reply. Closing it instead would put its end behind
 * the unread bytes, of which the kernel holds some megabytes. As long as the client reads nothing, its side
 * would stay open, and the kernel would keep the bytes.
 */
export function resetConnection(response: Pick<ClientReply, 'socket' | 'destroy'>): void {
  const { socket } = response;
  if (socket && !socket.destroyed) tcpOf(socket).resetAndDestroy();
  response.destroy();
}

/** Node resets only TCP sockets, and names the one below a TLS socket nowhere else. */
function tcpOf(socket: Socket): Socket {
  const below = socket instanceof TLSSocket ? (socket as { _parent?: unknown })['_parent'] : null;
  return (below as Socket | null | undefined) ?? socket;
}
