import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import type { Store } from '#db/postgres/connect.ts';
import { runProgram } from '#server/cli/program.ts';
import { chat } from '../support/client.ts';
import { databaseUrlOf } from '../support/database-url.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { appendNewer, NEWER_TYPES } from '../support/log/newer-event.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { changeControl, until, upstreamsVariable } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { makeNextRelease } from './next-release.ts';
import type { Finding } from './verdict.ts';

/**
 * How many calls each stage waits for, how many run at a time, whether workers run, and how far apart the
 * tokens of a reply are: 1 ms unless given.
 */
export type UpgradeOptions = { calls: number; streams: number; worker: boolean; tokenMs?: number };
export type UpgradeVerdict = {
  calls: number;
  statuses: Record<string, number>;
  violations: Finding[];
};

const WITHIN_MS = 300_000;

/** `npm run chaos -- upgrade`: the same on a cluster of its own, with workers. */
export async function upgradeOnCluster(options: Omit<UpgradeOptions, 'worker'>): Promise<UpgradeVerdict> {
  const dataDir = await makeTestDirectory();
  const embedded = await startEmbedded({ dataDir, log: () => {} });
  try {
    return await upgrade(embedded, await databaseUrlOf(embedded.config('owner')), dataDir, {
      ...options,
      worker: true,
    });
  } finally {
    await embedded.stop();
    await removeTestDirectory(dataDir);
  }
}

/**
 * A rolling upgrade under load, and back: this version serves, a next release migrates, joins, uses what only
 * it knows, and serves alone; then this version joins again and serves alone. Calls go to the servers that a
 * load balancer would know; each must succeed.
 */
export async function upgrade(
  store: Store,
  url: string,
  dataDir: string,
  { calls, streams, worker, tokenMs = 1 }: UpgradeOptions,
): Promise<UpgradeVerdict> {
  const nextRoot = await makeTestDirectory();
  const upstream = await startUpstream();
  const env = {
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_WORKER: worker ? 'on' : 'off',
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  };
  const violations: Finding[] = [];
  const expectSame = (rule: string, message: string, found: unknown, wanted: unknown): void => {
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      violations.push({ rule, request: '', message: `${message}: ${JSON.stringify(found)}` });
  };
  const running: ServerProcess[] = [];
  const start = async (root?: string): Promise<ServerProcess> => {
    const server = await spawnServer(env, root);
    running.push(server);
    return server;
  };
  try {
    await makeNextRelease(nextRoot);
    const old = await start();
    const key = old.firstKey as string;
    const [flagged, revoked] = await changeControl(store, dataDir, async (control, pepper) => {
      const create = (name: string) => control.createKey(pepper, { account: 'first', name, expiresAt: null });
      return [await create('flagged'), await create('revoked')] as const;
    });
    const statusOf = async (server: ServerProcess, secret: string): Promise<number | null> =>
      (await chat({ port: server.port, key: secret, body: { model: 'ok', messages: [] } })).status;
    const becomes = (server: ServerProcess, secret: string, status: number): Promise<unknown> =>
      until(
        () => statusOf(server, secret),
        (seen) => seen === status,
        `status ${status}`,
        WITHIN_MS,
      );

    const load = startLoad(key, streams, tokenMs);
    load.balance([old]);
    await load.until(calls);
    const migrate = path.join(nextRoot, 'worker/migrate.ts');
    const { stdout } = await promisify(execFile)(process.execPath, [migrate], {
      env: { ...process.env, ...env },
    });
    if (!stdout.includes('0001_next')) throw new Error(`the next release did not migrate: ${stdout}`);
    const after = await appendDigest(store);
    await load.until(calls);

    const next = await start(nextRoot);
    load.balance([old, next]);
    await load.until(calls);
    const account = await accountOf(store, flagged.id);
    await appendNewer(store, { type: NEWER_TYPES.toSkip, stream: 'novelty/one' });
    await appendNewer(store, {
      type: NEWER_TYPES.notToSkip,
      stream: `key/${flagged.id}`,
      account,
      key: flagged.id,
    });
    await becomes(old, flagged.secret, 503);
    await becomes(next, flagged.secret, 200);
    const revoking = await runProgram(['key', 'revoke', revoked.id], {
      env: { ...process.env, ...env },
      out: () => undefined,
      err: (line) => violations.push({ rule: 'upgrade', request: '', message: line }),
    });
    expectSame('upgrade', 'exit code of key revoke of the older version', revoking, 0);
    await Promise.all([old, next].map((server) => becomes(server, revoked.secret, 401)));
    await load.until(calls);

    load.balance([next]);
    expectSame('upgrade', 'exit code of the older server', await old.stop(), 0);
    await load.until(calls);
    if (worker)
      await until(
        () => unreadParked(store),
        (count) => count === 0,
        'the parked events',
        WITHIN_MS,
      );

    const back = await start();
    load.balance([next, back]);
    await load.until(calls);
    load.balance([back]);
    expectSame('upgrade', 'exit code of the newer server', await next.stop(), 0);
    await load.until(calls);
    expectSame('upgrade', 'the append function after the rollback', await appendDigest(store), after);
    const { statuses, failures } = await load.end();
    await back.stop();
    violations.push(...failures);
    expectSame('P2', 'requests that did not end', await openCount(store), 0);
    return { calls: Object.values(statuses).reduce((a, b) => a + b, 0), statuses, violations };
  } finally {
    for (const server of running) await server.kill();
    await upstream.close();
    await removeTestDirectory(nextRoot);
  }
}

