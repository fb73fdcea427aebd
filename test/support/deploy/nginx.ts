import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { ROOT } from '../../layout/source.ts';
import { until } from '../relay.ts';

/** Where Debian and others put it. */
const NGINX = ['nginx', '/usr/sbin/nginx'].find((each) => spawnSync(each, ['-v']).status === 0);

/** Whether this machine has nginx. */
export const canRunNginx = NGINX !== undefined;

export type Nginx = AsyncDisposable & {
  /** Its error log so far. */
  errors(): string;
};

/**
 * deploy/nginx.conf on a port of the loopback interface, without TLS: only places are replaced, and the lines
 * of the certificate removed.
 */
export function recommendedSite(port: number, relayPort: number): string {
  let text = readFileSync(path.join(ROOT, 'deploy/nginx.conf'), 'utf8');
  const places: Record<string, string> = {
    'listen 443 ssl;': `listen 127.0.0.1:${port};`,
    'ssl_certificate /etc/nginx/daybook.crt;': '',
    'ssl_certificate_key /etc/nginx/daybook.key;': '',
    'server 127.0.0.1:4000;': `server 127.0.0.1:${relayPort};`,
  };
  for (const [from, to] of Object.entries(places)) {
    if (text.split(from).length !== 2) throw new Error(`deploy/nginx.conf should have "${from}" once`);
    text = text.replace(from, to);
  }
  return text;
}

/**
 * Starts nginx with these sites.
 * @param directory empty, for its files.
 * @param ports of the loopback interface, on which the sites listen.
 */
export async function startNginx(
  directory: string,
  sites: readonly string[],
  ports: readonly number[],
): Promise<Nginx> {
  mkdirSync(directory, { recursive: true });
  const file = path.join(directory, 'nginx.conf');
  const errorLog = path.join(directory, 'error.log');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${directory}/${kind};`,
  );
  // One process, of this user: started by root, workers would belong to another one, who may not enter here.
  const main = `daemon off; master_process off; pid ${directory}/nginx.pid;\nevents {}\n`;
  const http = ['access_log off;', ...temporary, ...sites].join('\n');
  writeFileSync(file, `${main}http {\n${http}\n}\n`);
  const child = spawn(NGINX as string, ['-e', errorLog, '-p', directory, '-c', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()));
  const gone = once(child, 'exit');
  const areUp = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`nginx ended:\n${said}`);
    return (await Promise.all(ports.map(isListening))).every(Boolean);
  };
  await until(areUp, Boolean, 'nginx');
  return {
    errors: () => readFileSync(errorLog, 'utf8'),
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await gone;
    },
  };
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
