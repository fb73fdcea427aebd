import { setTimeout as wait } from 'node:timers/promises';
import { connectEmbedded } from '#db/postgres/embedded/embedded.ts';
import type { Placed } from '#db/events/events.ts';
import { chat } from '../support/client.ts';
import { type ClientRow, checkIdentity } from '../support/identity/identity.ts';
import { makeClusterDirectory } from '../support/cluster-copy.ts';
import { removeTestDirectory } from '../support/directory.ts';
import { openLog, until, upstreamsVariable } from '../support/relay.ts';
import { miscounted } from '../support/telemetry/compare-with-log.ts';
import { metricsPortOf, scrape, sumOf } from '../support/telemetry/scrape.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { checkDiff } from './audit-diff.ts';
import { randomFrom } from './random.ts';
import type { Finding } from './verdict.ts';

/** What the run found; `violations` is empty when the promises held. */
export type KillVerdict = {
  kills: number;
  calls: number;
  cutCalls: number;
  abandoned: number;
  /** Between the tables and a replay of the log, as `daybook audit diff` counts them. */
  differences: number;
  violations: Finding[];
  /** From the start of the process to its first ready answer, after each kill. */
  readyMs: { p50: number; max: number };
};

/** Replies of all kinds, most of them long enough to be in the middle when the kill comes. */
const MODELS = [
  's:tokens=40,every=5ms',
  's:tokens=200,every=3ms,usage=always',
  's:tokens=15,every=20ms,split=random',
  's:tokens=30,head=60ms',
  's:tokens=400,batch=10,every=2ms',
];
const CALL_TIMEOUT_MS = 20_000;
const RECOVERED_WITHIN_MS = 60_000;
const COUNTED_LOOKS_MAX = 50;

/**
 * Kills the server with SIGKILL at random moments under `streams` concurrent calls, starts it
 * again on the same data each time, and at the end compares upstream, log and clients, and the tables
 * with the log: P1, P2, P3, P5. The counters of the last server are compared with the log, too.
 */
export async function killServer(options: {
  kills: number;
  streams: number;
  seed: number;
  /** Whether the servers that are killed have workers; the last one has. */
  workers?: boolean;
}): Promise<KillVerdict> {
  const { kills, streams, seed, workers = true } = options;
  const random = randomFrom(seed);
  const dataDir = await makeClusterDirectory();
  await using upstream = await startUpstream();
  const start = (isLast: boolean): Promise<ServerProcess> =>
    spawnServer({
      DAYBOOK_DATA: dataDir,
      DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
      DAYBOOK_WORKER: workers || isLast ? 'on' : 'off',
      LOG_LEVEL: 'info',
      METRICS_PORT: '0',
    });
  const clients: ClientRow[] = [];
  const readyMs: number[] = [];
  let calls = 0;

  let server: ServerProcess = await start(false);
  const key = server.firstKey;
  if (key === null) throw new Error('the first start printed no key');

  /** Calls again and again until told to end; what it saw goes to `clients`. */
  async function caller(port: number, ended: () => boolean): Promise<void> {
    while (!ended()) {
      const model = MODELS[random.below(MODELS.length)] as string;
      const body = {
        model,
        user: `call-${++calls}`,
        stream: random.below(4) > 0,
        messages: [{ role: 'user', content: 'hi' }],
      };
      const row = await chat({ port, key: key as string, body, timeoutMs: CALL_TIMEOUT_MS });
      clients.push(row);
      // A refused connection returns at once: the server is gone.
      if (row.status === null) await wait(5);
    }
  }

  /** Calls until a moment of the caller's choice, which ends with whatever it does. */
  async function load(end: () => Promise<void>): Promise<void> {
    const { port } = server;
    let ended = false;
    const callers = Array.from({ length: streams }, () => caller(port, () => ended));
    // However busy the machine is, there are calls to kill.
    const before = upstream.ledger.attempts.length;
    await upstream.ledger.until(() => upstream.ledger.attempts.length > before);
    await wait(20 + random.below(700));
    ended = true;
    await end();
    await Promise.all(callers);
  }

  for (let kill = 0; kill < kills; kill++) {
    await load(() => server.kill());
    server = await start(kill === kills - 1);
    readyMs.push(server.readyMs);
  }
  // These end, so that the counters of a process can be compared with the log.
  await load(() => Promise.resolve());

  const store = await connectEmbedded(dataDir);
  if (!store) throw new Error('PostgreSQL is not running');
  const log = openLog(store);
  const events = await until(log.read, allEnded, 'the last request left open', RECOVERED_WITHIN_MS);
  const counts = await miscounts(server, events);
  await log.close();
  const diff = await checkDiff(store, dataDir);
  await server.stop();
  await removeTestDirectory(dataDir);

  const { violations } = checkIdentity({
    ledger: upstream.ledger.attempts,
    events,
    clients,
    accounting: 'strict',
  });
  const sorted = readyMs.toSorted((left, right) => left - right);
  return {
    kills,
    calls,
    cutCalls: clients.filter(({ status, finished }) => status === 200 && !finished).length,
    abandoned: events.filter(({ event }) => event.type === 'request.abandoned').length,
    differences: diff.differences,
    violations: [...violations, ...counts, ...diff.violations],
    readyMs: {
      p50: Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0),
      max: Math.round(sorted.at(-1) ?? 0),
    },
  };
}

/** The counters of a server that runs must be the events of its instance, once it has read their commits. */
async function miscounts(server: ServerProcess, events: readonly Placed[]): Promise<Finding[]> {
  const port = metricsPortOf(server.output());
  let values = await scrape(port);
  for (let looks = 0; looks < COUNTED_LOOKS_MAX && miscounted(values, events).length > 0; looks++) {
    await wait(100);
    values = await scrape(port);
  }
  if (sumOf(values, 'daybook_requests_accepted_total') === 0)
    return [{ rule: 'metrics', request: '', message: 'nothing was counted' }];
  return miscounted(values, events).map(({ process, counted, logged }) => ({
    rule: 'metrics',
    request: process,
    message: `counted ${JSON.stringify(counted)}, but the log has ${JSON.stringify(logged)}`,
  }));
}

function allEnded(events: readonly Placed[]): boolean {
  const open = new Set<string>();
  for (const { event } of events) {
    if (event.type === 'request.accepted') open.add(event.request);
    else if (event.type === 'request.settled' || event.type === 'request.abandoned')
      open.delete(event.request);
  }
  return open.size === 0;
}
