import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import { type Store, withTimeout } from '#db/postgres/connect.ts';
import type { EventOf } from '#db/events/events.ts';
import { heartbeat, retireInstance } from '#db/instances/instance.ts';
import { compare } from '#db/projections/compare.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { type ProjectionState, readProjectionState } from '#db/projections/state.ts';
import { chat } from '../support/client.ts';
import { accepted, openWriter, settled } from '../support/log/log-writer.ts';
import { until, upstreamsVariable } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';
import type { Ground } from './ground.ts';
import { type Random, randomFrom } from './random.ts';
import type { Finding } from './verdict.ts';

/** What the run found; `violations` is empty when the promises held. */
export type ProjectorVerdict = {
  kills: number;
  calls: number;
  /** The log's length at the end, and how many rows the projections have. */
  events: number;
  rows: number;
  /** From a call's beginning to the end of its reply, while workers died. */
  callMs: { p50: number; p99: number };
  /** From the end of the load until all of it was projected. */
  caughtUpMs: number;
  violations: Finding[];
};

type Options = {
  n: number;
  streams: number;
  seed: number;
  /** At most so many calls begin in a batch of the writer. */
  batchCalls?: number;
};

const WORKERS = 2;
const MODEL = 's:tokens=10,every=1ms';
const CALL_TIMEOUT_MS = 20_000;
const WRITER_PAUSE_MS = 25;
const CAUGHT_UP_WITHIN_MS = 120_000;
const COMPARE_TIMEOUT_MS = 600_000;
const NAMES = PROJECTIONS.map(({ name }) => name);

/**
 * Kills one of two workers with SIGKILL, again and again at random moments, under calls and a
 * writer that keeps the projector's pages full. P5: the projections are as a replay of the log, row
 * by row; and no call has noticed anything.
 */
export async function killProjector(
  { store, url, dataDir }: Ground,
  { n, streams, seed, batchCalls = 200 }: Options,
): Promise<ProjectorVerdict> {
  await using cleanup = new AsyncDisposableStack();
  const random = randomFrom(seed);
  const upstream = cleanup.use(await startUpstream());
  const env = {
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_WORKER: 'off',
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  };
  const server = await spawnServer(env);
  cleanup.defer(async () => void (await server.stop()));
  const workers: WorkerProcess[] = Array.from({ length: WORKERS }, () => spawnWorker(env));
  cleanup.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))));
  const violations: Finding[] = [];
  const durationsMs: number[] = [];
  const ending = new AbortController();

  async function caller(): Promise<void> {
    const body = { model: MODEL, stream: true, messages: [{ role: 'user', content: 'hi' }] };
    while (!ending.signal.aborted) {
      const startedMs = performance.now();
      const row = await chat({
        port: server.port,
        key: server.firstKey as string,
        body,
        timeoutMs: CALL_TIMEOUT_MS,
      });
      durationsMs.push(performance.now() - startedMs);
      if (row.status === 200 && row.finished) continue;
      violations.push({
        rule: 'P7',
        request: row.requestId ?? '',
        message: `got ${row.status ?? row.problem} while workers died`,
      });
    }
  }

  const load = [...Array.from({ length: streams }, caller), write(store, random, batchCalls, ending.signal)];
  for (let kill = 0; kill < n; kill++) {
    await wait(100 + random.below(1_500));
    const victim = random.below(WORKERS);
    await workers[victim]?.kill();
    workers[victim] = spawnWorker(env);
  }
  ending.abort();
  await Promise.all(load);
  // Of the server's calls the last endings may still be on their way.
  await server.stop();

  const client = new Client(withTimeout(store.config('auditor'), COMPARE_TIMEOUT_MS));
  await client.connect();
  cleanup.defer(() => client.end());
  const loadEndedMs = performance.now();
  const isCaughtUp = ({ position, head }: ProjectionState): boolean => position === head;
  const { head, parked } = await until(
    () => readProjectionState(client, NAMES),
    isCaughtUp,
    'the projections',
    CAUGHT_UP_WITHIN_MS,
  );
  const caughtUpMs = performance.now() - loadEndedMs;
  if (parked > 0) violations.push({ rule: 'P5', request: '', message: `${parked} events were put aside` });
  let rows = 0;
  for (const projection of PROJECTIONS) {
    const found = await compare(client, projection);
    rows += found.rows;
    violations.push(...found.faults.map((message) => ({ rule: 'P5', request: projection.name, message })));
    violations.push(
      ...found.differences.map((each) => ({
        rule: 'P5',
        request: Object.values(each.key).join(' '),
        message: JSON.stringify(each),
      })),
    );
  }
  const sorted = durationsMs.toSorted((left, right) => left - right);
  const at = (share: number): number => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0);
  return {
    kills: n,
    calls: sorted.length,
    events: head,
    rows,
    callMs: { p50: at(0.5), p99: at(0.99) },
    caughtUpMs: Math.round(caughtUpMs),
    violations,
  };
}

/** Appends batches of calls, of which some end in a later batch, until told to end; then all have ended. */
async function write(store: Store, random: Random, batchCalls: number, signal: AbortSignal): Promise<void> {
  await using writer = await openWriter(store);
  let running: EventOf<'request.accepted'>[] = [];
  while (!signal.aborted || running.length > 0) {
    const begun = signal.aborted
      ? []
      : Array.from({ length: 1 + random.below(batchCalls) }, () => accepted());
    const kept = begun.length === 0 ? 0 : random.below(begun.length);
    const ended = [...running, ...begun.slice(kept)];
    running = begun.slice(0, kept);
    await writer.append([...begun, ...ended.map((event) => settled(event))]);
    await heartbeat(writer.client, writer.instance, null);
    await wait(WRITER_PAUSE_MS);
  }
  await retireInstance(writer.client, writer.instance);
}
