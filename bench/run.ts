import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, JobResult, Load } from './driver/job.ts';
import type { ProcessTree } from './machine/cpu.ts';
import { measuredQuietly, type Watched } from './machine/neighbors.ts';
import { LOAD_NODE_FLAGS, plainEnvironment } from './machine/programs.ts';
import type { FixedReply } from './targets/bare-reply.ts';
import { call } from './targets/daybook.ts';
import { bareReply } from './targets/plain.ts';
import type { Purpose, Running, Surroundings, Target } from './targets/target.ts';
import { isRefusal, type Workload, type WorkloadName, WORKLOADS } from './workloads.ts';

/** One target under one workload in one round. */
export type Run = {
  workload: WorkloadName;
  target: string;
  round: number;
  result: JobResult;
} & Watched;

export type RunOptions = {
  targets: Target[];
  /** Whether refusals are compared with a server that replies the same without deciding. */
  withBareReply: boolean;
  work: WorkloadName[];
  rounds: number;
  secs: number;
  warmupSecs: number | null;
  connectionsMax: number | null;
  /** The share of one CPU that others may use in a round that counts. */
  neighborsMax: number;
  surroundings: Surroundings;
  /** Owns what is started. */
  cleanup: AsyncDisposableStack;
  signal: AbortSignal;
  /** Called when a workload has been measured. */
  onMeasured: (workload: WorkloadName, runs: Run[]) => void;
};

const PATH = '/v1/chat/completions';
const DRIVER = join(import.meta.dirname, 'driver/main.ts');
const WARMUP_SECS = 2;
const PREWARM_SECS = 2;
/** Between runs, so that what one target leaves behind is not charged to the next. */
const QUIET_MS = 200;
/** Idle streams send little: more time gives their CPU figure the same number of chunks. */
const MEMORY_SECS_FACTOR = 2.5;

/** What `bare-reply` says when there is no Daybook to learn a refusal from. */
const REFUSAL: FixedReply = {
  status: 401,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    error: { message: 'x'.repeat(120), type: 'authentication_error', param: null, code: 'invalid_api_key' },
  }),
};

/**
 * Measures all targets under all workloads. Within a round every target is measured in turn, and
 * the next round goes backwards, so that a slow minute of the machine meets all of them.
 */
export async function runAll(options: RunOptions): Promise<Run[]> {
  const fleet = new Fleet(options.surroundings, options.cleanup);
  const all: Run[] = [];
  for (const name of options.work) {
    const workload: Workload = WORKLOADS[name];
    const targets = await targetsFor(workload, options, fleet);
    const runs: Run[] = [];
    for (let round = 0; round < (workload.forMemory ? 1 : options.rounds); round++) {
      for (const target of round % 2 === 0 ? targets : targets.toReversed()) {
        if (workload.forMemory) await fleet.drop(target);
        const running = await fleet.bring(target, workload.forMemory ? 'memory' : 'load');
        const job = jobFor(workload, running, round === 0, options);
        const { rounds, neighborsMax } = options;
        const quietly = { attempts: workload.forMemory ? 1 : rounds, neighborsMax };
        const run = await measuredQuietly(quietly, fleet.databases(), async () => ({
          workload: name,
          target: target.name,
          round,
          result:
            workload.credential === 'near'
              ? await runNear(running, job, options)
              : await runDriver(job, options),
        }));
        runs.push(run);
        if (workload.forMemory) await fleet.drop(target);
      }
    }
    options.onMeasured(name, runs);
    all.push(...runs);
  }
  return all;
}

async function targetsFor(workload: Workload, options: RunOptions, fleet: Fleet): Promise<Target[]> {
  const isToldOf = ({ name }: Target): boolean => workload.targets?.includes(name) ?? true;
  if (!isRefusal(workload)) return options.targets.filter((target) => target.does.relay && isToldOf(target));
  const refusing = options.targets.filter(({ does }) => does.refuse);
  if (!options.withBareReply) return refusing;
  const [model] = refusing;
  const running = model && (await fleet.bring(model, 'load'));
  const reply = running ? await call(running.port, running.authorization[workload.credential]) : REFUSAL;
  const floor = bareReply({ ...reply, status: workload.expect.status });
  await fleet.drop(floor);
  return [floor, ...refusing];
}

/** What is up. Targets stay up over workloads, because a server in use is not cold either. */
class Fleet {
  private readonly surroundings: Surroundings;
  private readonly running = new Map<string, Running>();

  constructor(surroundings: Surroundings, cleanup: AsyncDisposableStack) {
    this.surroundings = surroundings;
    cleanup.defer(async () => {
      await Promise.all([...this.running.values()].map((running) => running.stop()));
    });
  }

