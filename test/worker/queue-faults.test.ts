import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { until } from '../support/relay.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';

/** A worker whose queue can't record that its jobs have ended. */

let database: TestDatabase;
let dataDir: string;
let superuser: Client;
let worker: WorkerProcess;
beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  superuser = await database.superuser();
  worker = spawnWorker({ DATABASE_URL: database.url, DAYBOOK_DATA: dataDir, LOG_LEVEL: 'warn' });
});
afterAll(async () => {
  await worker?.kill();
  await superuser?.end();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

const pools = async (): Promise<string[]> =>
  (await superuser.query<{ pool: string }>('select pool from daybook.queue_pool')).rows.map(
    ({ pool }) => pool,
  );
const countJobs = async (condition: string): Promise<number> =>
  (await superuser.query(`select from graphile_worker._private_jobs where ${condition}`)).rowCount ?? 0;

test('the worker starts its queue again, unlocks its jobs and goes on', async () => {
  const [first] = await until(pools, ({ length }) => length === 1, 'the queue');
  await superuser.query(
    `create function public.fail_deletes() returns trigger language plpgsql as
        $$ begin raise exception 'no end of a job is recorded'; end $$;
      create trigger fail_deletes before delete on graphile_worker._private_jobs
        for each row execute function public.fail_deletes();
      select graphile_worker.add_job('drop_allowances', job_key => 'probe')`,
  );
  await until(pools, ([name]) => name !== undefined && name !== first, 'another queue');
  await superuser.query('drop trigger fail_deletes on graphile_worker._private_jobs');
  await until(
    () => countJobs(`key = 'probe'`),
    (count) => count === 0,
    'the end of the job',
  );
  const names = await pools();
  expect(names).toHaveLength(1);
  expect(await countJobs(`locked_by <> '${names[0]}'`)).toBe(0);
  expect(worker.output()).not.toContain('unhandled rejection');
  expect(await worker.stop()).toBe(0);
});
