import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import type { Store } from '#db/postgres/connect.ts';
import { projected, runAudit } from '../chaos/audit-diff.ts';
import type { Ground } from '../chaos/ground.ts';
import { randomFrom } from '../chaos/random.ts';
import type { Finding } from '../chaos/verdict.ts';
import { openRequests } from '../support/faults.ts';
import { checkIdentity, type ClientRow } from '../support/identity/identity.ts';
import { checkLimits } from '../support/identity/limits-identity.ts';
import { type Instance, isRunning, readInstances } from '../support/instances.ts';
import { openLog, until, upstreamsVariable } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { growing, judge, type Judged } from './judge.ts';
import { FAULTY, startLoad } from './load.ts';
import { type Longest, longest, readProbe, type Sample, takeSample } from './samples.ts';

export type SoakOptions = {
  secs: number;
  /** Samples before are not judged: caches fill, code is compiled. */
  warmupSecs: number;
  sampleMs: number;
  callers: number;
  pauseMs: number;
  keyChangeMs: number;
  /** How long an upstream may be silent, which some of the faults are. */
  silenceMs: number;
  workerRestartMs: number;
  seed: number;
  /** Called after each sample. */
  onSample?: (sample: Sample) => void;
};

export type SoakVerdict = {
  calls: number;
  statuses: Record<string, number>;
  events: number;
  keyChanges: { made: number; failed: number };
  workerRestarts: number;
  samples: number;
  /** After the warm-up: time that the event loop was late, and CPU time that one turn used. */
  stallMs: Longest;
  turnCpuMs: Longest;
  /** When all calls have ended. */
  idle: { descriptors: number; sockets: number; upstreamConnections: number; rssMb: number };
  judged: Judged[];
  violations: Finding[];
};

const ENDED_WITHIN_MS = 60_000;
/** Idle connections are closed, and memory is returned. */
const IDLE_MS_MAX = 15_000;
const PROBE = path.join(import.meta.dirname, 'probe.ts');

/**
 * Runs mixed calls with faults for a while: a steady and a misbehaving upstream, JSON and SSE, clients that
 * leave, keys that change, and workers that are killed. Judges whether anything grows, and checks the
 * accounting identity, the limits, the chain of the log and the projections at the end.
 */
export async function soak({ store, url, dataDir }: Ground, options: SoakOptions): Promise<SoakVerdict> {
  const random = randomFrom(options.seed);
  const probes = path.join(dataDir, 'probes');
  await mkdir(probes);
  await using steady = await startUpstream();
  await using faulty = await startUpstream();
  for (const { model, script } of FAULTY) faulty.script(model, script);
  const server = await spawnServer({
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([
      { ...steady, baseUrl: steady.baseUrl, name: 'steady', models: ['s:*'] },
      { ...faulty, baseUrl: faulty.baseUrl, name: 'faulty', models: ['f:*'] },
    ]),
    LOG_LEVEL: 'silent',
    NODE_OPTIONS: `--import ${PROBE}`,
    SOAK_PROBE_DIR: probes,
    UPSTREAM_CONNECT_TIMEOUT_MS: String(options.silenceMs),
    UPSTREAM_FIRST_BYTE_TIMEOUT_MS: String(options.silenceMs),
    UPSTREAM_IDLE_TIMEOUT_MS: String(options.silenceMs),
    UPSTREAM_TOTAL_TIMEOUT_MS: String(options.silenceMs * 4),
  });
  const observer = new Client(store.config('auditor'));
  await observer.connect();
  const log = openLog(store);
  try {
    await until(
      () => liveWorkers(store),
      ({ length }) => length > 0,
      'the worker',
      ENDED_WITHIN_MS,
    );
    const load = await startLoad({ port: server.port, store, dataDir, random, ...options });
    const samples: Sample[] = [];
    const connections = (): number => steady.connections + faulty.connections;
    const look = async (): Promise<Sample> =>
      takeSample(server.pid, observer, { calls: load.calls(), upstreamConnections: connections() });
    let workerRestarts = 0;
    const startedMs = Date.now();
    let restartMs = startedMs + options.workerRestartMs;
    while (Date.now() < startedMs + options.secs * 1_000 && !load.ended.aborted) {
      const sample = await look();
      samples.push(sample);
      options.onSample?.(sample);
      if (Date.now() >= restartMs) {
        restartMs += options.workerRestartMs;
        if (await killWorker(store)) workerRestarts++;
      }
      await wait(options.sampleMs);
    }
    await load.stop();
    const events = await until(
      log.read,
      (seen) => openRequests(seen).length === 0,
      'the last open call',
      ENDED_WITHIN_MS,
    );
    await wait(Math.min(IDLE_MS_MAX, options.warmupSecs * 1_000));
    const { tables: _tables, descriptors, sockets, upstreamConnections, rssMb } = await look();
    const from = startedMs + options.warmupSecs * 1_000;
    const probed = (await readProbe(probes, server.pid)).filter(
      ({ at }) => at >= from && at <= startedMs + options.secs * 1_000,
    );
    const judged = judge(
      samples.filter(({ at }) => at >= from),
      probed,
    );
    await projected(store);
    const ledger = [...steady.ledger.attempts, ...faulty.ledger.attempts];
    const violations = [
      ...load.findings,
      ...checkIdentity({ ledger, events, clients: load.rows, accounting: 'strict' }).violations.map((found) =>
        withModel(found, load.rows),
      ),
      ...checkLimits(events),
      ...(await audit({ DAYBOOK_DATA: dataDir, DATABASE_URL: url })),
      ...growing(judged),
    ];
    const code = await server.stop();
    if (code !== 0) violations.push({ rule: 'end', request: '', message: `the server ended with ${code}` });
    return {
      calls: load.calls(),
      statuses: countBy(load.rows.map(({ status }) => String(status))),
      events: events.length,
      keyChanges: load.keyChanges(),
      workerRestarts,
      samples: samples.length,
      stallMs: longest(probed.map(({ stallMs }) => stallMs)),
      turnCpuMs: longest(probed.map(({ turnCpuMs }) => turnCpuMs)),
      idle: { descriptors, sockets, upstreamConnections, rssMb },
      judged,
      violations,
    };
  } finally {
    await log.close();
    await observer.end();
    await server.kill();
  }
}

/** Names the model, which says what the upstream did. */
function withModel(found: Finding, rows: readonly ClientRow[]): Finding {
  const row = rows.find(({ requestId, user }) => requestId === found.request || user === found.request);
  return { ...found, message: `${found.message} (${JSON.stringify(row)})` };
}

/** Kills the worker; its server starts another one. @returns false where none is running just now. */
async function killWorker(store: Store): Promise<boolean> {
  const workers = await liveWorkers(store);
  for (const { pid } of workers) process.kill(pid, 'SIGKILL');
  return workers.length > 0;
}

async function liveWorkers(store: Store): Promise<Instance[]> {
  return (await readInstances(store)).filter(
    ({ kind, isDead, isClosed, pid }) => kind === 'worker' && !isDead && !isClosed && isRunning(pid),
  );
}

/** P5 and P6: the projections equal a replay, and the chain verifies. */
async function audit(env: Record<string, string>): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const [command, rule] of [
    ['diff', 'P5'],
    ['verify', 'P6'],
  ] as const) {
    const { code, text } = await runAudit(env, command);
    if (code !== 0)
      findings.push({ rule, request: '', message: `audit ${command} failed: ${text.slice(0, 2_000)}` });
  }
  return findings;
}

function countBy(names: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    Object.entries(Object.groupBy(names, (name) => name)).map(([name, all]) => [name, all?.length ?? 0]),
  );
}
