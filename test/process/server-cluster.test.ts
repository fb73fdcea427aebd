import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { REPEATED_SIGNAL_MS } from '#server/process/bounds.ts';
import type { Placed } from '#db/events/events.ts';
import type { Store } from '#db/postgres/connect.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { errorCodeOf, openRequests } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { type Instance, isRunning, liveServers, readInstances } from '../support/instances.ts';
import { makePlace, openLog, type Place, until } from '../support/relay.ts';
import { AS_OPERATOR } from '../support/servers/operator.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Several processes on one port: what one of them suffers costs its own calls and nothing else. */

const RECOVERED_WITHIN_MS = 30_000;

let upstream: ScriptedUpstream;
let place: Place;
let server: ServerProcess;
let log: ReturnType<typeof openLog>;
const clients: ChatReply[] = [];

beforeAll(async () => {
  upstream = await startUpstream();
  place = await makePlace({ upstreams: [upstream] });
  if (!place.store) throw new Error('the place has no database');
  server = await spawnServer({ ...place.env, DAYBOOK_INSTANCES: '3', LOG_LEVEL: 'warn' });
  log = openLog(place.store);
});

afterAll(async () => {
  await log?.close();
  await server?.stop();
  await place?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const store = () => place.store as NonNullable<Place['store']>;

async function call(model: string, stream = true): Promise<ChatReply> {
  const reply = await chat({
    port: server.port,
    key: server.firstKey ?? '',
    body: { model, stream, messages: [], user: randomUUID() },
    timeoutMs: 60_000,
  });
  clients.push(reply);
  return reply;
}

/** The number of whoever answers on a new connection. */
async function whoAnswers(): Promise<number> {
  const reply = await fetch(`http://127.0.0.1:${server.port}/readyz`, {
    headers: { connection: 'close', ...AS_OPERATOR },
  });
  return ((await reply.json()) as { instance: number }).instance;
}

async function whoAnswer(connections: number): Promise<number[]> {
  const seen: number[] = [];
  for (let n = 0; n < connections; n++) seen.push(await whoAnswers());
  return seen;
}

/** Waits until as many calls run as were begun, and says which request runs on which instance. */
async function running(count: number): Promise<Map<string, number>> {
  const open = (events: readonly Placed[]) => {
    const left = new Set(openRequests(events));
    return events.filter(({ event }) => event.type === 'request.accepted' && left.has(event.request));
  };
  const events = open(await until(log.read, (seen) => open(seen).length === count, 'the calls'));
  return new Map(events.map(({ event, instance }) => ['request' in event ? event.request : '', instance]));
}

const endingsOf = (events: readonly Placed[], request: string | null) =>
  events
    .filter(({ event }) => 'request' in event && event.request === request)
    .map(({ event }) => event.type)
    .slice(1);

const idsOf = (runs: Map<string, number>, isMeant: (instance: number) => boolean): string[] =>
  [...runs].flatMap(([request, instance]) => (isMeant(instance) ? [request] : []));

/** One of the servers on which something runs. */
async function victimOf(runs: Map<string, number>): Promise<Instance> {
  const victim = (await liveServers(store())).find(({ id }) => [...runs.values()].includes(id));
  if (!victim) throw new Error('nothing runs');
  return victim;
}

test('three processes share the connections of one port, each as its own instance', async () => {
  const servers = await liveServers(store());
  expect(new Set(servers.map(({ pid }) => pid)).size).toBe(3);
  const counts = Map.groupBy(await whoAnswer(30), (instance) => instance);
  expect(new Set(counts.keys())).toEqual(new Set(servers.map(({ id }) => id)));
  for (const answers of counts.values()) expect(answers.length).toBeGreaterThanOrEqual(5);
});

test('a killed process loses only its own calls, is fenced by its supervisor and replaced', async () => {
  const calls = Array.from({ length: 9 }, () => call('s:tokens=100,every=30ms'));
  const runs = await running(9);
  const victim = await victimOf(runs);
  process.kill(victim.pid, 'SIGKILL');
  const replies = await Promise.all(calls);
  const whole = replies.filter(({ sawDone }) => sawDone);
  // A call that was recorded may be cut before its head came: nothing tells its client which call that was.
  const cut = replies.filter(({ sawDone }) => !sawDone);
  expect(whole.map(({ status }) => status)).toEqual(whole.map(() => 200));
  expect(new Set(whole.map(({ requestId }) => requestId))).toEqual(
    new Set(idsOf(runs, (instance) => instance !== victim.id)),
  );
  expect(cut).toHaveLength(idsOf(runs, (instance) => instance === victim.id).length);
  // By its supervisor, which knows at once; its peers would wait for its heartbeats.
  await until(
    () => server.output(),
    (text) => text.includes(`"instance":${victim.id},"msg":"instance of an exited server process fenced"`),
    'the supervisor to fence it',
  );
  const events = await until(
    log.read,
    (seen) => openRequests(seen).length === 0,
    'the last endings',
    RECOVERED_WITHIN_MS,
  );
  for (const [request, instance] of runs) {
    expect(endingsOf(events, request)).toEqual([
      instance === victim.id ? 'request.abandoned' : 'request.settled',
    ]);
  }
  const servers = await until(
    () => liveServers(store()),
    (seen) => seen.length === 3,
    'the replacement',
  );
  expect(servers.map(({ id }) => id)).not.toContain(victim.id);
  expect(servers.map(({ id }) => id)).toEqual(expect.arrayContaining(await whoAnswer(6)));
  expect((await call('ok')).sawDone).toBe(true);
});

function killIfRunning(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}

test('connections not yet accepted by a killed process are served by the others; none hangs', async () => {
  const served: number[] = [];
  let isOver = false;
  const probe = async (): Promise<void> => {
    while (!isOver) {
      // A connection that the dead one had taken is reset, which its client sees at once.
      const reply = await fetch(`http://127.0.0.1:${server.port}/healthz`, {
        headers: { connection: 'close' },
        signal: AbortSignal.timeout(15_000),
      }).catch((error: Error) => error);
      if (reply instanceof Response) served.push(reply.status);
      else expect(reply.name).not.toBe('TimeoutError');
    }
  };
  const probing = Array.from({ length: 20 }, probe);
  for (let kill = 0; kill < 2; kill++) {
    const before = served.length;
    await until(
      () => served.length,
      (count) => count > before + 2 * probing.length,
      'the callers',
    );
    // One that was killed before is not known to be dead yet, and may be gone at any moment.
    for (const { pid } of await liveServers(store())) if (killIfRunning(pid)) break;
  }
  isOver = true;
  await Promise.all(probing);
  await until(
    () => liveServers(store()),
    (seen) => seen.length === 3 && seen.every(({ pid }) => isRunning(pid)),
    'the replacements',
    RECOVERED_WITHIN_MS,
  );
});

test('a process frozen until it is fenced delivers no more of a reply when it wakes', async () => {
  // Those that took the place of others have a number before they take connections.
  await until(
    () => whoAnswer(6),
    (seen) => new Set(seen).size === 3,
    'three that answer',
    RECOVERED_WITHIN_MS,
  );
  const followed = Array.from({ length: 6 }, () => followStream('s:tokens=1000,every=30ms'));
  const whole = Array.from({ length: 6 }, () => call('s:tokens=70,every=30ms', false));
  const runs = await running(12);
  const victim = await victimOf(runs);
  const isHit = (request: string | null) => runs.get(request ?? '') === victim.id;
  await until(
    () => followed.map(({ text }) => text().length),
    (sizes) => sizes.every((size) => size > 500),
    'the streams',
  );

  process.kill(victim.pid, 'SIGSTOP');
  const hit = [...runs].filter(([, instance]) => instance === victim.id).map(([request]) => request);
  // Its calls are ended and charged while it stands still, and the upstream goes on sending.
  const isAbandoned = (events: readonly Placed[]) =>
    hit.every((request) => endingsOf(events, request).includes('request.abandoned'));
  await until(log.read, isAbandoned, 'the recovery', RECOVERED_WITHIN_MS);
  const before = followed.map(({ text }) => text());
  process.kill(victim.pid, 'SIGCONT');

  const replies = await Promise.all(whole);
  for (const reply of replies) {
    if (isHit(reply.requestId))
      expect([reply.status, errorCodeOf(reply)]).toEqual([503, 'store_unavailable']);
    else expect([reply.status, reply.finished]).toEqual([200, true]);
  }
  for (const [index, { requestId, text, ended }] of followed.entries()) {
    if (!isHit(await requestId)) continue;
    await ended;
    const after = text().slice(before[index]?.length);
    const events = after.split(/\n{2,}/).filter((event) => event !== '');
    expect(events.pop()).toMatch(/^data: \{"error":\{[^\n]*"code":"store_unavailable"/);
    // What Node was writing in the moment of the stop belongs to the time before; of five seconds of tokens
    // nothing else.
    expect(events.length).toBeLessThanOrEqual(1);
  }
  expect(followed.length + whole.length).toBeGreaterThan(hit.length);
  expect(hit.length).toBeGreaterThan(0);

  const servers = await until(
    () => liveServers(store()),
    (seen) => seen.length === 3 && seen.every(({ id }) => id !== victim.id),
    'the new number',
  );
  expect(servers.map(({ pid }) => pid)).toContain(victim.pid);
  for (const { leave } of followed) leave();
  const events = await until(
    log.read,
    (seen) => openRequests(seen).length === 0,
    'the last endings',
    RECOVERED_WITHIN_MS,
  );
  for (const request of hit) expect(endingsOf(events, request)).toEqual(['request.abandoned']);
  const next = await until(
    () => call('ok'),
    (reply) => reply.sawDone,
    'the new instance',
  );
  expect(next.status).toBe(200);
});

test('afterwards upstream, log and clients agree', async () => {
  const events = await until(
    log.read,
    (seen) => openRequests(seen).length === 0,
    'the last endings',
    RECOVERED_WITHIN_MS,
  );
  expect(
    checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' }).violations,
  ).toEqual([]);
});

/** A streamed call whose text can be looked at while it comes. */
function followStream(model: string) {
  let text = '';
  const requestId = Promise.withResolvers<string | null>();
  const leaving = new AbortController();
  async function follow(): Promise<void> {
    const reply = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.firstKey ?? ''}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream: true, messages: [] }),
      signal: leaving.signal,
    });
    requestId.resolve(reply.headers.get('x-request-id'));
    for await (const bytes of reply.body as AsyncIterable<Uint8Array>) text += Buffer.from(bytes).toString();
  }
  const ended = follow().catch(() => requestId.resolve(null));
  return { requestId: requestId.promise, text: () => text, ended, leave: () => leaving.abort() };
}

