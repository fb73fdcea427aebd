import type { IncomingMessage } from 'node:http';
import { Agent } from 'node:https';
import { startNameServer } from '../servers/name-server.ts';
import { type BalancedRequest, startBalancer } from './balancer.ts';
import { startFront } from './front.ts';

/** What stands before the relays of a run: the tests' own balancer, or HAProxy with deploy/haproxy.cfg. */
export type Entry = AsyncDisposable & {
  /** Sends a request. Resolves with the head of the reply. @throws as the socket does. */
  send(request: BalancedRequest): Promise<IncomingMessage>;
  /** How many relays get calls at the moment. */
  countUp(): number;
  /** What its health checks and failed exchanges reported last. */
  describe(): string[];
  /** How many times a request went to another relay because the first refused the connection. */
  retries(): number;
};

/** The tests' own balancer before relays at these origins. */
export async function balancerEntry(origins: readonly URL[], checkMs: number): Promise<Entry> {
  const balancer = await startBalancer(origins, checkMs);
  return {
    send: balancer.send,
    countUp: balancer.countUp,
    describe: balancer.checks,
    retries: () => balancer.retries,
    [Symbol.asyncDispose]: () => balancer[Symbol.asyncDispose](),
  };
}

/** In a line of HAProxy's log: `%ac/%fc/%bc/%sc/%rc` of the log format, of which the last is the retries. */
const RETRIES = / \d+\/\d+\/\d+\/\d+\/\+?(\d+) /;
const STATE = /^Server servers\/(\w+)(?: \('\w+'\))? is (UP|DOWN|going DOWN)/;
const LINES_SHOWN = 20;

/**
 * HAProxy before relays on these addresses and one port. A client's connections to it are kept; its own to
 * the relays are not.
 * @param directory for its configuration and certificate.
 */
export async function haproxyEntry(
  directory: string,
  addresses: readonly string[],
  port: number,
): Promise<Entry> {
  const names = await startNameServer([...addresses]);
  const front = await startFront(directory, names.port, port);
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  const lines = (): string[] => front.output().split('\n');
  return {
    send: (request) => front.send({ ...request, agent }),
    countUp() {
      const states = lines().map((line) => STATE.exec(line) ?? []);
      const last = new Map(states.map(([, server, state]) => [server, state]));
      return [...last.values()].filter((state) => state === 'UP').length;
    },
    describe: () => lines().slice(-LINES_SHOWN),
    retries: () => lines().reduce((sum, line) => sum + Number(RETRIES.exec(line)?.[1] ?? 0), 0),
    async [Symbol.asyncDispose]() {
      agent.destroy();
      await front[Symbol.asyncDispose]();
      await names[Symbol.asyncDispose]();
    },
  };
}
