import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A program that the bench has started. It is stopped with `stop`, never by name. */
export type Program = {
  pid: number;
  hasExited: () => boolean;
  /** The end of what it printed, to explain why it is not there any more. */
  output: () => string;
  /** Ends it, first politely; resolves when it is gone. */
  stop: () => Promise<void>;
};

export type ProgramOptions = {
  env?: Record<string, string>;
  /** Gets standard output and standard error. */
  logFile: string;
};

/** For the upstream and the driver only: fewer, longer-spaced collections of what they throw away. */
export const LOAD_NODE_FLAGS = ['--max-semi-space-size=64'];

const POLL_MS = 20;
const OUTPUT_TAIL_CHARACTERS = 2000;

/** How long a program may take to be ready. A first start makes a database cluster; LiteLLM takes long. */
const READY_TIMEOUT_MS = 120_000;

/** How long a program may take to end by itself; Postgres writes a checkpoint on its way out. */
const STOP_TIMEOUT_MS = 20_000;

/**
 * Starts a program with nothing of our environment but what any program needs: a DATABASE_URL or
 * NODE_OPTIONS of the person who runs the bench must not change what is measured.
 */
export function startProgram(command: readonly string[], options: ProgramOptions): Program {
  const log = openSync(options.logFile, 'a');
  const [file = '', ...args] = command;
  const child = spawn(file, args, {
    env: { ...plainEnvironment(), ...options.env },
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  let failure = '';
  child.on('error', (error) => {
    failure = error.message;
  });
  const hasExited = (): boolean => failure !== '' || child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid ?? 0,
    hasExited,
    output: () => (failure || readFileSync(options.logFile, 'utf8')).slice(-OUTPUT_TAIL_CHARACTERS),
    stop: () => stopChild(child, hasExited),
  };
}

async function stopChild(child: ChildProcess, hasExited: () => boolean): Promise<void> {
  if (hasExited()) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await exited;
  clearTimeout(timer);
}

/** Without it, each start of a driver or upstream would compile its modules anew. */
const COMPILE_CACHE = ['NODE_COMPILE_CACHE', 'NODE_COMPILE_CACHE_PORTABLE'];

/** What a program gets of our own environment. */
export function plainEnvironment(): Record<string, string> {
  const names = [...['PATH', 'HOME', 'USER', 'LANG', 'TMPDIR'], ...COMPILE_CACHE];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/** Resolves when `isReady` says so. @throws when the program ends before, or takes too long. */
export async function waitUntilReady(
  name: string,
  program: Program,
  isReady: () => Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  while (!(await isReady())) {
    if (program.hasExited()) throw new Error(`${name} ended before it was ready:\n${program.output()}`);
    if (performance.now() > deadline) {
      await program.stop();
      throw new Error(`${name} was not ready after ${READY_TIMEOUT_MS / 1000} s:\n${program.output()}`);
    }
    await sleep(POLL_MS);
  }
}

/** Whether something accepts connections there. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => socket.destroy());
    socket.once('error', () => resolve(false));
    socket.once('close', (hadError) => resolve(!hadError));
  });
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port');
  return address.port;
}
