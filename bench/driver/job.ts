import type { ProcessTree } from '../machine/cpu.ts';
import type { BodySpec } from './bodies.ts';
import type { Expectation } from './connection.ts';
import type { Seen } from './traffic.ts';

/** How requests are made. */
export type Load =
  /** So many at a time; each is followed by the next. They start `spreadMs` apart. */
  | { mode: 'closed'; connections: number; spreadMs: number }
  /** So many per second, whether or not earlier ones are answered. */
  | { mode: 'open'; perSecond: number }
  /** So many streams that are opened, kept, and dropped at the end. */
  | { mode: 'hold'; streams: number; spreadMs: number };

/** With which the benchmark's server reports its state. */
export const READYZ_TOKEN = 'bench-readyz-token';

/** What one run of the driver does; it reads this as JSON from standard input. */
export type Job = {
  port: number;
  path: string;
  headers: Record<string, string>;
  body: BodySpec;
  expect: Expectation;
  load: Load;
  /** Time at full speed before the load begins, for the target's compiler. */
  prewarmSecs: number;
  /** Time under load before anything counts. */
  warmupSecs: number;
  secs: number;
  /** Where the target tells how often it has asked its store about limits; null where it does not. */
  statePath: string | null;
  /** Whose CPU time and memory to report. */
  trees: Record<string, ProcessTree>;
};

export type TreeUsage = { cpuUs: number; rssKb: number; rssBeforeKb: number };

/** What it reports, as JSON on standard output. */
export type JobResult = Seen & {
  secs: number;
  /** Requests under way at the end of the measured time. */
  held: number;
  /** How often the target asked its store about limits in the measured time; null where it does not tell. */
  exchanges: number | null;
  trees: Record<string, TreeUsage>;
};
