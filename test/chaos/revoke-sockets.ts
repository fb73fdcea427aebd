import path from 'node:path';
import { openRequests } from '../support/faults.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { changeControl, openLog, until, upstreamsVariable } from '../support/relay.ts';
import { openResponses, type ResponsesSocket } from '../support/responses-socket.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import type { Ground } from './ground.ts';
import type { Finding } from './verdict.ts';

export type RevocationVerdict = {
  revocations: number;
  connections: number;
  /** From the request of a revocation to the end of each of its connections, in ms. */
  medianMs: number;
  slowestMs: number;
  /** Connections that ended later than a second after it. */
  late: number;
  violations: Finding[];
};

const SERVERS = 3;
const LONG = 's:tokens=6000,every=10ms';
const LATE_MS = 1_000;
/** How long a test waits, on a machine however busy. */
const ENDS_WITHIN_MS = 60_000;

type Connection = { server: number; isBusy: boolean; client: ResponsesSocket };

/**
 * Revokes keys that have WebSocket connections to `/v1/responses` at three server processes, idle ones and
 * ones with a running response. Each connection ends with the error, and each response is settled once.
 */
export async function revokeSockets(
  { store, url, dataDir }: Ground,
  { n }: { n: number },
): Promise<RevocationVerdict> {
  await using upstream = await startUpstream();
  const directories = [dataDir];
  const servers: ServerProcess[] = [];
  const log = openLog(store);
  try {
    for (let index = 0; index < SERVERS; index++) {
      if (index > 0) directories.push(await makeTestDirectory());
      servers.push(
        await spawnServer({
          DAYBOOK_DATA: directories[index] as string,
          DAYBOOK_PEPPER_FILE: path.join(dataDir, 'pepper'),
          DAYBOOK_MASTER_KEY_FILE: path.join(dataDir, 'master-key'),
          DATABASE_URL: url,
          DAYBOOK_UPSTREAMS: upstreamsVariable([{ baseUrl: upstream.baseUrl, routes: ['/v1/responses'] }]),
          LOG_LEVEL: 'silent',
        }),
      );
    }
    const durations: number[] = [];
    const violations: Finding[] = [];
    for (let round = 0; round < n; round++) {
      const { id, secret } = await changeControl(store, dataDir, (control, pepper) =>
        control.createKey(pepper, { account: 'first', name: `revoked-${round}`, expiresAt: null }),
      );
      const connections = await connectAll(servers, secret);
      const closing = connections.map(async ({ client }) => {
        const end = await client.closed;
        return { ...end, atMs: performance.now() };
      });
      let revokedMs = 0;
      await changeControl(store, dataDir, (control) => {
        revokedMs = performance.now();
        return control.revokeKey(id);
      });
      const ends = await Promise.all(closing);
      for (const [index, { code, reason, atMs }] of ends.entries()) {
        durations.push(atMs - revokedMs);
        const { server, isBusy } = connections[index] as Connection;
        if (code === 1008 && reason === 'api_key_revoked') continue;
        const message = `a connection to server ${server} (busy: ${isBusy}) ended with ${code} ${reason}`;
        violations.push({ rule: 'revocation', request: id, message });
      }
      const events = await until(
        log.read,
        (seen) => openRequests(seen).length === 0,
        'the endings of the responses',
        ENDS_WITHIN_MS,
      );
      const revoked = events.filter(
        ({ event }) =>
          event.type === 'request.settled' && event.key === id && event.end_reason === 'access_revoked',
      );
      if (revoked.length !== SERVERS) {
        const message = `${revoked.length} of ${SERVERS} responses are settled as revoked`;
        violations.push({ rule: 'revocation', request: id, message });
      }
    }
    durations.sort((a, b) => a - b);
    return {
      revocations: n,
      connections: durations.length,
      medianMs: Math.round(durations[durations.length >> 1] ?? 0),
      slowestMs: Math.round(durations.at(-1) ?? 0),
      late: durations.filter((ms) => ms > LATE_MS).length,
      violations,
    };
  } finally {
    await log.close();
    await Promise.all(servers.map((server) => server.stop()));
    for (const directory of directories.slice(1)) await removeTestDirectory(directory);
  }
}

/** An idle connection and one with a running response at each server. */
async function connectAll(servers: readonly ServerProcess[], key: string): Promise<Connection[]> {
  const connections: Connection[] = [];
  for (const [server, { port }] of servers.entries()) {
    // The server may not have read the new key yet.
    const client = await until(
      () => openResponses({ port, key }).catch(() => null),
      (opened) => opened !== null,
      'the key',
    );
    connections.push({ server, isBusy: false, client: client as ResponsesSocket });
    connections.push({ server, isBusy: true, client: await openResponses({ port, key }) });
  }
  for (const { isBusy, client } of connections) {
    if (!isBusy) continue;
    client.create({ model: LONG, input: 'hi' });
    await client.sees((events) => events.some(({ type }) => type.endsWith('.delta')));
  }
  return connections;
}
