import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { AS_OPERATOR } from '../servers/operator.ts';

/**
 * A load balancer with the settings of deploy/haproxy.cfg that decide what a restart costs: `check inter 1s
 * fall 2 rise 1` and `timeout check 3s` on /readyz, least connections, and retries at another server only
 * where the connection failed. It is stricter in one point: it keeps its connections and reuses them
 * (HAProxy's `http-reuse never` does not), so that a server that closes them under it is seen.
 */
export type Balancer = AsyncDisposable & {
  /**
   * Sends a request to a server that is up. Resolves with the head of the reply. @throws as the socket
   * does.
   */
  send(options: BalancedRequest): Promise<IncomingMessage>;
  /** How many servers are up at the moment. */
  countUp(): number;
  /** What the last health check of each server found, for the message of a wait that ends in vain. */
  checks(): string[];
  /** How many times a request went to another server because the first refused the connection. */
  readonly retries: number;
};

export type BalancedRequest = {
  path: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
};

const FALL = 2;
const RETRIES_MAX = 3;
/** `timeout check`: a relay that replies late is busy, and one that is not ready replies so at once. */
const CHECK_TIMEOUT_MS = 3_000;

type Server = {
  origin: URL;
  agent: Agent;
  failures: number;
  isUp: boolean;
  running: number;
  lastCheck: string;
};

/** Starts the health checks of the servers at these origins. */
export async function startBalancer(origins: readonly URL[], checkMs: number): Promise<Balancer> {
  const servers: Server[] = origins.map((origin) => ({
    origin,
    agent: new Agent({ keepAlive: true }),
    failures: FALL,
    isUp: false,
    running: 0,
    lastCheck: 'none',
  }));
  const closing = new AbortController();
  const checking = servers.map(async (server) => {
    while (!closing.signal.aborted) {
      const check = await checkReady(server.origin);
      const { isReady } = check;
      server.lastCheck = check.found;
      server.failures = isReady ? 0 : server.failures + 1;
      if (isReady) server.isUp = true;
      else if (server.failures >= FALL) server.isUp = false;
      await wait(checkMs, undefined, { signal: closing.signal }).catch(() => undefined);
    }
  });

  const checks = (): string[] => servers.map(({ origin, lastCheck }) => `${origin.host}: ${lastCheck}`);
  let retries = 0;
  async function send(options: BalancedRequest): Promise<IncomingMessage> {
    const refusedBy = new Set<Server>();
    for (;;) {
      const candidates = servers.filter((server) => server.isUp && !refusedBy.has(server));
      const server = candidates.toSorted((left, right) => left.running - right.running)[0];
      if (server === undefined) throw new Error(`no server is up: ${checks().join('; ')}`);
      server.running++;
      try {
        const reply = await exchange(server, options);
        reply.once('close', () => server.running--);
        return reply;
      } catch (error) {
        server.running--;
        const { syscall } = error as NodeJS.ErrnoException;
        if (syscall !== 'connect' || refusedBy.size >= RETRIES_MAX) throw error;
        refusedBy.add(server);
        retries++;
      }
    }
  }

  return {
    send,
    countUp: () => servers.filter(({ isUp }) => isUp).length,
    checks,
    get retries() {
      return retries;
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      await Promise.all(checking);
      for (const { agent } of servers) agent.destroy();
    },
  };
}

/** Asks as the operator, so that a server that is not ready says why. */
async function checkReady(origin: URL): Promise<{ isReady: boolean; found: string }> {
  const startedMs = performance.now();
  const after = (): string => `after ${Math.round(performance.now() - startedMs)} ms`;
  try {
    const reply = await fetch(new URL('/readyz', origin), {
      headers: { connection: 'close', ...AS_OPERATOR },
      signal: AbortSignal.timeout(CHECK_TIMEOUT_MS),
    });
    const text = await reply.text();
    return { isReady: reply.ok, found: `${reply.status} ${text} ${after()}` };
  } catch (error) {
    return { isReady: false, found: `${String((error as Error).cause ?? error)} ${after()}` };
  }
}

function exchange(
  { origin: { hostname: host, port }, agent }: Server,
  { path, method = 'GET', headers, body }: BalancedRequest,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent: ClientRequest = request({ host, port, path, method, headers, agent }, resolve);
    sent.once('error', reject);
    sent.end(body);
  });
}
