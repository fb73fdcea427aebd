import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { LAME_DUCK_DEFAULT_MS } from '#server/process/bounds.ts';
import { balancerEntry, haproxyEntry } from '../support/deploy/entry.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { openRequests } from '../support/faults.ts';
import { openLog, until, upstreamsVariable } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { refusedPort } from '../support/upstream/upstream.ts';
import { clusterGround, type Ground } from './ground.ts';
import type { Finding } from './verdict.ts';

export type RelaysOptions = {
  count: number;
  /** Whether HAProxy is to find them: by a common name, at addresses of their own and one port. */
  oneAddressEach: boolean;
};

/** Relays on one database, before which a load balancer can be put. */
export type Relays = AsyncDisposable & {
  directory: string;
  servers: ServerProcess[];
  addresses: readonly string[];
  port: number;
  key: string;
  log: ReturnType<typeof openLog>;
  /** Stops one as SIGTERM does, and starts it again with this LAME_DUCK_MS. @returns its exit code. */
  restart(index: number, lameDuckMs: number): Promise<number | null>;
};

export type RollingOptions = {
  /** Restarts, one relay after the other. */
  n: number;
  /** Calls a second, begun at a fixed rate however long the replies take. */
  rate: number;
  /** One call in this many is streamed; 5 unless given. */
  streamEvery?: number;
  /** What stands before them: the tests' own balancer (the default), or HAProxy with deploy/haproxy.cfg. */
  front?: 'balancer' | 'haproxy';
  /** The interval of the balancer's health check. HAProxy's is that of its configuration. */
  checkMs?: number;
  /** LAME_DUCK_MS of the relays that are restarted; absent: the default. */
  nextLameDuckMs?: number;
};

export type RollingVerdict = {
  restarts: number;
  calls: number;
  /** Replies other than 200, and connections that broke before the head of a reply. */
  failed: number;
  /** Replies that began and did not come to their end. */
  cut: number;
  retries: number;
  abandoned: number;
  /** How often each kind of failure was seen. */
  reasons: Record<string, number>;
  /** The last reports of what stands before the relays, if anything failed. */
  notes: string[];
  violations: Finding[];
};

const TICK_MS = 20;
const STREAM_EVENTS = 10;
const STREAM_EVERY_MS = 100;
const JSON_AFTER_MS = 20;

const COMMAND_RELAYS = 3;

/** `npm run chaos -- rolling`. */
export async function rolling(options: RollingOptions): Promise<RollingVerdict> {
  await using ground = await clusterGround();
  await using relays = await openRelays(ground, {
    count: COMMAND_RELAYS,
    oneAddressEach: options.front === 'haproxy',
  });
  return await restartEach(relays, options);
}

/**
 * Starts relays.
 * @param lameDuckMs LAME_DUCK_MS of their first run.
 */
export async function openRelays(
  { store, url, dataDir }: Ground,
  { count, oneAddressEach }: RelaysOptions,
  lameDuckMs = LAME_DUCK_DEFAULT_MS,
): Promise<Relays> {
  const places = await Promise.all(Array.from({ length: count }, makeTestDirectory));
  const upstream = await startPlainUpstream();
  const addresses = places.map((_, index) => `127.0.0.${index + 2}`);
  const shared = await refusedPort();
  const environments: Record<string, string>[] = [];
  for (const [index, place] of places.entries()) {
    environments.push({
      DATABASE_URL: url,
      DAYBOOK_PEPPER_FILE: path.join(dataDir, 'pepper'),
      DAYBOOK_UPSTREAMS: upstreamsVariable([{ baseUrl: upstream.baseUrl }]),
      DAYBOOK_WORKER: 'off',
      LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
      DAYBOOK_DATA: place,
      ...(oneAddressEach
        ? { HOST: addresses[index] as string, PORT: String(shared) }
        : { PORT: String(await refusedPort()) }),
    });
  }
  const start = (index: number, lastsMs: number): Promise<ServerProcess> =>
    spawnServer({ ...environments[index], LAME_DUCK_MS: String(lastsMs) });
  const servers: ServerProcess[] = [];
  for (const index of places.keys()) servers.push(await start(index, lameDuckMs));
  const log = openLog(store);
  return {
    directory: dataDir,
    servers,
    addresses,
    port: shared,
    key: servers[0]?.firstKey as string,
    log,
    async restart(index, nextLameDuckMs) {
      const code = (await servers[index]?.stop()) ?? null;
      servers[index] = await start(index, nextLameDuckMs);
      return code;
    },
    async [Symbol.asyncDispose]() {
      await log.close();
      await Promise.all(servers.map((server) => server.kill()));
      upstream.server.closeAllConnections();
      upstream.server.close();
      await Promise.all(places.map(removeTestDirectory));
    },
  };
}

/**
 * Restarts relays behind a load balancer by SIGTERM, one after the other, under a constant rate of calls.
 * No call may fail or be cut.
 */
