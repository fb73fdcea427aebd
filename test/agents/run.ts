import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Agent, Place } from './agents.ts';

/** What an agent did. */
export type Ran = {
  exitCode: number | null;
  /** What it printed. */
  output: string;
  errors: string;
  /** What its tool wrote; null: nothing. */
  written: string | null;
  /** Whom it wanted to reach beside the relay. */
  strayed: string[];
};

const PROMPT = 'When does the tide turn? Write the answer to tide.txt and tell it to me.';
/** For an agent that hangs: one takes seconds to start, and a minute on a machine with other things to do. */
const RUN_MS_MAX = 300_000;

/**
 * Lets an agent do one thing, in directories of its own. Whatever it wants of the internet goes to a
 * proxy that lets nothing through and remembers it.
 * @param program its path; one that ends in `.js` is run by Node.
 * @param interrupted settles when the agent is to be interrupted, as by Ctrl+C.
 */
export async function runAgent(
  agent: Agent,
  program: string,
  where: Omit<Place, 'home'>,
  interrupted?: (signal: AbortSignal) => Promise<void>,
): Promise<Ran> {
  const home = await mkdtemp(path.join(tmpdir(), 'daybook-agent-'));
  const work = path.join(home, 'work');
  const place = { ...where, home };
  const strayed: string[] = [];
  const proxy = createServer((request, response) => {
    strayed.push(request.url ?? '');
    response.writeHead(403).end();
  });
  proxy.on('connect', ({ url }, socket) => {
    strayed.push(url ?? '');
    socket.on('error', () => {}); // Some agents reset the connection that they are refused.
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  try {
    await mkdir(work);
    for (const [name, text] of Object.entries(agent.files?.(place) ?? {})) {
      await mkdir(path.dirname(path.join(home, name)), { recursive: true });
      await writeFile(path.join(home, name), text);
    }
    const proxyUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const env = {
      PATH: process.env['PATH'] ?? '',
      HOME: home,
      TMPDIR: home,
      CI: '1',
      NO_COLOR: '1',
      NODE_USE_ENV_PROXY: '1',
      HTTP_PROXY: proxyUrl,
      HTTPS_PROXY: proxyUrl,
      http_proxy: proxyUrl,
      https_proxy: proxyUrl,
      NO_PROXY: '127.0.0.1,localhost',
      no_proxy: '127.0.0.1,localhost',
      ...agent.env(place),
    };
    const args = agent.args(PROMPT, place);
    const isScript = program.endsWith('.js');
    const options = { cwd: work, env };
    const told = await run(
      isScript ? process.execPath : program,
      isScript ? [program, ...args] : args,
      options,
      interrupted,
    );
    const written = await readFile(path.join(work, 'tide.txt'), 'utf8').catch(() => null);
    return { ...told, written, strayed };
  } finally {
    proxy.close();
    await rm(home, { recursive: true, force: true, maxRetries: 3 });
  }
}

function run(
  program: string,
  args: readonly string[],
  options: { cwd: string; env: Record<string, string> },
  interrupted?: (signal: AbortSignal) => Promise<void>,
): Promise<Pick<Ran, 'exitCode' | 'output' | 'errors'>> {
  return new Promise((resolve, reject) => {
    // A group of its own: some agents are two processes, of which the second keeps the pipes open.
    const child = spawn(program, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const signal = (name: NodeJS.Signals): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, name);
      } catch {
        // All of them have ended.
      }
    };
    const timer = setTimeout(() => signal('SIGKILL'), RUN_MS_MAX);
    const closed = new AbortController();
    interrupted?.(closed.signal).then(() => signal('SIGINT'), reject);
    let output = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    child.once('error', reject);
    child.once('close', (exitCode) => {
      clearTimeout(timer);
      closed.abort();
      resolve({ exitCode, output, errors });
    });
  });
}