describe('all of them end', () => {
  type Ending = {
    own: ServerProcess;
    database: Store;
    stream(model?: string): Promise<ChatReply>;
    streaming(): Promise<void>;
  };

  /** Ends a number of processes and their worker. They have to be gone then. */
  async function endOf(
    own: ServerProcess,
    database: Store,
    processes: number,
    use: (ending: Ending) => Promise<void>,
  ): Promise<void> {
    const reader = openLog(database);
    try {
      const all = (seen: Instance[]) =>
        seen.filter(({ kind }) => kind === 'server').length === processes &&
        seen.some(({ kind }) => kind === 'worker');
      const live = async () =>
        (await readInstances(database)).filter(({ isDead, isClosed }) => !isDead && !isClosed);
      const pids = (await until(live, all, 'the worker')).map(({ pid }) => pid).filter((pid) => pid > 0);
      await use({
        own,
        database,
        stream: (model = 's:tokens=100,every=10ms') =>
          chat({
            port: own.port,
            key: own.firstKey ?? '',
            body: { model, stream: true, messages: [] },
            timeoutMs: 60_000,
          }),
        streaming: async () =>
          void (await until(reader.read, (events) => openRequests(events).length === 1, 'the stream')),
      });
      await until(
        () => pids.filter(isRunning),
        (left) => left.length === 0,
        'the processes',
        RECOVERED_WITHIN_MS,
      );
    } finally {
      await own.kill();
      await reader.close();
    }
  }

  /** Two processes and their worker, of this test alone. */
  async function withOwn(use: (ending: Ending) => Promise<void>): Promise<void> {
    await using home = await makePlace({ upstreams: [upstream] });
    const own = await spawnServer({ ...home.env, DAYBOOK_INSTANCES: '2' });
    await endOf(own, home.store as NonNullable<Place['store']>, 2, use);
  }

  // Those of the tests above.
  test('when told once, after the running calls', () =>
    endOf(server, store(), 3, async ({ own, stream, streaming }) => {
      const reply = stream();
      await streaming();
      expect(await own.stop()).toBe(0);
      expect(await reply).toMatchObject({ status: 200, sawDone: true, finished: true });
    }));

  test('when told twice, after the error that ends each running call', () =>
    withOwn(async ({ own, stream, streaming }) => {
      const reply = stream('s:tokens=6000,every=10ms');
      await streaming();
      const code = own.stop();
      await until(
        () => own.output(),
        (text) => text.includes('again to cut them'),
        'the first signal',
      );
      // Earlier, it would be the same act.
      await wait(REPEATED_SIGNAL_MS);
      process.kill(own.pid, 'SIGTERM');
      expect(await code).toBe(1);
      const { sawDone, body } = await reply;
      expect([sawDone, body.toString().includes('shutting_down')]).toEqual([false, true]);
      expect(own.output()).toContain('SIGTERM received again; cutting the running calls.');
    }));

  test('when the first process is killed, after the running calls', () =>
    withOwn(async ({ own, stream, streaming }) => {
      const reply = stream();
      await streaming();
      await own.kill();
      expect(await reply).toMatchObject({ status: 200, sawDone: true, finished: true });
    }));

  test('when the first process is killed while another starts', () =>
    withOwn(async ({ own, database }) => {
      const started = new Set(await childrenOf(own.pid));
      const [replaced] = await liveServers(database);
      process.kill(replaced?.pid as number, 'SIGKILL');
      const [starting = 0] = await until(
        async () => (await childrenOf(own.pid)).filter((pid) => !started.has(pid)),
        (pids) => pids.length > 0,
        'the process that starts',
      );
      // It can't listen without the first process.
      process.kill(own.pid, 'SIGSTOP');
      await until(
        () => liveServers(database),
        (servers) => servers.some(({ pid }) => pid === starting),
        'the instance of the process that starts',
      );
      await own.kill();
      await until(
        () => isRunning(starting),
        (left) => !left,
        'the end of the process that starts',
        RECOVERED_WITHIN_MS,
      );
    }));
});

async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}

test('what keeps the processes from starting is reported once, in one line', async () => {
  await using home = await makePlace({ upstreams: [upstream] });
  // Each of the processes finds out for itself.
  const certificate = path.join(home.dataDir, 'no-certificate');
  await writeFile(certificate, 'not a certificate\n');
  const failure = await spawnServer({
    ...home.env,
    TLS_CERT: certificate,
    TLS_KEY: certificate,
    DAYBOOK_INSTANCES: '2',
  }).catch((error: Error) => error.message);
  expect(failure).toMatch(/^the server ended:\ndaybook: TLS_CERT [^\n]+\n$/);
});
