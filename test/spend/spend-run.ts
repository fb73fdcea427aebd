import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Client } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import type { Store } from '#db/postgres/connect.ts';
import type { SinkConfig } from '#db/spend/sink-config.ts';
import { type SpendEvent, spendEventOf } from '#db/spend/spend-event.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { SinkControl } from '#server/spend/sinks.ts';
import { withControl } from '#server/control/control.ts';
import { chat } from '../support/client.ts';
import { openSession } from '../support/database.ts';
import { accepted, openLivingWriter, readLog, settled } from '../support/log/log-writer.ts';
import { until, upstreamsVariable } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { spawnWorker } from '../support/servers/worker-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import type { Ground } from '../chaos/ground.ts';
import type { Random } from '../chaos/random.ts';
import { RetryClock } from './retry-clock.ts';

/** Calls, corrections and kills around one sink, whatever its receiver. */

export type Victim = 'worker' | 'server' | 'postgres' | 'receiver';

/** The receiver of a run. */
export type RunReceiver = {
  config: SinkConfig;
  /** Kills its process and starts it again; absent where it has none. */
  kill?: () => Promise<void>;
  /** Begins and ends its outage. */
  setDown: (isDown: boolean) => Promise<void>;
};

export type SpendRunOptions = {
  random: Random;
  victims: readonly Victim[];
  /**
   * How long the receiver is down, by the clock of the sink's retries; see `retry-clock.ts`. Four fifths of
   * the kills are spread over it, and the load is light. 0: for as long as half of the kills take. null: no
   * outage.
   */
  outageMs: number | null;
};

export type SpendRun = {
  kills: Partial<Record<Victim, number>>;
  calls: number;
  /** The spend events of the log. */
  events: SpendEvent[];
  /** How long the receiver was down by the clock of the retries, and the failed deliveries of the outage. */
  outageS: number | null;
  failures: number;
  /** How long after it the sink had acknowledged all events, in s. */
  caughtUpS: number | null;
  /** The alerts of the sink's failure, in their order. */
  alerts: string[];
};

const SINK = 'receiver';
const WORKERS = 2;
const CALLERS = 4;
const MODEL = 's:tokens=10,every=1ms';
const ACCOUNTS = ['Account1', 'Account2', 'Account3'];
const CALL_TIMEOUT_MS = 20_000;
const RECOVERED_WITHIN_MS = 180_000;
/** A start that finds no database, or takes too long on a busy machine, is repeated as an operator would. */
const STARTS_MAX = 10;
const DELIVERED_WITHIN_MS = 180_000;
/** The events of a long outage. */
const DELIVERED_LATE_WITHIN_MS = 600_000;
/** An outage of this length raises an alert, whatever restarts meanwhile. */
export const ALERTED_OUTAGE_MS = 600_000;
/** The worker looks once a minute whether a sink fails, or has recovered. */
const ALERTED_WITHIN_MS = 180_000;
/** Between batches of calls, and between the calls of a client. */
const PAUSES_MS = { heavy: { batch: 50, call: 20 }, light: { batch: 250, call: 100 } } as const;

/**
 * Kills the victims with SIGKILL, one after the other at random moments, and starts each again, while calls
 * are made, and priced requests are recorded and corrected; then waits until the sink has acknowledged all of
 * the log.
 */
