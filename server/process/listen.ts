import { createServer, type Server } from 'node:net';
import type { AddressInfo } from 'node:net';
import { LISTEN_BACKLOG } from '#server/http/bounds.ts';
import { type Config, ConfigError } from '#server/process/config.ts';

type Address = Pick<Config, 'HOST' | 'PORT'>;

/**
 * Listens on the configured address.
 * @returns the port.
 * @throws {ConfigError} naming the variable that can't be used.
 */
export function listen(server: Server, { HOST, PORT }: Address): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === 'EADDRINUSE';
      const why = isTaken
        ? `another process is listening on ${HOST}:${PORT}; stop it, or set PORT`
        : error.code;
      const variable = isTaken || error.code === 'EACCES' ? 'PORT' : 'HOST';
      reject(new ConfigError(`${variable} is not usable: ${why}.`));
    });
    server.listen({ port: PORT, host: HOST, backlog: LISTEN_BACKLOG }, () => {
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/**
 * Checks that the address can be listened on, before a database is started for it. Until the server is
 * ready the port is not kept: connections must be refused, so that load balancers send them elsewhere.
 * @throws {ConfigError} as {@link listen} does.
 */
export async function requireFreeAddress(address: Address): Promise<void> {
  const server = createServer();
  await listen(server, address);
  await new Promise((resolve) => server.close(resolve));
}
