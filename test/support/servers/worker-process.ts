import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { publishingWithin } from '../directory.ts';

/** A worker in a process of its own, as `npm run worker` runs it. */
export type WorkerProcess = {
  pid: number;
  output(): string;
  /** SIGKILL; returns when the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM; returns the exit code. */
  stop(): Promise<number | null>;
};

const MAIN = path.join(import.meta.dirname, '../../../worker/main.ts');

export function spawnWorker(env: Record<string, string>): WorkerProcess {
  const child = spawn(process.execPath, [MAIN], {
    env: { ...process.env, ...publishingWithin(env) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const take = (text: Buffer): void => void (output += text.toString());
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  const gone = once(child, 'exit') as Promise<[number | null]>;
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    child.kill(signal);
    return (await gone)[0];
  };
  return {
    pid: child.pid as number,
    output: () => output,
    kill: async () => void (await end('SIGKILL')),
    stop: () => end('SIGTERM'),
  };
}