/** Calls one after another in several streams, each to one of the servers that are in the balance. */
function startLoad(key: string, streams: number, tokenMs: number) {
  let servers: readonly ServerProcess[] = [];
  const statuses: Record<string, number> = {};
  const failures: Finding[] = [];
  let done = 0;
  let isEnding = false;
  const caller = async (number: number): Promise<void> => {
    for (let call = number; !isEnding; call++) {
      const server = servers[call % servers.length] as ServerProcess;
      const row = await chat({
        port: server.port,
        key,
        body: { model: `s:tokens=5,every=${tokenMs}ms`, stream: call % 2 === 0, messages: [] },
      });
      const status = `${row.status ?? row.problem}`;
      statuses[status] = (statuses[status] ?? 0) + 1;
      done++;
      if (row.status !== 200 || row.problem !== null)
        failures.push({ rule: 'upgrade', request: row.requestId ?? '', message: `${status} ${row.problem}` });
    }
  };
  let callers: Promise<void>[] = [];
  return {
    /** Sends new calls to these servers. */
    balance(to: readonly ServerProcess[]): void {
      servers = to;
      if (callers.length === 0) callers = Array.from({ length: streams }, (_, number) => caller(number));
    },
    /** Resolves after so many calls more. */
    async until(calls: number): Promise<void> {
      const from = done;
      await until(
        () => done - from,
        (count) => count >= calls,
        'the calls',
        WITHIN_MS,
      );
    },
    async end() {
      isEnding = true;
      await Promise.all(callers);
      return { statuses, failures };
    },
  };
}

async function ask<T>(store: Store, text: string, values: unknown[] = []): Promise<T> {
  const client = await connectAs(store, 'owner');
  try {
    return (await client.query<[T]>({ text, values, rowMode: 'array' })).rows[0]?.[0] as T;
  } finally {
    await client.end();
  }
}

const appendDigest = (store: Store): Promise<string> =>
  ask(
    store,
    `select md5(prosrc) || pronargs::text from pg_proc
    where proname = 'append' and pronamespace = 'daybook'::regnamespace`,
  );
const accountOf = (store: Store, key: string): Promise<string> =>
  ask(store, 'select account from daybook.control_event where stream = $1 and version = 1', [`key/${key}`]);
const unreadParked = (store: Store): Promise<number> =>
  ask(store, 'select count(*)::int from daybook.parked_event where type is not null');
const openCount = (store: Store): Promise<number> =>
  ask(
    store,
    `select (count(*) filter (where type = 100) - count(*) filter (where type in (101, 102)))::int
    from daybook.events()`,
  );
