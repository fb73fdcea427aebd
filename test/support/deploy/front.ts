import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { type Agent, request } from 'node:https';
import path from 'node:path';
import { ROOT } from '../../layout/source.ts';
import { until } from '../relay.ts';
import { refusedPort } from '../upstream/upstream.ts';

/** The front of docker-compose.yml as a process of this host. */
export type Front = AsyncDisposable & {
  port: number;
  /** Where its own health is told, by HTTP. */
  healthUrl: string;
  /** What it has said. */
  output(): string;
  /** Makes a request and resolves with the head of its reply; the body is the message's to read. */
  send(options: SendOptions): Promise<IncomingMessage>;
};

export type SendOptions = {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /** The address to come from. */
  from?: string;
  /** Leaves when this is aborted. */
  signal?: AbortSignal;
  /** Keeps connections to the front; absent: each request has a connection of its own. */
  agent?: Agent;
};

/** As many as the hosts of tests allow: HAProxy needs two descriptors for each, and some. */
const CONNECTIONS_MAX = 4_000;

/** Where Debian and others put it. */
const HAPROXY = ['haproxy', '/usr/sbin/haproxy'].find((each) => spawnSync(each, ['-v']).status === 0);

/** Whether this machine has what it takes to run the front: HAProxy, and OpenSSL for a certificate. */
export const canRunFront = HAPROXY !== undefined && spawnSync('openssl', ['version']).status === 0;

/**
 * Starts it with its own configuration, in which only places are replaced: where it finds names,
 * its certificate, and the ports; and the number of connections, which this host may not allow.
 */
export async function startFront(
  directory: string,
  nameServerPort: number,
  serverPort: number,
): Promise<Front> {
  const port = await refusedPort();
  const healthPort = await refusedPort();
  const file = path.join(directory, 'haproxy.cfg');
  const places: Record<string, string> = {
    'parse-resolv-conf': `nameserver test 127.0.0.1:${nameServerPort}`,
    '/run/secrets/front.pem': makeCertificate(directory),
    'bind :8443': `bind 127.0.0.1:${port}`,
    'bind 127.0.0.1:8080': `bind 127.0.0.1:${healthPort}`,
    'maxconn 20000': `maxconn ${CONNECTIONS_MAX}`,
    'server:4000': `server:${serverPort}`,
  };
  let text = readFileSync(path.join(ROOT, 'deploy/haproxy.cfg'), 'utf8');
  for (const [from, to] of Object.entries(places)) {
    if (text.split(from).length !== 2) throw new Error(`deploy/haproxy.cfg should have "${from}" once`);
    text = text.replace(from, to);
  }
  writeFileSync(file, text);
  const child = spawn(HAPROXY as string, ['-f', file], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  const take = (bytes: Buffer): void => void (said += bytes.toString());
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  const gone = once(child, 'exit');
  const healthUrl = `http://127.0.0.1:${healthPort}/alive`;
  const isUp = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended:\n${said}`);
    return fetch(healthUrl).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  await until(isUp, (is) => is, 'the front');
  return {
    port,
    healthUrl,
    output: () => said,
    send: ({ body = '', from, signal, agent, ...options }) =>
      new Promise((resolve, reject) => {
        const place = { host: '127.0.0.1', port, rejectUnauthorized: false, agent: agent ?? false };
        const more = {
          ...(from === undefined ? {} : { localAddress: from }),
          ...(signal === undefined ? {} : { signal }),
        };
        request({ ...place, ...options, ...more }, resolve)
          .on('error', reject)
          .end(body);
      }),
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await gone;
    },
  };
}

/** A certificate of its own with its key, in one file, as HAProxy wants it. */
function makeCertificate(directory: string): string {
  const [certificate, key, both] = ['cert.pem', 'key.pem', 'front.pem'].map((name) =>
    path.join(directory, name),
  ) as [string, string, string];
  const what = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=localhost',
  ];
  execFileSync('openssl', ['req', '-x509', ...what, '-keyout', key, '-out', certificate], {
    stdio: 'ignore',
  });
  writeFileSync(both, readFileSync(certificate, 'utf8') + readFileSync(key, 'utf8'), { mode: 0o600 });
  return both;
}

/** A reply's body, read to its end. */
export async function textOf(reply: IncomingMessage): Promise<string> {
  let text = '';
  for await (const bytes of reply) text += String(bytes);
  return text;
}
