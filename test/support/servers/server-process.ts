import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { readStartFlags } from '../../../bench/targets/start-flags.ts';
import { publishingWithin } from '../directory.ts';
import { READYZ_TOKEN } from './operator.ts';

/** A server in a process of its own, as `npm start` runs it. */
export type ServerProcess = {
  port: number;
  baseUrl: string;
  pid: number;
  /** The secret in the file that its greeting named; null when it was not the first start. */
  firstKey: string | null;
  /** From the start of the process to the greeting, which comes when calls are taken. */
  readyMs: number;
  /** What it has written so far. */
  output(): string;
  /** SIGKILL; returns when the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM; returns the exit code. */
  stop(): Promise<number | null>;
};

const ROOT = path.join(import.meta.dirname, '../../..');
const READY_WITHIN_MS = 180_000;
const PORT_LINE = /Base URL for clients: (\S+:(\d+)\/v1)/;

/**
 * @param root the sources of the version that runs.
 * @throws {Error} with its output when it does not come up.
 */
export async function spawnServer(env: Record<string, string>, root = ROOT): Promise<ServerProcess> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, [...readStartFlags(root), path.join(root, 'server/main.ts')], {
    env: { ...process.env, PORT: '0', LAME_DUCK_MS: '0', READYZ_TOKEN, ...publishingWithin(env) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const greeted = Promise.withResolvers<void>();
  const take = (text: Buffer): void => {
    output += text.toString();
    if (PORT_LINE.test(output)) greeted.resolve();
  };
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  const gone = once(child, 'exit') as Promise<[number | null]>;
  const failed = (why: string) => (): never => {
    throw new Error(`the server ${why}:\n${output}`);
  };
  const timer = new Promise<void>((resolve) => setTimeout(resolve, READY_WITHIN_MS).unref());
  const ready = [greeted.promise, gone.then(failed('ended')), timer.then(failed('did not get ready'))];
  await Promise.race(ready).catch((error: unknown) => {
    // It would become ready later, beside the one that is started in its place.
    child.kill('SIGKILL');
    throw error;
  });
  const [, baseUrl = '', port = ''] = PORT_LINE.exec(output) ?? [];
  return {
    port: Number(port),
    baseUrl,
    pid: child.pid as number,
    firstKey: readFirstKey(output),
    readyMs: performance.now() - startedMs,
    output: () => output,
    async kill() {
      child.kill('SIGKILL');
      await gone;
    },
    async stop() {
      child.kill('SIGTERM');
      const [code] = await gone;
      return code;
    },
  };
}

function readFirstKey(output: string): string | null {
  const file = /^ {2}(\S+first-key\.txt)$/m.exec(output)?.[1];
  return file === undefined ? null : readFileSync(file, 'utf8').trim();
}
