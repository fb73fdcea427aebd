import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicUs } from '../machine/clock.ts';
import { readUsage, type Usage } from '../machine/cpu.ts';
import { makeBody } from './bodies.ts';
import { type Job, type JobResult, type Load, READYZ_TOKEN } from './job.ts';
import { Traffic } from './traffic.ts';

/**
 * The load driver: makes one kind of request to one target, checks every reply, and measures for
 * a while. As a program: a {@link Job} on standard input, a {@link JobResult} on standard output.
 */

/** An open loop that falls this far behind would measure only its own queue. */
const IN_FLIGHT_MAX = 5000;

/** How long replies may take to end after the load has stopped; the longest stream takes 2 s. */
const WIND_DOWN_SECS = 15;

const PREWARM_CONNECTIONS = 16;

async function drive(job: Job): Promise<JobResult> {
  const traffic = new Traffic({ port: job.port, request: requestOf(job), expect: job.expect });
  const before = readTrees(job);
  if (job.prewarmSecs > 0) {
    await startLoad({ mode: 'closed', connections: PREWARM_CONNECTIONS, spreadMs: 0 }, traffic);
    await sleep(job.prewarmSecs * 1000);
    await traffic.windDown(WIND_DOWN_SECS);
  }
  const stop = await startLoad(job.load, traffic);
  await sleep(job.warmupSecs * 1000);

  const exchangesAtStart = await readExchanges(job);
  const atStart = readTrees(job);
  const fromUs = monotonicUs();
  traffic.measureFrom(fromUs);
  await sleep(job.secs * 1000);
  const untilUs = monotonicUs();
  traffic.measureUntil(untilUs);
  const atEnd = readTrees(job);
  const held = traffic.inFlight;
  const exchangesAtEnd = await readExchanges(job);

  stop();
  if (job.load.mode === 'hold') traffic.cancelAll();
  else await traffic.windDown(WIND_DOWN_SECS);
  const trees = Object.entries(atEnd).map(([name, { cpuUs, rssKb }]) => [
    name,
    { cpuUs: cpuUs - (atStart[name]?.cpuUs ?? 0), rssKb, rssBeforeKb: before[name]?.rssKb ?? 0 },
  ]);
  const exchanges =
    exchangesAtStart === null || exchangesAtEnd === null ? null : exchangesAtEnd - exchangesAtStart;
  return {
    secs: (untilUs - fromUs) / 1e6,
    held,
    exchanges,
    ...traffic.seen(),
    trees: Object.fromEntries(trees),
  };
}

/** Starts the load; resolves, when all its connections are in use, to what stops it. */
async function startLoad(load: Load, traffic: Traffic): Promise<() => void> {
  if (load.mode === 'open') return startOpenLoop(load.perSecond, traffic);
  const count = load.mode === 'closed' ? load.connections : load.streams;
  if (load.mode === 'closed') traffic.afterEach = () => traffic.fire();
  for (let index = 0; index < count; index++) {
    traffic.fire();
    if (load.spreadMs > 0) await sleep(load.spreadMs);
  }
  return () => {};
}

function startOpenLoop(perSecond: number, traffic: Traffic): () => void {
  const startUs = monotonicUs();
  let fired = 0;
  const timer = setInterval(() => {
    const due = Math.floor(((monotonicUs() - startUs) * perSecond) / 1e6);
    for (; fired < due; fired++) {
      if (traffic.inFlight < IN_FLIGHT_MAX) traffic.fire();
      else traffic.countError('not sent: too many in flight');
    }
  }, 1);
  return () => clearInterval(timer);
}

function requestOf(job: Job): Buffer {
  const body = makeBody(job.body);
  const headers = {
    host: `127.0.0.1:${job.port}`,
    'content-type': 'application/json',
    accept: job.body.sse ? 'text/event-stream' : 'application/json',
    'user-agent': 'daybook-bench',
    ...job.headers,
    'content-length': String(body.length),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`POST ${job.path} HTTP/1.1\r\n${lines.join('')}\r\n`), body]);
}

/** By the target's own count; read under load, so the end of the measured time is a millisecond late. */
async function readExchanges({ port, statePath }: Job): Promise<number | null> {
  if (statePath === null) return null;
  const reply = await fetch(`http://127.0.0.1:${port}${statePath}`, {
    headers: { authorization: `Bearer ${READYZ_TOKEN}` },
  });
  const { limits } = (await reply.json()) as { limits?: { exchanges?: number } };
  return limits?.exchanges ?? null;
}

function readTrees(job: Job): Record<string, Usage> {
  return Object.fromEntries(Object.entries(job.trees).map(([name, tree]) => [name, readUsage(tree)]));
}

const job = JSON.parse(readFileSync(0, 'utf8')) as Job;
process.stdout.write(JSON.stringify(await drive(job)), () => process.exit(0));
