import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Client } from 'pg';
import { http } from '#db/node-http.ts';
import { presentsToken } from '#db/secrets/presents-token.ts';
import { SCRAPE_HEADER_BYTES_MAX, SCRAPES_MAX } from '#db/telemetry/bounds.ts';
import { ENDPOINT_METRICS, METRICS } from '#db/telemetry/catalogue.ts';
import { gauge, type Sample } from '#db/telemetry/definition.ts';
import { CONTENT_TYPES, formatFor, type Scrape, writeMetrics } from '#db/telemetry/exposition.ts';
import { ServiceMetrics } from '#db/telemetry/service-metrics.ts';

/** A process whose metrics are reported, by its name: `server-1`, `worker`. Null: it did not answer. */
export type ScrapedProcess = { name: string; scrape: () => Promise<Sample[] | null> };

/** Where metrics are served, and the bearer token that they ask for, if any. */
export type MetricsAddress = {
  METRICS_HOST: string;
  METRICS_PORT?: number | undefined;
  METRICS_TOKEN?: string | undefined;
};

export type MetricsEndpoint = { port: number; close(): Promise<void> };

/** The address can't be listened on; the message names the variable. */
export class MetricsAddressError extends Error {
  override name = 'MetricsAddressError';
}

/**
 * Serves `/metrics` on an address of its own: one scrape has the metrics of all processes and of the service.
 * @param connect opens a connection to the database whose statements have a timeout.
 * @param processes those at this moment.
 * @throws {MetricsAddressError}
 */
export async function serveMetrics(
  { METRICS_HOST: host, METRICS_PORT: port = 0, METRICS_TOKEN: token }: MetricsAddress,
  connect: () => Promise<Client>,
  processes: () => readonly ScrapedProcess[],
): Promise<MetricsEndpoint> {
  const service = new ServiceMetrics(connect);
  let running = 0;
  const server = http.createServer({ maxHeaderSize: SCRAPE_HEADER_BYTES_MAX }, (request, response) => {
    request.resume();
    reply(request, response).catch(() => response.destroy());
  });
  async function reply(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refuse = (status: number, text: string, headers: Record<string, string> = {}): void => {
      response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', ...headers });
      response.end(`${text}\n`);
    };
    if (request.url?.split('?', 1)[0] !== '/metrics') return refuse(404, 'The metrics are at /metrics.');
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return refuse(405, 'This route takes GET, HEAD.', { allow: 'GET, HEAD' });
    if (token !== undefined && !presentsToken(request, token))
      return refuse(401, 'Send METRICS_TOKEN as bearer token.', { 'www-authenticate': 'Bearer' });
    if (running >= SCRAPES_MAX) return refuse(503, 'Too many scrapes run. Scrape less often.');
    running++;
    try {
      const format = formatFor(request.headers.accept);
      const text = writeMetrics(METRICS, await collect(service, processes()), format);
      response.writeHead(200, { 'content-type': CONTENT_TYPES[format], 'cache-control': 'no-store' });
      response.end(request.method === 'HEAD' ? undefined : text);
    } finally {
      running--;
    }
  }
  await new Promise<void>((resolve, reject) => {
    server.once('error', ({ code }: NodeJS.ErrnoException) => {
      const isTaken = code === 'EADDRINUSE';
      const variable = isTaken || code === 'EACCES' ? 'METRICS_PORT' : 'METRICS_HOST';
      const why = isTaken ? `another process is listening on ${host}:${port}` : code;
      reject(new MetricsAddressError(`${variable} is not usable: ${why}.`));
    });
    server.listen({ host, port }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      await service.close();
    },
  };
}

async function collect(service: ServiceMetrics, processes: readonly ScrapedProcess[]): Promise<Scrape[]> {
  const [fromDatabase, ...scrapes] = await Promise.all([
    service.read(),
    ...processes.map(async ({ name, scrape }): Promise<Scrape> => {
      const samples = await scrape();
      const isUp = gauge(ENDPOINT_METRICS.processUp, samples === null ? 0 : 1);
      return { process: name, samples: [...(samples ?? []), isUp] };
    }),
  ]);
  return [...scrapes, { process: null, samples: fromDatabase }];
}
