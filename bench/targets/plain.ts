import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { freePort, isListening, startProgram, waitUntilReady } from '../machine/programs.ts';
import type { FixedReply } from './bare-reply.ts';
import { ANY_KEY, type Running, type Surroundings, type Target } from './target.ts';

/** The targets that Daybook is compared with. */

/** No server between: what the driver and the upstream cost by themselves. */
export const DIRECT: Target = {
  name: 'direct',
  does: { relay: true, refuse: false },
  start: ({ upstreamPort }) =>
    Promise.resolve({
      port: upstreamPort,
      serverPid: null,
      postgresPid: null,
      authorization: ANY_KEY,
      statePath: null,
      dataDir: null,
      dialect: null,
      bringNear: null,
      stop: () => Promise.resolve(),
    }),
};

/** The floor in Node; see `bare.ts`. */
export const BARE: Target = {
  name: 'bare',
  does: { relay: true, refuse: false },
  start: (surroundings) =>
    startListener('bare', surroundings, (port) => [
      process.execPath,
      join(import.meta.dirname, 'bare.ts'),
      String(port),
      String(surroundings.upstreamPort),
    ]),
};

/** The floor of a refusal; see `bare-reply.ts`. */
export function bareReply(reply: FixedReply): Target {
  return {
    name: 'bare-reply',
    does: { relay: false, refuse: true },
    start: (surroundings) =>
      startListener('bare-reply', surroundings, (port) => [
        process.execPath,
        join(import.meta.dirname, 'bare-reply.ts'),
        String(port),
        JSON.stringify(reply),
      ]),
  };
}

/** The floor in C, where it is installed; else null. */
export function findNginx(): { target: Target; version: string } | null {
  // Debian keeps it where an ordinary user's PATH does not look.
  for (const command of ['nginx', '/usr/sbin/nginx']) {
    const { status, stderr } = spawnSync(command, ['-v'], { encoding: 'utf8' });
    if (status !== 0) continue;
    const start = (surroundings: Surroundings): Promise<Running> =>
      startListener('nginx', surroundings, (port) => {
        const directory = join(surroundings.directory, 'nginx');
        mkdirSync(directory, { recursive: true });
        const file = join(directory, 'nginx.conf');
        writeFileSync(file, nginxConfig(directory, port, surroundings.upstreamPort));
        return [command, '-e', join(directory, 'error.log'), '-c', file];
      });
    return {
      target: { name: 'nginx', does: { relay: true, refuse: false }, start },
      version: stderr.trim().replace('nginx version: ', ''),
    };
  }
  return null;
}

/** One worker, no access log, connections kept on both sides, bodies up to 1 MB in memory. */
function nginxConfig(directory: string, port: number, upstreamPort: number): string {
  // Started by root, nginx gives its workers to another user, who may not enter our directory.
  const user = userInfo().uid === 0 ? 'user root;\n' : '';
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `  ${kind}_temp_path ${directory}/${kind};`,
  );
  return `${user}worker_processes 1;
daemon off;
pid ${directory}/nginx.pid;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
  access_log off;
${temporary.join('\n')}
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 100000000;
  client_max_body_size 32m;
  client_body_buffer_size 1m;
  upstream mock {
    server 127.0.0.1:${upstreamPort};
    keepalive 512;
    keepalive_timeout 300s;
    keepalive_requests 100000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://mock;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer sk-up";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }
  }
}
`;
}

async function startListener(
  name: string,
  surroundings: Surroundings,
  command: (port: number) => string[],
): Promise<Running> {
  const port = await freePort();
  const program = startProgram([...surroundings.pinning.prefix('gateway'), ...command(port)], {
    logFile: join(surroundings.directory, `${name}.log`),
  });
  await waitUntilReady(name, program, () => isListening(port));
  return {
    port,
    serverPid: program.pid,
    postgresPid: null,
    authorization: ANY_KEY,
    statePath: null,
    dataDir: null,
    dialect: null,
    bringNear: null,
    stop: program.stop,
  };
}
