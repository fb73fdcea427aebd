import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import type { Store } from '#db/postgres/connect.ts';
import { readSinks } from '#db/spend/sink-status.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { SinkControl } from '#server/spend/sinks.ts';
import { withControl } from '#server/control/control.ts';
import { startFlakyReceiver } from '../spend/flaky-receiver.ts';
import { chat } from '../support/client.ts';
import { openSession } from '../support/database.ts';
import { accepted, openLivingWriter, readLog, settled } from '../support/log/log-writer.ts';
import { until, upstreamsVariable } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { spawnWorker } from '../support/servers/worker-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import type { Ground } from './ground.ts';
import { type Random, randomFrom } from './random.ts';
import type { Finding } from './verdict.ts';

/** What the run found; `violations` is empty when the promises held. */
export type SpendVerdict = {
  kills: { worker: number; server: number; postgres: number };
  calls: number;
  /** Spend events in the log, and those that the receiver was sent once more. */
  events: number;
  repeated: number;
  batches: number;
  cost_nanousd: string;
  violations: Finding[];
};

const WORKERS = 2;
const CALLERS = 4;
const MODEL = 's:tokens=10,every=1ms';
const CALL_TIMEOUT_MS = 20_000;
const DELIVERED_WITHIN_MS = 180_000;
const RECOVERED_WITHIN_MS = 60_000;
const SINK = 'receiver';

/**
 * Kills workers, servers and PostgreSQL with SIGKILL in turn, at random moments, while a receiver fails at
 * random, and lets the receiver be down for a part of the run. In the end the receiver has each spend event
 * of the log once by its id, and its sums are the log's.
 */
export async function killSpend(
  { store, url, dataDir }: Ground,
  { n, seed }: { n: number; seed: number },
): Promise<SpendVerdict> {
  await using cleanup = new AsyncDisposableStack();
  const random = randomFrom(seed);
  const secret = createWebhookSecret();
  const receiver = cleanup.use(await startFlakyReceiver(random, secret));
  const upstream = cleanup.use(await startUpstream());
  const env = {
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_WORKER: 'off',
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  };
  let server = await spawnServer(env);
  const key = server.firstKey as string;
  cleanup.defer(async () => void (await server.stop()));
  const workers = Array.from({ length: WORKERS }, () => spawnWorker(env));
  cleanup.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))));
  await changeSinks(store, async (sinks, pepper) => {
    const config = { kind: 'webhook', url: receiver.url, secret, allow_private: true } as const;
    await sinks.configure(pepper, { name: SINK, config, account: null, after: 0 });
  });

  let calls = 0;
  const ending = new AbortController();
  async function caller(): Promise<void> {
    const body = { model: MODEL, stream: true, messages: [{ role: 'user', content: 'hi' }] };
    while (!ending.signal.aborted) {
      calls++;
      // A call that a kill has cut is the log's business.
      await chat({ port: server.port, key, body, timeoutMs: CALL_TIMEOUT_MS }).catch(() => undefined);
      await wait(20);
    }
  }
  const load = [...Array.from({ length: CALLERS }, caller), write(store, random, ending.signal)];

  const kills = { worker: 0, server: 0, postgres: 0 };
  for (let kill = 0; kill < n; kill++) {
    // The receiver is down for the second quarter of the run.
    receiver.isDown = kill >= n / 4 && kill < n / 2;
    await wait(200 + random.below(1_500));
    const target = (['worker', 'server', 'worker', 'postgres'] as const)[kill % 4] ?? 'worker';
    kills[target]++;
    if (target === 'worker') {
      const victim = random.below(WORKERS);
      await workers[victim]?.kill();
      workers[victim] = spawnWorker(env);
    } else if (target === 'server') {
      await server.kill();
      server = await spawnServer(env);
    } else {
      process.kill(postmasterOf(dataDir), 'SIGKILL');
      await untilReachable(store);
    }
    // Workers end where they can't reach the database at their start.
    await restartEnded(workers, env);
  }
  receiver.isDown = false;
  ending.abort();
  await Promise.all(load);
  await server.stop();

  const client = await openSession(store.config('relay'));
  cleanup.defer(() => client.end());
  await until(
    async () => {
      await restartEnded(workers, env);
      // What an operator does after an outage, in place of waiting for the end of the backoff.
      await client.query('update daybook.sink set retry_at = null where retry_at > clock_timestamp()');
      return (await readSinks(client))[0]?.behind;
    },
    (behind) => behind === 0,
    'the sink',
    DELIVERED_WITHIN_MS,
  );
  const spent = (await readLog(store)).filter(isSpend);
  const violations = [...receiver.faults.map(violation), ...compare(spent, receiver.taken)];
  return {
    kills,
    calls,
    events: spent.length,
    repeated: receiver.repeated,
    batches: receiver.batches,
    cost_nanousd: String(spent.reduce((sum, { event }) => sum + costOf(event), 0n)),
    violations,
  };

  async function changeSinks(
    on: Store,
    work: (sinks: SinkControl, pepper: Buffer) => Promise<void>,
  ): Promise<void> {
    await withControl(on, 'test', async (control, connection) =>
      work(
        new SinkControl(control, connection),
        await loadPepper(connection, { DAYBOOK_DATA: dataDir, DAYBOOK_PEPPER_FILE: undefined }),
      ),
    );
  }
}

