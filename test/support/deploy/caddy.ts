import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../../layout/source.ts';
import { until } from '../relay.ts';

/** Whether this machine has Caddy: on Debian `apt-get install caddy` brings it. */
export const canRunCaddy = spawnSync('caddy', ['version']).status === 0;

export type Caddy = AsyncDisposable & {
  /** Its log so far. */
  output(): string;
};

/**
 * Starts Caddy with deploy/Caddyfile on a port of the loopback interface, without TLS: only addresses are
 * replaced.
 * @param directory for its files.
 */
export async function startCaddy(directory: string, port: number, relayPort: number): Promise<Caddy> {
  mkdirSync(directory, { recursive: true });
  const file = path.join(directory, 'Caddyfile');
  let text = readFileSync(path.join(ROOT, 'deploy/Caddyfile'), 'utf8');
  const places: Record<string, string> = {
    // Requests of tests name this host in more than one way.
    'daybook.example.com {': `http://:${port} {\n\tbind 127.0.0.1`,
    'reverse_proxy 127.0.0.1:4000': `reverse_proxy 127.0.0.1:${relayPort}`,
    '\n{\n\tservers {': '\n{\n\tadmin off\n\tauto_https off\n\tservers {',
  };
  for (const [from, to] of Object.entries(places)) {
    if (text.split(from).length !== 2) throw new Error(`deploy/Caddyfile should have "${from}" once`);
    text = text.replace(from, to);
  }
  writeFileSync(file, text);
  const child = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], {
    env: { PATH: process.env['PATH'], HOME: directory },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => (output += bytes.toString()));
  const gone = once(child, 'exit');
  const isUp = (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`Caddy ended:\n${output}`);
    return fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  await until(isUp, Boolean, 'Caddy');
  return {
    output: () => output,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await gone;
    },
  };
}
