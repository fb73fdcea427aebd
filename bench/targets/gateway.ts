import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { freePort, isListening, type Program, startProgram, waitUntilReady } from '../machine/programs.ts';
import { UsageError } from '../settings.ts';
import { ANY_KEY, type Running, type Surroundings, type Target } from './target.ts';

/**
 * Another gateway as a target, by a description: `gateways/NAME/gateway.json`, or a file like it. `${…}` in
 * its texts and in its files stands for a place. `installed`: the directory that it is installed in.
 * `description`: the directory of the description. `directory`: one of its own in this run. `port`: where it
 * has to listen. `upstreamPort`: where the mock upstream does.
 */
const Description = z.strictObject({
  /** The program; its output goes to a file. It is pinned as every target, and its children count. */
  command: z.array(z.string()).min(1),
  environment: z.record(z.string(), z.string()).default({}),
  /** Files beside the description that are copied to `directory`, with places filled in. */
  files: z.array(z.string()).default([]),
  /**
   * For a gateway that chooses its port: a regular expression with one group, for the output that names it.
   * Absent: it listens on `port`.
   */
  printedPort: z.string().optional(),
  /** A path that gives 200 as soon as it can take calls. Absent: as soon as it listens. */
  readyPath: z.string().optional(),
  path: z.string().default('/v1/chat/completions'),
  headers: z.record(z.string(), z.string()).default({}),
  modelPrefix: z.string().default(''),
  /** Whether it rewrites JSON replies, so that their length isn't the upstream's. */
  rewrites: z.boolean().default(false),
});
type Description = z.infer<typeof Description>;

const SHIPPED = join(import.meta.dirname, '../gateways');

/**
 * The gateway of an option `NAME=DIR`.
 * @returns it as a target of that name, and a line for the reader.
 * @throws {UsageError} where there is no such description, it is wrong, or nothing is installed there.
 */
export function readGateway(option: string): { target: Target; note: string } {
  const [, name = '', directory = ''] = /^(.+?)=(.+)$/.exec(option) ?? [];
  const file = name.endsWith('.json') ? resolve(name) : join(SHIPPED, name, 'gateway.json');
  if (name === '' || !existsSync(file))
    throw new UsageError(`--gateway takes NAME=DIR with a known name or a description, not "${option}"`);
  const installed = resolve(directory);
  if (!existsSync(installed)) throw new UsageError(`--gateway ${name}: there is no ${installed}`);
  const parsed = Description.safeParse(JSON.parse(readFileSync(file, 'utf8')));
  if (!parsed.success) throw new UsageError(`${file}: ${z.prettifyError(parsed.error)}`);
  const targetName = name.endsWith('.json') ? basename(name, '.json') : name;
  const target: Target = {
    name: targetName,
    does: { relay: true, refuse: false },
    start: (surroundings) =>
      startGateway(targetName, parsed.data, { installed, description: dirname(file) }, surroundings),
  };
  return { target, note: `${targetName}: ${installed}` };
}

type Places = { installed: string; description: string };

async function startGateway(
  name: string,
  description: Description,
  places: Places,
  { directory: runDirectory, pinning, upstreamPort }: Surroundings,
): Promise<Running> {
  const directory = join(runDirectory, name);
  mkdirSync(directory, { recursive: true });
  const ownPort = await freePort();
  const fill = fillerFor({ ...places, directory, port: String(ownPort), upstreamPort: String(upstreamPort) });
  const filled = (texts: Record<string, string>): Record<string, string> =>
    Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, fill(text)]));
  for (const file of description.files)
    writeFileSync(join(directory, file), fill(readFileSync(join(places.description, file), 'utf8')));
  const logFile = join(runDirectory, `${name}.log`);
  const program = startProgram([...pinning.prefix('gateway'), ...description.command.map(fill)], {
    env: filled(description.environment),
    logFile,
  });
  const { printedPort } = description;
  const findPort = (): number | null => (printedPort === undefined ? ownPort : portIn(logFile, printedPort));
  await waitUntilReady(name, program, async () => {
    const port = findPort();
    return port !== null && (await isReady(port, description.readyPath));
  });
  return runningAt(findPort() ?? ownPort, program, {
    path: description.path,
    headers: filled(description.headers),
    modelPrefix: description.modelPrefix,
    rewrites: description.rewrites,
  });
}

function runningAt(port: number, program: Program, dialect: Running['dialect']): Running {
  return {
    port,
    serverPid: program.pid,
    postgresPid: null,
    authorization: ANY_KEY,
    statePath: null,
    dataDir: null,
    dialect,
    bringNear: null,
    stop: program.stop,
  };
}

function fillerFor(places: Readonly<Record<string, string>>): (text: string) => string {
  return (text) =>
    text.replace(/\$\{(\w+)\}/g, (_whole, place: string) => {
      const value = places[place];
      if (value === undefined) throw new UsageError(`a gateway's description names the place "${place}"`);
      return value;
    });
}

/** What a gateway printed of its port; null: nothing yet. */
function portIn(logFile: string, pattern: string): number | null {
  const [, port] = new RegExp(pattern).exec(readFileSync(logFile, 'utf8')) ?? [];
  return port === undefined ? null : Number(port);
}

async function isReady(port: number, path: string | undefined): Promise<boolean> {
  if (path === undefined) return isListening(port);
  try {
    return (await fetch(`http://127.0.0.1:${port}${path}`)).status === 200;
  } catch {
    return false;
  }
}
