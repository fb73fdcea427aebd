import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { type Goal, relayGoals } from './goals.ts';
import { findPinning, type Pinning } from './machine/pinning.ts';
import { freePort, isListening, LOAD_NODE_FLAGS, startProgram, waitUntilReady } from './machine/programs.ts';
import { type Run, runAll } from './run.ts';
import type { Settings } from './settings.ts';
import { renderSummaries, summarize, type Summary } from './summary.ts';
import { daybook } from './targets/daybook.ts';
import { earlierDaybook } from './targets/earlier.ts';
import { readGateway } from './targets/gateway.ts';
import { BARE, DIRECT, findNginx } from './targets/plain.ts';
import type { Target } from './targets/target.ts';

export type RelayReport = { notes: string[]; goals: Goal[]; summaries: Summary[]; runs: Run[] };

/** Where a bench works, who ends what it starts, and who may call it off. */
export type Stage = { directory: string; cleanup: AsyncDisposableStack; signal: AbortSignal };

/** Measures the relay and what it is compared with; prints each workload's table when it is done. */
export async function benchRelay(
  settings: Settings,
  { directory, cleanup, signal }: Stage,
): Promise<RelayReport> {
  const pinning = findPinning();
  const nginx = findNginx();
  const model = cpus()[0]?.model.trim() ?? 'unknown';
  const machine = `Node ${process.versions.node} on ${cpus().length} × ${model}`;
  const load = `load average before the start: ${loadavg()[0]?.toFixed(2)}`;
  const nginxNote = nginx?.version ?? 'nginx is not installed here: left out';
  const gateways = settings.gateways.map(readGateway);
  const notes = [machine, load, pinning.note, nginxNote, ...gateways.map(({ note }) => note)];
  console.log(notes.join('\n'));

  const own: Target[] = [DIRECT, BARE, ...(nginx ? [nginx.target] : [])];
  own.push(daybook('strict', settings.keyCount, 'off'), daybook('overlapped', settings.keyCount, 'off'));
  const targets = own.filter(({ name }) => settings.targets.includes(name));
  if (settings.before !== null) targets.push(await earlierDaybook(settings.before, settings.keyCount));
  targets.push(...gateways.map(({ target }) => target));
  const runs = await runAll({
    ...settings,
    targets,
    withBareReply: settings.targets.includes('bare-reply'),
    surroundings: { directory, pinning, upstreamPort: await startUpstream(directory, pinning, cleanup) },
    cleanup,
    signal,
    onMeasured: (workload, measured) => console.log(renderSummaries(workload, summarize(workload, measured))),
  });
  const summaries = settings.work.flatMap((workload) =>
    summarize(
      workload,
      runs.filter((run) => run.workload === workload),
    ),
  );
  return { notes, goals: relayGoals(summaries), summaries, runs };
}

export async function startUpstream(
  directory: string,
  pinning: Pinning,
  cleanup: AsyncDisposableStack,
): Promise<number> {
  const port = await freePort();
  const program = join(import.meta.dirname, 'upstream/main.ts');
  const upstream = startProgram(
    [...pinning.prefix('load'), process.execPath, ...LOAD_NODE_FLAGS, program, String(port)],
    {
      logFile: join(directory, 'upstream.log'),
    },
  );
  cleanup.defer(upstream.stop);
  await waitUntilReady('the mock upstream', upstream, () => isListening(port));
  return port;
}
