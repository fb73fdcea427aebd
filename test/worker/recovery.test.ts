import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RECOVERY_PATIENCE_MS } from '#db/bounds.ts';
import { heartbeat, registerInstance, requestRecovery, retireInstance } from '#db/instances/instance.ts';
import { InstanceRecovery } from '#db/instances/instance-recovery.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { type Instance, readInstances } from '../support/instances.ts';
import { accepted, openWriter, readLog } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';

/** What a server that died had left open is ended by a worker, with or without other servers. */

const WITHIN_MS = 30_000;

let database: TestDatabase;
let dataDir: string;
let worker: WorkerProcess;

const workerEnv = () => ({ DATABASE_URL: database.url, DAYBOOK_DATA: dataDir, LOG_LEVEL: 'warn' });
const liveWorkers = async (): Promise<Instance[]> =>
  (await readInstances(database)).filter(({ kind, isDead }) => kind === 'worker' && !isDead);
const isClosed = async (instance: number): Promise<boolean> =>
  (await readInstances(database)).some(({ id, isClosed: closed }) => id === instance && closed);
const jobs = (): Promise<unknown> =>
  ask(
    database.config('owner'),
    "select count(*)::int from graphile_worker.jobs where task_identifier = 'recover_instance'",
  );
const connect = async (role: 'relay' | 'worker' = 'relay'): Promise<Client> => {
  const client = new Client(database.config(role));
  client.on('error', () => undefined);
  await client.connect();
  return client;
};

/** One that left a call open and says nothing any more. */
async function makeDead(): Promise<number> {
  await using dead = await openWriter(database);
  await dead.append([accepted(), accepted()]);
  return dead.instance;
}

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  worker = spawnWorker(workerEnv());
  await until(liveWorkers, (seen) => seen.length === 1, 'the worker', WITHIN_MS);
});

afterAll(async () => {
  await worker?.stop();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

test('a worker detects the death of the last server, and ends its requests once', async () => {
  const dead = await makeDead();
  await until(
    () => isClosed(dead),
    (is) => is,
    'the recovery',
    WITHIN_MS,
  );
  expect((await readLog(database)).filter(({ event }) => event.type === 'request.abandoned')).toHaveLength(2);
  const [by] = await liveWorkers();
  expect((await readLog(database)).at(-1)?.instance).toBe(by?.id);
});

test("a server's request for recovery fences the dead instance, and wakes the worker at once", async () => {
  const dead = await makeDead();
  const client = await connect();
  const self = await registerInstance(client, 'server asks 0');
  expect(await requestRecovery(client, dead)).toBe(true);
  expect(await heartbeat(client, dead, 0)).toBeNull();
  await until(
    () => isClosed(dead),
    (is) => is,
    'the recovery',
  );
  await until(jobs, (count) => count === 0, 'the queue');
  await retireInstance(client, self);
  await client.end();
});

test('the job queue belongs to the worker: a server can neither read nor write it', async () => {
  await expect(ask(database.config('relay'), 'select count(*) from graphile_worker.jobs')).rejects.toThrow(
    /permission denied/,
  );
  await expect(
    ask(database.config('relay'), "select graphile_worker.add_job('recover_instance')"),
  ).rejects.toThrow(/permission denied/);
  await expect(ask(database.config('worker'), 'drop table graphile_worker._private_jobs')).rejects.toThrow(
    /must be owner/,
  );
});

test('the next worker recovers a killed worker, and takes over its jobs', async () => {
  const [before] = await liveWorkers();
  await worker.kill();
  const dead = await makeDead();
  worker = spawnWorker(workerEnv());
  await until(
    () => isClosed(dead),
    (is) => is,
    'the recovery',
    WITHIN_MS,
  );
  await until(
    () => isClosed(before?.id ?? 0),
    (is) => is,
    'the end of the old worker',
    WITHIN_MS,
  );
});

describe('a server that has detected a dead instance', () => {
  /** Looks as a server does, at made-up times. */
  async function withRescue(
    use: (look: (dead: number[], nowMs: number) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const client = await connect();
    const instance = await registerInstance(client, 'server noticed 0');
    const rescue = new InstanceRecovery({
      connect: () => connect(),
      instance,
      onRecovered: () => undefined,
      onError: () => undefined,
    });
    try {
      await use(async (dead, nowMs) => {
        rescue.recover(dead, nowMs);
        await rescue.close();
      });
    } finally {
      await retireInstance(client, instance);
      await client.end();
    }
  }

  /** A worker that says it lives and does nothing. */
  async function withIdleWorker(use: () => Promise<void>): Promise<void> {
    const client = await connect('worker');
    const instance = await registerInstance(client, 'worker idle 0');
    const beat = setInterval(() => void heartbeat(client, instance, null).catch(() => undefined), 500);
    try {
      await use();
    } finally {
      clearInterval(beat);
      await retireInstance(client, instance);
      await client.end();
    }
  }

  test('recovers it at once without a live worker', async () => {
    await worker.stop();
    const dead = await makeDead();
    await withRescue(async (look) => {
      await look([dead], 0);
      expect(await isClosed(dead)).toBe(true);
    });
  });

  test('leaves recovery to a live worker, and does it itself after ten seconds', async () => {
    const dead = await makeDead();
    await withIdleWorker(() =>
      withRescue(async (look) => {
        await look([dead], 0);
        await look([dead], RECOVERY_PATIENCE_MS - 1);
        expect(await isClosed(dead)).toBe(false);
        await look([dead], RECOVERY_PATIENCE_MS);
        expect(await isClosed(dead)).toBe(true);
      }),
    );
  });
});

test('a worker without a database reports it in one line', async () => {
  const lost = spawnWorker({ DATABASE_URL: '', DAYBOOK_DATA: dataDir });
  const seen = await until(
    () => lost.output(),
    (text) => text.endsWith('\n'),
    'the line',
    WITHIN_MS,
  );
  expect(seen).toMatch(/^daybook worker: no PostgreSQL runs in [^\n]+\n$/);
  await lost.stop();
});