export async function runAroundSink(
  { store, url, dataDir }: Ground,
  receiver: RunReceiver,
  { random, victims, outageMs }: SpendRunOptions,
): Promise<SpendRun> {
  await using cleanup = new AsyncDisposableStack();
  const upstream = cleanup.use(await startUpstream());
  const env = {
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_WORKER: 'off',
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  };
  let server = await startServer(env);
  cleanup.defer(async () => void (await server.stop()));
  const workers = Array.from({ length: WORKERS }, () => spawnWorker(env));
  cleanup.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))));
  const key = await withControl(store, 'test', async (control, connection) => {
    const pepper = await loadPepper(connection, { DAYBOOK_DATA: dataDir, DAYBOOK_PEPPER_FILE: undefined });
    const wanted = { name: SINK, config: receiver.config, account: null, after: 0 };
    await new SinkControl(control, connection).configure(pepper, wanted);
    await control.createAccount('callers');
    const made = await control.createKey(pepper, { account: 'callers', name: 'key', expiresAt: null });
    return made.secret;
  });

  const pauses = PAUSES_MS[outageMs === null || outageMs === 0 ? 'heavy' : 'light'];
  let calls = 0;
  const ending = new AbortController();
  async function caller(): Promise<void> {
    const body = { model: MODEL, stream: true, messages: [{ role: 'user', content: 'hi' }] };
    while (!ending.signal.aborted) {
      calls++;
      // A call that a kill has cut is the log's business.
      await chat({ port: server.port, key, body, timeoutMs: CALL_TIMEOUT_MS }).catch(() => undefined);
      await wait(pauses.call);
    }
  }
  const load = [
    ...Array.from({ length: CALLERS }, caller),
    record(store, { random, pauseMs: pauses.batch, signal: ending.signal }),
  ];

  async function kill(victim: Victim): Promise<void> {
    switch (victim) {
      case 'worker': {
        const index = random.below(WORKERS);
        await workers[index]?.kill();
        workers[index] = spawnWorker(env);
        break;
      }
      case 'server':
        await server.kill();
        server = await startServer(env);
        break;
      case 'postgres':
        process.kill(postmasterOf(dataDir), 'SIGKILL');
        await untilReachable(store);
        break;
      case 'receiver':
        await receiver.kill?.();
    }
    // Workers end where they can't reach the database at their start.
    await restartEnded(workers, env);
  }

  const kills: SpendRun['kills'] = {};
  const isLong = outageMs !== null && outageMs > 0;
  const margin = victims.length * (isLong ? 0.1 : 0.25);
  const [from, to] = [Math.ceil(margin), Math.floor(victims.length - margin)];
  const clock = new RetryClock(store);
  let outageS: number | null = null;
  let failures = 0;
  let upAtMs: number | null = null;
  const end = async (): Promise<void> => {
    if (isLong) await clock.passUntil(outageMs);
    if (isLong && outageMs >= ALERTED_OUTAGE_MS) await untilRaised(store);
    outageS = Math.round(clock.elapsedMs / 1_000);
    failures = await clock.failures();
    await receiver.setDown(false);
    upAtMs = performance.now();
  };
  for (const [index, planned] of victims.entries()) {
    if (outageMs !== null && index === from) {
      await receiver.setDown(true);
      clock.start();
    }
    if (outageMs !== null && index === to) await end();
    const isDown = outageMs !== null && index >= from && index < to;
    if (isDown && isLong) await clock.passUntil((outageMs * (index - from)) / (to - from));
    await wait(random.below(1_700));
    // A receiver that is down has no process to kill.
    const victim = isDown && planned === 'receiver' ? 'worker' : planned;
    kills[victim] = (kills[victim] ?? 0) + 1;
    await kill(victim);
  }
  if (outageMs !== null && upAtMs === null) await end();
  ending.abort();
  await Promise.all(load);
  await server.stop();

  const client = await openSession(store.config('owner'));
  cleanup.defer(() => client.end());
  await until(
    async () => {
      await restartEnded(workers, env);
      await clock.skipPause();
      return isDelivered(client);
    },
    (is) => is,
    'the delivery of all events',
    isLong ? DELIVERED_LATE_WITHIN_MS : DELIVERED_WITHIN_MS,
  );
  const deliveredAtMs = performance.now();
  const alerts = await until(
    () => readAlerts(client),
    (states) => !isLong || states.at(-1) !== 'raised',
    'the recovery of the alert',
    ALERTED_WITHIN_MS,
  );
  const s = (fromMs: number, toMs: number): number => Math.round((toMs - fromMs) / 100) / 10;
  return {
    kills,
    calls,
    events: (await readLog(store)).flatMap((placed) => spendEventOf(placed, 1) ?? []),
    outageS,
    failures,
    caughtUpS: upAtMs === null ? null : s(upAtMs, deliveredAtMs),
    alerts,
  };
}

async function startServer(env: Record<string, string>): ReturnType<typeof spawnServer> {
  for (let start = 1; ; start++) {
    try {
      return await spawnServer(env);
    } catch (error) {
      if (start === STARTS_MAX) throw error;
    }
  }
}

/** Whether the sink has all of the log, and no instance can append to it any more. */
async function isDelivered(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ is_delivered: boolean }>(
    `select position = daybook.head(0::int2) and not exists (select from daybook.instance
        where closed_at is null and name not like 'worker %') as is_delivered
      from daybook.sink`,
  );
  return rows[0]?.is_delivered === true;
}

/** The worker's look once a minute is in real time. A missing alert is for the verdict to report. */
async function untilRaised(store: Store): Promise<void> {
  const deadlineMs = performance.now() + ALERTED_WITHIN_MS;
  while (performance.now() < deadlineMs) {
    const client = await openSession(store.config('owner'));
    try {
      if ((await readAlerts(client)).at(-1) === 'raised') return;
    } finally {
      await client.end();
    }
    await wait(500);
  }
}

async function readAlerts(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ state: string }>(
    `select state from daybook.alert where kind = 'sink_failing' order by ordinal`,
  );
  return rows.map(({ state }) => state);
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
async function record(
  store: Store,
  { random, pauseMs, signal }: { random: Random; pauseMs: number; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    try {
      await using writer = await openLivingWriter(store);
      writer.client.on('error', () => undefined);
      while (!signal.aborted) {
        const begun = Array.from({ length: 1 + random.below(40) }, () =>
          accepted({ account: ACCOUNTS[random.below(ACCOUNTS.length)] as string }),
        );
        const ended = begun.map((call) => settled(call, { cost_nanousd: random.below(2 ** 40) }));
        await writer.append([...begun, ...ended]);
        await writer.correct(ended.slice(0, 2).map((call) => correctionOf(call, random)));
        await wait(pauseMs);
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

/** The first of the log's spend events that a receiver lacks or has changed, and sums that differ. */
export function compareReceived(
  events: readonly SpendEvent[],
  received: ReadonlyMap<string, SpendEvent>,
): string[] {
  const found = events.flatMap((event) => {
    const taken = received.get(event.id);
    if (taken === undefined) return [`${event.id} is missing`];
    return JSON.stringify(taken) === JSON.stringify(event) ? [] : [`${event.id} differs from the log`];
  });
  if (received.size !== events.length)
    found.push(`${received.size} events were received, and the log has ${events.length}`);
  const [sum, logged] = [sumOf([...received.values()]), sumOf(events)];
  if (sum !== logged) found.push(`the received sum is ${sum} n$, the log's ${logged}`);
  return found;
}

export const sumOf = (events: readonly SpendEvent[]): bigint =>
  events.reduce((sum, { cost_nanousd = 0 }) => sum + BigInt(cost_nanousd), 0n);
