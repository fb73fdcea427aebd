import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from 'pg';
import { heartbeat } from '#db/instances/instance.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { type ProjectionStatus, readProjectionState, readProjectionStatus } from '#db/projections/state.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, connectAs, openWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';

/** Workers keep the projections up with the log by themselves, and the command line looks after them. */

const WITHIN_MS = 30_000;

let database: TestDatabase;
let dataDir: string;
let writer: Writer;
let auditor: Client;
let worker: Client;
let beat: NodeJS.Timeout;
const workers: WorkerProcess[] = [];

const env = (): Record<string, string> => ({
  DATABASE_URL: database.url,
  DAYBOOK_DATA: dataDir,
  LOG_LEVEL: 'error',
});

function start(): WorkerProcess {
  const started = spawnWorker(env());
  workers.push(started);
  return started;
}

/** Appends calls. @returns when they are projected. */
async function callAndSee(): Promise<void> {
  const begun = Array.from({ length: 10 }, () => accepted());
  const head = await writer.append([...begun, ...begun.slice(2).map((event) => settled(event))]);
  await until(
    () => readProjectionState(auditor),
    ({ position }) => position >= head,
    'the projections',
    WITHIN_MS,
  );
}

const { daybook } = commandLine(env);

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  writer = await openWriter(database);
  // The workers would take it for dead.
  beat = setInterval(() => void heartbeat(writer.client, writer.instance, null).catch(() => undefined), 500);
  [auditor, worker] = await Promise.all([connectAs(database, 'auditor'), connectAs(database, 'worker')]);
  start();
});

afterAll(async () => {
  clearInterval(beat);
  await Promise.all(workers.map((each) => each.stop()));
  await Promise.all([auditor?.end(), worker?.end(), writer?.[Symbol.asyncDispose]()]);
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

test('a worker projects new events, and another takes over when it stops', async () => {
  await callAndSee();
  const second = start();
  await callAndSee();
  await workers[0]?.stop();
  await callAndSee();
  await second.kill();
  start();
  await callAndSee();
});

test("an event that can't be projected is logged once as an error, without its contents", async () => {
  const before = workers.at(-1)?.output() ?? '';
  const orphan = await writer.append([settled(accepted())]);
  await callAndSee();
  const told = await until(
    () => (workers.at(-1)?.output() ?? '').slice(before.length),
    (text) => text.includes('\n'),
    'the line',
  );
  expect(
    told
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object),
  ).toEqual([
    expect.objectContaining({
      level: 'error',
      position: orphan,
      projection: 'requests',
      msg: 'event could not be projected; parked',
    }),
  ]);
});

test('the worker rebuilds dropped tables on its own', async () => {
  await worker.query('drop table projection.usage_day, projection.account');
  const isRebuilt = (rows: readonly ProjectionStatus[]): boolean =>
    rows.every(
      ({ projection, state, rebuilt_at }) =>
        state === 'live' && (rebuilt_at !== null) === ['usage', 'directory'].includes(projection),
    );
  await until(() => readProjectionStatus(auditor), isRebuilt, 'the rebuilt projections', WITHIN_MS);
  await callAndSee();
});

test('projections status, check and rebuild: position, a row changed by hand, and its repair', async () => {
  const status = await daybook('projections', 'status', '--json');
  const rows = JSON.parse(status.stdout) as { projection: string; state: string; behind: number }[];
  expect(rows.map(({ projection, state, behind }) => [projection, state, behind])).toEqual(
    PROJECTIONS.map(({ name }) => name)
      .toSorted()
      .map((name) => [name, 'live', 0]),
  );

  const { rows: changed } = await worker.query<{ request: string }>(
    `update projection.request set input_tokens = 1
      where request = (select request from projection.request where ended_at is not null limit 1)
      returning request`,
  );
  const found = await daybook('projections', 'check', 'requests');
  expect(found.code).toBe(1);
  expect(found.stdout + found.stderr).toContain('1 rows differ from the log');
  expect(found.stdout + found.stderr).toContain(
    `request request=${changed[0]?.request}: input_tokens is 1, not 10`,
  );

  expect(await daybook('projections', 'rebuild', 'requests')).toMatchObject({ code: 0 });
  expect(await daybook('projections', 'check')).toMatchObject({ code: 0 });
});

test('events that an older version parked are applied by one that knows them', async () => {
  const from = await writer.append([accepted()]);
  await callAndSee();
  const rebuiltAt = async (): Promise<Date | null> =>
    (await readProjectionStatus(auditor)).find(({ projection }) => projection === 'requests')?.rebuilt_at ??
    null;
  const before = await rebuiltAt();
  // As if the projector of an older version had not known the type.
  await worker.query(
    `with removed as (delete from projection.request where position >= $1)
      insert into daybook.parked_event (projection, position, type, reason)
        values ('requests', $1, 100, 'unknown event type 100')`,
    [from],
  );
  await until(rebuiltAt, (at) => at !== null && at > (before ?? new Date(0)), 'the rebuild', WITHIN_MS);
  const { rows } = await worker.query(
    `select (select count(*)::int from projection.request where position >= $1) as requests,
        (select count(*)::int from daybook.parked_event where type is not null) as parked`,
    [from],
  );
  expect(rows).toEqual([{ requests: 11, parked: 0 }]);
});
