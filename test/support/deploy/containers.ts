import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stageProgram } from '../../../deploy/npm/build.ts';
import { type Compose, finalStage, listOf, serviceOf } from './compose.ts';
import type { Lock } from '../../layout/packages.ts';
import { ROOT } from '../../layout/source.ts';
import { until } from '../relay.ts';

/**
 * docker-compose.yml's commands without an engine: each runs as a process of this host, with the
 * service's own environment and nothing else, in a directory that has what the image would have.
 * What a container has to itself (addresses, ports, /run/secrets) is mapped, and every such mapping
 * is written down by whoever makes a `Stage`.
 */
export type Stage = {
  compose: Compose;
  /** What stands for /app. */
  app: string;
  /** Replaced wherever they stand in a service's environment or command. */
  mapping: Readonly<Record<string, string>>;
};

/** What a command did. */
export type Ended = { code: number | null; output: string };

/** A service's process that goes on. */
export type Running = {
  pid: number;
  output(): string;
  /** Waits until it has said this. @throws {Error} with all it said, when it ends or takes too long. */
  said(what: RegExp): Promise<RegExpExecArray>;
  /** Sends the service's stop signal; returns the exit code. */
  stop(): Promise<number | null>;
  kill(): Promise<void>;
};

const READY_WITHIN_MS = 60_000;
const COMPILE_CACHE = 'node_modules/.cache';

/**
 * Makes what the image would have at /app: the program of the npm package, without the page, and of the
 * packages those that `npm ci --omit=dev --omit=optional` would bring.
 */
export async function makeApp(directory: string): Promise<string> {
  const app = path.join(directory, 'app');
  await stageProgram(app);
  const { packages } = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')) as Lock & {
    packages: Record<string, { dev?: boolean; optional?: boolean; devOptional?: boolean }>;
  };
  for (const [place, { dev, optional, devOptional }] of Object.entries(packages)) {
    if (
      dev === true ||
      optional === true ||
      devOptional === true ||
      !/^node_modules\/(@[^/]+\/)?[^/]+$/.test(place)
    )
      continue;
    mkdirSync(path.dirname(path.join(app, place)), { recursive: true });
    symlinkSync(path.join(ROOT, place), path.join(app, place));
  }
  // Without the compile cache each process compiles all of them.
  mkdirSync(path.join(ROOT, COMPILE_CACHE), { recursive: true });
  symlinkSync(path.join(ROOT, COMPILE_CACHE), path.join(app, COMPILE_CACHE));
  return app;
}

/** Writes the secrets as their owner would have: files that nobody else may read. */
export function writeSecrets(directory: string, secrets: Record<string, string>): string {
  const place = path.join(directory, 'secrets');
  mkdirSync(place, { mode: 0o700 });
  for (const [name, text] of Object.entries(secrets))
    writeFileSync(path.join(place, name), `${text}\n`, { mode: 0o600 });
  return place;
}

/** Runs a service to its end, or another command of Daybook in it, as `docker compose run` does. */
export function runService(stage: Stage, name: string, command?: readonly string[]): Promise<Ended> {
  return ended(stage, name, entry(command ?? serviceOf(stage.compose, name).command));
}

/** A command through the entry point of the image. */
const entry = (command: readonly string[]): string[] => [...listOf('ENTRYPOINT'), ...command];

async function ended(stage: Stage, name: string, command: readonly string[]): Promise<Ended> {
  const { child, output } = launch(stage, name, command);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output: output() };
}

/** Runs a service's health check. */
export async function checkHealth(stage: Stage, name: string): Promise<Ended> {
  const [, ...command] = serviceOf(stage.compose, name).healthcheck?.test ?? [];
  return ended(stage, name, command);
}

/** Starts a service. */
export function startService(stage: Stage, name: string): Running {
  const { command, stop_signal: signal } = serviceOf(stage.compose, name);
  const { child, output } = launch(stage, name, entry(command));
  const gone = once(child, 'exit') as Promise<[number | null]>;
  const end = async (by: NodeJS.Signals): Promise<number | null> => {
    child.kill(by);
    return (await gone)[0];
  };
  return {
    pid: child.pid as number,
    output,
    async said(what) {
      const isOver = (): boolean => child.exitCode !== null || what.test(output());
      await until(isOver, (is) => is, `${name} saying ${what.source}`, READY_WITHIN_MS);
      const found = what.exec(output());
      if (found === null) throw new Error(`${name} ended:\n${output()}`);
      return found;
    },
    stop: () => end(signal as NodeJS.Signals),
    kill: async () => void (await end('SIGKILL')),
  };
}

function launch(
  { compose, app, mapping }: Stage,
  name: string,
  command: readonly string[],
): { child: ChildProcess; output(): string } {
  const mapped = (text: string): string =>
    Object.entries(mapping).reduce((all, [from, to]) => all.replaceAll(from, to), text);
  const service = serviceOf(compose, name);
  const ofImage = finalStage().flatMap(([instruction, rest]) =>
    instruction === 'ENV' ? [rest.split('=') as [string, string]] : [],
  );
  const ofService = Object.entries(service.environment).map(([variable, value]) => [variable, mapped(value)]);
  const [program = '', ...args] = command.map(mapped);
  // The image links this name to the file.
  const file = program === 'daybook' ? [path.join(app, 'bin/daybook.js')] : [];
  if (program !== 'node' && file.length === 0) throw new Error(`the image has no program ${program}`);
  const child = spawn(process.execPath, [...file, ...args], {
    cwd: app,
    env: Object.fromEntries([['PATH', process.env['PATH']], ...ofImage, ...ofService]) as Record<
      string,
      string
    >,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  const take = (bytes: Buffer): void => void (text += bytes.toString());
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  return { child, output: () => text };
}
