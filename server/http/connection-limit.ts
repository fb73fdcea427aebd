import type { Server } from 'node:http';
import type { RequestLog } from '#server/diagnostics/request-log.ts';
import { CONNECTIONS_MAX } from '#server/http/bounds.ts';

/** Bounds the connections of a server: further ones are closed when they are accepted, and reported. */
export function limitConnections(
  server: Server,
  log: Pick<RequestLog, 'failed'>,
  max: number = CONNECTIONS_MAX,
): void {
  server.maxConnections = max;
  server.on('drop', () =>
    log.failed(() => ({ connections: max }), 'connection dropped: too many connections'),
  );
}