export async function restartEach(relays: Relays, options: RollingOptions): Promise<RollingVerdict> {
  const {
    n,
    rate,
    streamEvery = 5,
    front = 'balancer',
    checkMs = 1_000,
    nextLameDuckMs = LAME_DUCK_DEFAULT_MS,
  } = options;
  const { servers, key, log } = relays;
  const count = servers.length;
  const before = (await log.read()).length;
  const entry =
    front === 'haproxy'
      ? await haproxyEntry(relays.directory, relays.addresses, relays.port)
      : await balancerEntry(
          servers.map(({ baseUrl }) => new URL(baseUrl)),
          checkMs,
        );
  const allUp = (): Promise<unknown> =>
    until(
      () => ({ up: entry.countUp(), checks: entry.describe() }),
      ({ up }) => up === count,
      'every relay',
      30_000,
    );

  const violations: Finding[] = [];
  const running = new Set<Promise<void>>();
  let calls = 0;
  let failed = 0;
  let cut = 0;

  async function call(isStream: boolean): Promise<void> {
    let reply: IncomingMessage | null = null;
    let text = '';
    try {
      reply = await entry.send({
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', stream: isStream, messages: [{ role: 'user', content: 'hi' }] }),
      });
      for await (const bytes of reply) text += String(bytes);
      if (reply.statusCode !== 200) throw new Error(`status ${reply.statusCode}: ${text.slice(0, 200)}`);
      const isWhole = isStream ? text.includes('data: [DONE]') : text.includes('"finish_reason":"stop"');
      if (!isWhole) throw new Error(`the reply ends with ${text.slice(-200)}`);
    } catch (error) {
      const hasBegun = reply?.statusCode === 200;
      if (hasBegun) cut++;
      else failed++;
      const { code = '', message } = error as NodeJS.ErrnoException;
      violations.push({ rule: hasBegun ? 'cut' : 'failed', request: '', message: `${code} ${message}` });
    }
  }

  let isOver = false;
  async function load(): Promise<void> {
    const startedMs = performance.now();
    while (!isOver) {
      const due = Math.floor(((performance.now() - startedMs) * rate) / 1_000);
      for (; calls < due; calls++) {
        const each = call(calls % streamEvery === 0).finally(() => running.delete(each));
        running.add(each);
      }
      await wait(TICK_MS);
    }
    await Promise.all(running);
  }

  try {
    await allUp();
    const loading = load();
    // As many calls are open then as at any later moment.
    await wait(STREAM_EVENTS * STREAM_EVERY_MS);
    for (let restart = 0; restart < n; restart++) {
      const index = restart % count;
      await allUp();
      const code = await relays.restart(index, nextLameDuckMs);
      if (code !== 0) violations.push({ rule: 'end', request: '', message: `a relay ended with ${code}` });
    }
    await allUp();
    isOver = true;
    await loading;
    const events = await until(log.read, (seen) => openRequests(seen).length === 0, 'the last open call');
    const abandoned = events.slice(before).filter(({ event }) => event.type === 'request.abandoned').length;
    const reasons = countBy(
      violations.map(({ message }) => message.replaceAll(/[0-9a-f]{4,}[0-9a-f-]*/g, '')),
    );
    const notes = violations.length === 0 ? [] : entry.describe();
    return {
      restarts: n,
      calls,
      failed,
      cut,
      retries: entry.retries(),
      abandoned,
      reasons,
      notes,
      violations,
    };
  } finally {
    isOver = true;
    await entry[Symbol.asyncDispose]();
  }
}

function countBy(names: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    Object.entries(Object.groupBy(names, (name) => name)).map(([name, all]) => [name, all?.length ?? 0]),
  );
}

/** A provider that is as cheap as possible and never fails. */
async function startPlainUpstream(): Promise<{ server: Server; baseUrl: string }> {
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (bytes: Buffer) => (text += bytes.toString()));
    request.on('end', () => void answer(text, response));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return { server, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
}

const usage = { prompt_tokens: 5, completion_tokens: STREAM_EVENTS, total_tokens: STREAM_EVENTS + 5 };

async function answer(text: string, response: ServerResponse): Promise<void> {
  if ((JSON.parse(text) as { stream?: boolean }).stream !== true) {
    await wait(JSON_AFTER_MS);
    const message = { role: 'assistant', content: 'hello' };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: 'c', object: 'chat.completion', model: 'm', choices, usage }));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (choices: object[], more = {}): void => {
    const chunk = { id: 'c', object: 'chat.completion.chunk', model: 'm', choices, ...more };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  for (let event = 0; event < STREAM_EVENTS && !response.destroyed; event++) {
    await wait(STREAM_EVERY_MS);
    send([{ index: 0, delta: { content: 'tok ' }, finish_reason: null }]);
  }
  send([{ index: 0, delta: {}, finish_reason: 'stop' }]);
  send([], { usage });
  response.end('data: [DONE]\n\n');
}
