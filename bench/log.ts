import { join } from 'node:path';
import { Client } from 'pg';
import type { Store } from '#db/postgres/connect.ts';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import type { RequestEvent } from '#db/events/events.ts';
import { publicId, uuidv7 } from '#db/ids.ts';
import { heartbeat, registerInstance, retireInstance } from '#db/instances/instance.ts';
import { appendRequests } from '#db/log/append.ts';
import { follow } from '#db/log/follow.ts';
import { migrate } from '#db/schema/migrate.ts';
import type { Goal } from './goals.ts';
import { makeDataDirectory } from './machine/data-directory.ts';
import { monotonicUs } from './machine/clock.ts';
import { readUsage } from './machine/cpu.ts';
import { postmasterOf } from './machine/postmaster.ts';
import type { Stage } from './relay.ts';
import type { Settings } from './settings.ts';
import { median } from './median.ts';
import { figure, table } from './table.ts';

/** What one round of the log's own bench found. CPU times are per event. */
export type LogRound = {
  appendPerSecond: number;
  appendPostgresCpuUs: number;
  appendNodeCpuUs: number;
  followPerSecond: number;
  followPostgresCpuUs: number;
  followNodeCpuUs: number;
  /** The length of the log that the follower read. */
  eventsFollowed: number;
};

export type LogReport = { rounds: LogRound[]; goals: Goal[] };

const BATCH_EVENTS = 100;
const WARMUP_SECS = 2;

/**
 * Measures the log alone: one process appends batches of a hundred as fast as they are taken, and
 * then one follower reads from the beginning to the head. Each round starts where the last ended,
 * so the log grows as a real one does.
 */
export async function benchLog(settings: Settings, { directory, signal }: Stage): Promise<LogReport> {
  const dataDir = join(directory, 'log');
  await makeDataDirectory(dataDir);
  const store = await startEmbedded({ dataDir, log: () => {} });
  try {
    await migrate(store);
    const postmaster = postmasterOf(dataDir);
    if (postmaster === null) throw new Error(`no Postgres runs in ${dataDir}`);
    const meter = createMeter(postmaster);
    const client = new Client(store.config('relay'));
    await client.connect();
    const instance = await registerInstance(client, 'bench-log');
    const appender = createAppender(client, instance);
    const rounds: LogRound[] = [];
    await appender.appendFor(settings.warmupSecs ?? WARMUP_SECS);
    for (let round = 0; round < settings.rounds; round++) {
      signal.throwIfAborted();
      const append = await meter(() => appender.appendFor(settings.secs));
      const followed = await meter(() => readToHead(store, append.result.head));
      rounds.push({
        appendPerSecond: append.result.events / append.secs,
        appendPostgresCpuUs: append.postgresUs / append.result.events,
        appendNodeCpuUs: append.nodeUs / append.result.events,
        followPerSecond: followed.result / followed.secs,
        followPostgresCpuUs: followed.postgresUs / followed.result,
        followNodeCpuUs: followed.nodeUs / followed.result,
        eventsFollowed: followed.result,
      });
    }
    await retireInstance(client, instance);
    await client.end();
    return { rounds, goals: logGoals(rounds) };
  } finally {
    await store.stop();
  }
}

/** The table of the log's bench: medians over the rounds. */
export function renderLog(rounds: readonly LogRound[]): string {
  const cell = (name: keyof LogRound): string => figure(median(rounds.map((round) => round[name])));
  return `\n${table(
    ['log', 'events/s', 'Postgres µs/event', 'Node µs/event'],
    [
      [
        'append, batches of 100',
        cell('appendPerSecond'),
        cell('appendPostgresCpuUs'),
        cell('appendNodeCpuUs'),
      ],
      [
        'follow, from the beginning',
        cell('followPerSecond'),
        cell('followPostgresCpuUs'),
        cell('followNodeCpuUs'),
      ],
    ],
  )}`;
}

function logGoals(rounds: readonly LogRound[]): Goal[] {
  const append = median(rounds.map(({ appendPerSecond }) => appendPerSecond));
  const followed = median(rounds.map(({ followPerSecond }) => followPerSecond));
  return [
    {
      name: 'log: append in batches of 100',
      measured: append,
      bound: 'at least',
      limit: 50_000,
      unit: 'events/s',
    },
    {
      name: 'log: follower catching up',
      measured: followed,
      bound: 'at least',
      limit: 100_000,
      unit: 'events/s',
    },
  ];
}

type Metered<T> = { result: T; secs: number; postgresUs: number; nodeUs: number };

function createMeter(postmaster: number): <T>(work: () => Promise<T>) => Promise<Metered<T>> {
  const postgres = { root: postmaster, except: [] };
  const self = { root: process.pid, except: [postmaster] };
  return async (work) => {
    const before = { postgres: readUsage(postgres), self: readUsage(self), us: monotonicUs() };
    const result = await work();
    const us = monotonicUs();
    return {
      result,
      secs: (us - before.us) / 1e6,
      postgresUs: readUsage(postgres).cpuUs - before.postgres.cpuUs,
      nodeUs: readUsage(self).cpuUs - before.self.cpuUs,
    };
  };
}

type Appended = { events: number; head: number };

function createAppender(
  client: Client,
  instance: number,
): { appendFor: (secs: number) => Promise<Appended> } {
  const account = publicId();
  const key = publicId();
  let batchNo = 0;
  let head = 0;
  return {
    async appendFor(secs) {
      const untilMs = performance.now() + secs * 1000;
      let events = 0;
      while (performance.now() < untilMs) {
        const batch = makeBatch(account, key);
        head = await appendRequests(client, instance, ++batchNo, batch);
        events += batch.length;
      }
      await heartbeat(client, instance, head);
      return { events, head };
    },
  };
}

/** As many accepted as settled, as a relay in balance writes them. */
function makeBatch(account: string, key: string): RequestEvent[] {
  const batch: RequestEvent[] = [];
  while (batch.length < BATCH_EVENTS) {
    const common = { request: uuidv7(), account, key, model: 'gpt-4o-mini' };
    batch.push(
      {
        type: 'request.accepted',
        ...common,
        route: '/v1/chat/completions',
        sse: true,
        body_bytes: 1_024,
        hold_tokens: 1_300,
      },
      {
        type: 'request.settled',
        ...common,
        end_reason: 'completed',
        usage_source: 'provider',
        upstream: 'mock',
        status: 200,
        input_tokens: 211,
        cache_read_tokens: 0,
        output_tokens: 97,
        reasoning_tokens: 0,
        attempt_count: 1,
        first_byte_ms: 21,
        duration_ms: 480,
      },
    );
  }
  return batch;
}

/** Follows from the beginning until the head is reached; returns how many events there were. */
async function readToHead(store: Store, head: number): Promise<number> {
  let count = 0;
  let failure: unknown;
  const finished = Promise.withResolvers<void>();
  const follower = follow({
    config: store.config('worker'),
    scope: 'all',
    after: 0,
    onPage: (events) => {
      count += events.length;
      if ((events.at(-1)?.position ?? 0) >= head) finished.resolve();
    },
    onError: (error) => {
      failure = error;
      finished.resolve();
    },
  });
  await finished.promise;
  await follower.close();
  if (failure !== undefined) throw failure;
  return count;
}
