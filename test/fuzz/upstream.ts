import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Placed } from '#db/events/events.ts';
import { chat } from '../support/client.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { startRawUpstream } from '../support/upstream/raw-upstream.ts';
import type { Random } from '../chaos/random.ts';
import { CANARY, canaryLeaks, reply } from './replies.ts';
import { chance, divided } from './pieces.ts';
import { measureTurns } from '../support/turn-cpu.ts';

/**
 * Random replies of an upstream to calls through a relay: the process survives, each recorded call is settled
 * once, memory stays within a bound, and no reply contains the upstream's credential.
 */

const AT_ONCE = 16;
const ENDED_WITHIN_MS = 30_000;
const MEMORY_GROWTH_BYTES_MAX = 512 * 1024 ** 2;
const VIOLATIONS_MAX = 20;
const TIMEOUTS = {
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '1000',
  UPSTREAM_IDLE_TIMEOUT_MS: '1000',
  UPSTREAM_TOTAL_TIMEOUT_MS: '5000',
};

export type UpstreamReport = {
  calls: number;
  statuses: Record<string, number>;
  endReasons: Record<string, number>;
  /** The longest stop of the event loop that relay, upstream and clients share. */
  longestStallMs: number;
  /** The most CPU time that a turn of it used. */
  longestTurnCpuMs: number;
  memoryGrowthMiB: number;
  violations: string[];
};

/** `npm run fuzz -- upstream`: with a PostgreSQL of its own. */
export const run = (random: Random, budget: { ms: number }): Promise<UpstreamReport> =>
  fuzzUpstream(random, budget.ms, 'embedded');

/** @param postgres `database`: one of the test run's. */
export async function fuzzUpstream(
  random: Random,
  ms: number,
  postgres: 'embedded' | 'database',
): Promise<UpstreamReport> {
  await using upstream = await startRawUpstream((body, socket) => {
    const { bytes, isClosed } = reply(random, body.includes('"stream":true'));
    const pieces = divided(
      random,
      chance(random, 10) ? bytes.subarray(0, random.below(bytes.length)) : bytes,
    );
    for (const piece of pieces) socket.write(piece);
    if (isClosed) socket.end();
    else if (chance(random, 10)) socket.destroySoon();
  });
  // Several upstreams, so that an open circuit leaves others.
  const upstreams = Array.from({ length: 8 }, (_, index) => ({
    name: `u${index}`,
    baseUrl: upstream.baseUrl,
    apiKey: CANARY,
    models: [`m${index}`],
  }));
  await using relay = await startRelay({ upstreams, postgres, env: TIMEOUTS });
  const report: UpstreamReport = {
    calls: 0,
    statuses: {},
    endReasons: {},
    longestStallMs: 0,
    longestTurnCpuMs: 0,
    memoryGrowthMiB: 0,
    violations: [],
  };
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const readTurnCpuMs = measureTurns();
  const memory = process.memoryUsage.rss();
  let most = memory;
  const endMs = performance.now() + ms;
  const one = async (): Promise<void> => {
    while (performance.now() < endMs && report.violations.length < VIOLATIONS_MAX) {
      await call(relay, random, report);
      most = Math.max(most, process.memoryUsage.rss());
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  delay.disable();
  report.longestStallMs = Math.round(delay.max / 1e6);
  report.longestTurnCpuMs = Math.round(readTurnCpuMs());
  report.memoryGrowthMiB = Math.round((most - memory) / 1024 ** 2);
  if (most - memory > MEMORY_GROWTH_BYTES_MAX) report.violations.push('memory grows beyond its bound');
  await judge(relay, report);
  return report;
}

async function call(relay: TestRelay, random: Random, report: UpstreamReport): Promise<void> {
  const body = {
    model: `m${random.below(8)}`,
    messages: [{ role: 'user', content: 'a' }],
    ...(chance(random, 2) ? { stream: true } : {}),
  };
  const { status, problem, raw } = await chat({ port: relay.port, key: relay.key, body, timeoutMs: 20_000 });
  report.calls++;
  const name = String(status ?? problem);
  report.statuses[name] = (report.statuses[name] ?? 0) + 1;
  if (canaryLeaks(raw.toString())) report.violations.push(`a credential leaves: ${raw.toString('base64')}`);
  if (problem === 'timeout') report.violations.push('a call has no end for its client');
}

/** Each recorded call must have one ending, and none may be a fault of the relay. */
async function judge(relay: TestRelay, report: UpstreamReport): Promise<void> {
  const typed = (events: readonly Placed[], type: string): Placed['event'][] =>
    events.map(({ event }) => event).filter((event) => event.type === type);
  const events = await until(
    () => relay.readLog(),
    (all) => typed(all, 'request.accepted').length === typed(all, 'request.settled').length,
    'the endings of all calls',
    ENDED_WITHIN_MS,
  ).catch(() => relay.readLog());
  const settled = typed(events, 'request.settled') as { request: string; end_reason: string }[];
  const accepted = typed(events, 'request.accepted') as { request: string }[];
  const ended = new Set(settled.map(({ request }) => request));
  if (ended.size !== settled.length) report.violations.push('a call is settled twice');
  for (const { request } of accepted)
    if (!ended.has(request)) report.violations.push(`${request} has no ending`);
  for (const { request, end_reason: reason } of settled) {
    report.endReasons[reason] = (report.endReasons[reason] ?? 0) + 1;
    if (reason === 'internal_error') report.violations.push(`${request} ended by a fault of the relay`);
  }
}