  async bring(target: Target, purpose: Purpose): Promise<Running> {
    const running = this.running.get(target.name) ?? (await target.start(this.surroundings, purpose));
    this.running.set(target.name, running);
    return running;
  }

  /** Those that were started apart from this process, which therefore aren't found below it. */
  databases(): ProcessTree[] {
    return [...this.running.values()].flatMap(({ postgresPid }) =>
      postgresPid === null ? [] : [{ root: postgresPid, except: [] }],
    );
  }

  /** Stops the target if it is up, so that it is started anew when it is next needed. */
  async drop(target: Target): Promise<void> {
    const running = this.running.get(target.name);
    this.running.delete(target.name);
    await running?.stop();
  }
}

/** A workload as a job of the driver. @param isFirst whether the target has not seen this workload yet. */
export function jobFor(
  workload: Workload,
  running: Running,
  isFirst: boolean,
  options: Pick<RunOptions, 'secs' | 'warmupSecs' | 'connectionsMax'>,
): Job {
  const authorization = running.authorization[workload.credential];
  const { serverPid, postgresPid, dialect } = running;
  const { body, expect } = workload;
  return {
    port: running.port,
    path: dialect?.path ?? PATH,
    headers: { ...(authorization === null ? {} : { authorization }), ...dialect?.headers },
    body: { ...body, model: `${dialect?.modelPrefix ?? ''}${body.model}` },
    expect: { ...expect, replyBytes: dialect?.rewrites === true ? null : expect.replyBytes },
    load: limited(workload.load, options.connectionsMax ?? Infinity),
    // Streams warm a target up by themselves, and idle ones must find it as it started.
    prewarmSecs: isFirst && !workload.expect.sse ? (options.warmupSecs ?? PREWARM_SECS) : 0,
    warmupSecs: options.warmupSecs ?? Math.max(WARMUP_SECS, workload.warmupSecs),
    secs: options.secs * (workload.forMemory ? MEMORY_SECS_FACTOR : 1),
    statePath: running.statePath,
    trees: {
      ...(serverPid === null
        ? {}
        : { server: { root: serverPid, except: postgresPid === null ? [] : [postgresPid] } }),
      ...(postgresPid === null ? {} : { postgres: { root: postgresPid, except: [] } }),
    },
  };
}

/** Fewer connections, which begin over the same time. */
function limited(load: Load, max: number): Load {
  if (load.mode === 'open') return load;
  const count = load.mode === 'closed' ? load.connections : load.streams;
  const fewer = Math.min(count, max);
  const spreadMs = (load.spreadMs * count) / fewer;
  return load.mode === 'closed'
    ? { ...load, connections: fewer, spreadMs }
    : { ...load, streams: fewer, spreadMs };
}

/** Runs the driver while a quota is near its end, and looks before and after whether it is. */
async function runNear(running: Running, job: Job, options: RunOptions): Promise<JobResult> {
  if (running.bringNear === null) return runDriver(job, options);
  const near = await running.bringNear();
  try {
    const before = await near.findFault();
    const result = await runDriver(job, options);
    const fault = before ?? (await near.findFault());
    return fault === null ? result : { ...result, errors: { ...result.errors, [fault]: 1 } };
  } finally {
    await near.release();
  }
}

/** Makes calls at a steady rate, beside which something else is measured. */
export function driveSteadily(
  running: Running,
  perSecond: number,
  during: Pick<Job, 'warmupSecs' | 'secs' | 'trees'>,
  options: Pick<RunOptions, 'surroundings' | 'signal'>,
  workload: WorkloadName = 'json-rate',
): Promise<JobResult> {
  const { body, expect } = WORKLOADS[workload];
  const headers = { authorization: running.authorization.limited ?? '' };
  return runDriver(
    {
      port: running.port,
      path: PATH,
      headers,
      body,
      expect,
      load: { mode: 'open', perSecond },
      prewarmSecs: 0,
      statePath: null,
      ...during,
    },
    options,
  );
}

/** Runs the driver in a process of its own, on its side's CPU. @throws when it fails. */
export async function runDriver(
  job: Job,
  { surroundings, signal }: Pick<RunOptions, 'surroundings' | 'signal'>,
): Promise<JobResult> {
  const command = [...surroundings.pinning.prefix('load'), process.execPath, ...LOAD_NODE_FLAGS, DRIVER];
  const [file = '', ...args] = command;
  const child = spawn(file, args, { env: plainEnvironment(), stdio: ['pipe', 'pipe', 'inherit'], signal });
  const exited = new Promise<void>((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, killedBy) =>
      code === 0 ? resolve() : reject(new Error(`the driver ended with ${code ?? killedBy}`)),
    );
  });
  child.stdin.end(JSON.stringify(job));
  const [output] = await Promise.all([text(child.stdout), exited]);
  await sleep(QUIET_MS);
  return JSON.parse(output) as JobResult;
}
