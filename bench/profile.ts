import { mkdirSync, writeFileSync } from 'node:fs';
import type { HeapProfiler, Profiler } from 'node:inspector';
import { dirname, join, relative } from 'node:path';
import { WebSocket } from 'ws';
import { freePort } from './machine/programs.ts';
import { findPinning } from './machine/pinning.ts';
import { type Stage, startUpstream } from './relay.ts';
import { jobFor, runDriver } from './run.ts';
import type { Settings } from './settings.ts';
import { figure, table } from './table.ts';
import { daybook } from './targets/daybook.ts';
import { type WorkloadName, WORKLOADS } from './workloads.ts';

/** A function's own part of the CPU time or of the allocated bytes, in one workload. */
type Share = { workload: WorkloadName; kind: 'cpu' | 'allocation'; name: string; percent: number };

export type ProfileReport = { shares: Share[]; goals: [] };

const SHOWN = 25;
/** Bytes between two samples of the heap. */
const HEAP_SAMPLING_BYTES = 4_096;
const CPU_SAMPLING_US = 200;
const ROOT = join(import.meta.dirname, '..');

/**
 * Profiles a server under load by V8's inspector: CPU samples and allocations (collected ones too), one after
 * the other since each raises the other's figures. The profiles are written beside `--out`, for the browser's
 * developer tools.
 */
export async function benchProfile(
  settings: Settings,
  { directory, cleanup, signal }: Stage,
): Promise<ProfileReport> {
  const pinning = findPinning();
  const surroundings = { directory, pinning, upstreamPort: await startUpstream(directory, pinning, cleanup) };
  const port = await freePort();
  const flags = [`--inspect=127.0.0.1:${port}`];
  const running = await daybook('strict', settings.keyCount, 'off', flags).start(surroundings, 'load');
  cleanup.defer(() => running.stop());
  const inspector = await Inspector.connect(port);
  cleanup.defer(() => inspector.close());
  if (settings.out !== null) mkdirSync(dirname(settings.out), { recursive: true });
  const shares: Share[] = [];
  for (const workload of settings.work) {
    const drive = (isFirst: boolean): Promise<unknown> =>
      runDriver(jobFor(WORKLOADS[workload], running, isFirst, settings), { surroundings, signal });
    await drive(true);
    await inspector.send('Profiler.enable', {});
    await inspector.send('Profiler.setSamplingInterval', { interval: CPU_SAMPLING_US });
    await inspector.send('Profiler.start', {});
    await drive(false);
    const cpu = await inspector.send<Profiler.StopReturnType>('Profiler.stop', {});
    await inspector.send('HeapProfiler.startSampling', {
      samplingInterval: HEAP_SAMPLING_BYTES,
      includeObjectsCollectedByMajorGC: true,
      includeObjectsCollectedByMinorGC: true,
    });
    await drive(false);
    const heap = await inspector.send<HeapProfiler.StopSamplingReturnType>('HeapProfiler.stopSampling', {});
    if (settings.out !== null) {
      writeFileSync(`${settings.out}.${workload}.cpuprofile`, JSON.stringify(cpu.profile));
      writeFileSync(`${settings.out}.${workload}.heapprofile`, JSON.stringify(heap.profile));
    }
    shares.push(...sharesOf(workload, 'cpu', cpuByFunction(cpu.profile)));
    shares.push(...sharesOf(workload, 'allocation', bytesByFunction(heap.profile.head)));
  }
  return { shares, goals: [] };
}

export function renderProfile(shares: readonly Share[]): string {
  const groups = Map.groupBy(shares, ({ workload, kind }) => `${workload}, ${kind}`);
  return [...groups]
    .map(([title, group]) =>
      table(
        [title, '%'],
        group.slice(0, SHOWN).map(({ name, percent }) => [name, figure(percent)]),
      ),
    )
    .join('\n\n');
}

function sharesOf(workload: WorkloadName, kind: Share['kind'], amounts: Map<string, number>): Share[] {
  const total = [...amounts.values()].reduce((sum, amount) => sum + amount, 0);
  return [...amounts]
    .map(([name, amount]) => ({ workload, kind, name, percent: (amount / total) * 100 }))
    .toSorted((left, right) => right.percent - left.percent);
}

/** Microseconds by function, without idle time. */
function cpuByFunction({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Map<string, number> {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const amounts = new Map<string, number>();
  for (const [index, id] of samples.entries()) {
    const name = names.get(id) ?? '';
    if (name === '(idle)') continue;
    amounts.set(name, (amounts.get(name) ?? 0) + (timeDeltas[index] ?? 0));
  }
  return amounts;
}

function bytesByFunction(head: HeapProfiler.SamplingHeapProfileNode): Map<string, number> {
  const amounts = new Map<string, number>();
  const pending = [head];
  for (let node = pending.pop(); node; node = pending.pop()) {
    const name = nameOf(node.callFrame);
    amounts.set(name, (amounts.get(name) ?? 0) + node.selfSize);
    pending.push(...node.children);
  }
  return amounts;
}

function nameOf({
  functionName,
  url,
  lineNumber,
}: {
  functionName: string;
  url: string;
  lineNumber: number;
}) {
  if (url === '') return functionName;
  const file = url.startsWith('file://') ? relative(ROOT, new URL(url).pathname) : url;
  return `${functionName || '(anonymous)'} ${file}:${lineNumber + 1}`;
}

/** A session of V8's inspector in another process. */
class Inspector {
  private readonly socket: WebSocket;
  private readonly waiting = new Map<number, PromiseWithResolvers<unknown>>();
  private lastId = 0;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: Buffer) => {
      const { id, result, error } = JSON.parse(data.toString()) as {
        id?: number;
        result?: unknown;
        error?: { message: string };
      };
      const reply = id === undefined ? undefined : this.waiting.get(id);
      if (id === undefined || !reply) return;
      this.waiting.delete(id);
      if (error) reply.reject(new Error(`inspector: ${error.message}`));
      else reply.resolve(result);
    });
    socket.on('close', () => {
      for (const reply of this.waiting.values()) reply.reject(new Error('the inspector has closed'));
    });
  }

  static async connect(port: number): Promise<Inspector> {
    const reply = await fetch(`http://127.0.0.1:${port}/json/list`);
    const [target] = (await reply.json()) as { webSocketDebuggerUrl: string }[];
    if (!target) throw new Error('the server has no inspector');
    const socket = new WebSocket(target.webSocketDebuggerUrl, {
      perMessageDeflate: false,
      maxPayload: 2 ** 30,
    });
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    return new Inspector(socket);
  }

  send<T>(method: string, params: object): Promise<T> {
    const reply = Promise.withResolvers<unknown>();
    this.lastId++;
    this.waiting.set(this.lastId, reply);
    this.socket.send(JSON.stringify({ id: this.lastId, method, params }));
    return reply.promise as Promise<T>;
  }

  close(): void {
    this.socket.close();
  }
}