type Spent = EventOf<'request.settled' | 'request.abandoned' | 'usage.adjusted' | 'account.topped_up'>;
const isSpend = (placed: Placed): placed is Placed<Spent> =>
  ['request.settled', 'request.abandoned', 'usage.adjusted', 'account.topped_up'].includes(placed.event.type);

function costOf(event: Spent): bigint {
  if (event.type === 'account.topped_up') return 0n;
  return BigInt((event.type === 'request.abandoned' ? event.hold_cost_nanousd : event.cost_nanousd) ?? 0);
}

const violation = (message: string): Finding => ({ rule: 'spend', request: '', message });

/** The receiver's events against the log's, one by one and in their sums. */
function compare(
  spent: readonly Placed<Spent>[],
  taken: ReadonlyMap<string, { cost_nanousd?: number }>,
): Finding[] {
  const found: Finding[] = [];
  for (const { shard, position, event } of spent) {
    const received = taken.get(`${shard}-${position}`);
    if (received === undefined) found.push(violation(`the event at position ${position} is missing`));
    else if (BigInt(received.cost_nanousd ?? 0) !== costOf(event))
      found.push(violation(`the event at position ${position} has another cost`));
  }
  if (taken.size !== spent.length)
    found.push(violation(`${taken.size} events were received, and the log has ${spent.length}`));
  const received = [...taken.values()].reduce((sum, event) => sum + BigInt(event.cost_nanousd ?? 0), 0n);
  const logged = spent.reduce((sum, { event }) => sum + costOf(event), 0n);
  if (received !== logged) found.push(violation(`${received} n$ were received, and the log has ${logged}`));
  return found;
}

const postmasterOf = (dataDir: string): number =>
  Number(readFileSync(path.join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n', 1)[0]);

async function untilReachable(store: Store): Promise<void> {
  const look = async (): Promise<boolean> => {
    try {
      await (await openSession(store.config('auditor'))).end();
      return true;
    } catch {
      return false;
    }
  };
  await until(look, (isUp) => isUp, 'PostgreSQL', RECOVERED_WITHIN_MS);
}

async function restartEnded(
  workers: ReturnType<typeof spawnWorker>[],
  env: Record<string, string>,
): Promise<void> {
  for (const [index, worker] of workers.entries()) {
    try {
      process.kill(worker.pid, 0);
    } catch {
      workers[index] = spawnWorker(env);
    }
  }
}

/** Appends calls with costs and corrections of some, over whatever connection there is, until aborted. */
async function write(store: Store, random: Random, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await using writer = await openLivingWriter(store);
      writer.client.on('error', () => undefined);
      while (!signal.aborted) {
        const begun = Array.from({ length: 1 + random.below(40) }, () => accepted());
        const ended = begun.map((call) => settled(call, { cost_nanousd: random.below(1_000_000) }));
        await writer.append([...begun, ...ended]);
        await writer.correct(ended.slice(0, 2).map((call) => correctionOf(call, random)));
        await wait(50);
      }
    } catch {
      // PostgreSQL was killed. Whether the last batch is in the log is for the log to say.
      await wait(100);
    }
  }
}

function correctionOf(
  { request, account, key, model, end_reason }: EventOf<'request.settled'>,
  random: Random,
): EventOf<'usage.adjusted'> {
  return {
    type: 'usage.adjusted',
    ...{ request, account, key, model, end_reason },
    cost_nanousd: random.below(2_000) - 1_000,
    reference: 'bill-1',
    reason: 'provider bill',
    adjusted_by: 'test',
  };
}
