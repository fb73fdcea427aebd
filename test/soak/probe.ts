import { appendFileSync } from 'node:fs';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { measureTurns } from '../support/turn-cpu.ts';

/**
 * Loaded into the processes of a soak by `--import`: writes the longest stall of the event loop and the heap
 * once a second, a line of JSON each, into a file named after the process. Outside a soak it does nothing.
 * - `stallMs`: time that the loop was late, which on a busy machine is also time that others had its core.
 * - `turnCpuMs`: most CPU time that the loop's thread used between two ticks, whatever else the machine does.
 */
export type Probed = { at: number; stallMs: number; turnCpuMs: number; heapMb: number };

const EVERY_MS = 1_000;
/** The histogram measures the timer's own interval too. */
const RESOLUTION_MS = 10;

const directory = process.env['SOAK_PROBE_DIR'];
if (directory !== undefined) {
  const file = path.join(directory, `${process.pid}.jsonl`);
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  const readTurnCpuMs = measureTurns();
  setInterval(() => {
    const probed: Probed = {
      at: Date.now(),
      stallMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS),
      turnCpuMs: readTurnCpuMs(),
      heapMb: process.memoryUsage().heapUsed / 2 ** 20,
    };
    delay.reset();
    try {
      appendFileSync(file, `${JSON.stringify(probed)}\n`);
    } catch {
      // The soak has ended and removed its directory.
    }
  }, EVERY_MS).unref();
}
