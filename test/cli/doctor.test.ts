import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InstanceSession } from '#db/instances/instance-session.ts';
import { connectAs } from '#db/postgres/connect.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, openWriter } from '../support/log/log-writer.ts';

/** The findings of `daybook doctor` about a service whose processes are made up here. */

let database: TestDatabase;
let dataDir: string;
const { daybook } = commandLine(() => ({ DAYBOOK_DATA: dataDir, DATABASE_URL: database.url }));

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
});
afterAll(async () => {
  await database[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

type Finding = { check: string; ok: boolean; detail: string };

async function findings(): Promise<Finding[]> {
  const { stdout } = await daybook('doctor', '--json');
  return (JSON.parse(stdout) as { findings: Finding[] }).findings;
}
const finding = async (check: string): Promise<Finding | undefined> =>
  (await findings()).find((each) => each.check === check);

async function change(statement: string): Promise<void> {
  const superuser = await database.superuser();
  await superuser.query(`set session_replication_role = replica; ${statement}`);
  await superuser.end();
}

test('a worker that is far behind is a problem while a server runs', async () => {
  await using writer = await openWriter(database);
  await writer.append([accepted(), accepted()]);
  await change("update daybook.log_batch set at = at - interval '1 hour'");
  const check = 'worker and projections';
  expect(await finding(check)).toMatchObject({ ok: true });

  const client = await connectAs(database, 'relay');
  await registerInstance(client, 'server host 1');
  expect(await finding(check)).toMatchObject({
    ok: false,
    detail: expect.stringMatching(/^0 worker\(s\) running; usage data is 36\d\d s old: start a worker; /),
  });
  await registerInstance(client, 'worker host 2');
  expect(await finding(check)).toMatchObject({ ok: false, detail: expect.stringContaining('see the log') });
  await client.end();
});

test('problems are printed before everything else', async () => {
  const { code, stdout } = await daybook('doctor');
  expect(code).toBe(1);
  const lines = stdout.split('\n');
  expect(lines[0]).toBe('Checks');
  expect(lines[1]).toMatch(/^ {2}FAIL /);
  const all = await findings();
  expect(all.findLastIndex(({ ok }) => !ok)).toBeLessThan(all.findIndex(({ ok }) => ok));
});

test('a failing background job is a problem, with its reason', async () => {
  await change(
    `insert into daybook.job_status (task, failures, failing_since, reason)
      values ('retain', 3, now(), 'Timeout 57014')`,
  );
  expect(await finding('background jobs')).toMatchObject({
    ok: false,
    detail: expect.stringMatching(/^retain has failed 3 time\(s\) since .* \(Timeout 57014\)/),
  });
});

describe('the diagnostic output of a process', () => {
  test('is reported with its heartbeats: lines dropped, and why it fails', async () => {
    const output = { dropped: 0, failure: null as string | null };
    const session = new InstanceSession({
      name: 'worker host 3',
      connection: () => connectAs(database, 'worker'),
      output: () => ({ ...output }),
    });
    await session.register();
    expect(await finding('diagnostic output')).toMatchObject({ ok: true, detail: 'no line was dropped' });
    output.dropped = 12;
    output.failure = 'ENOSPC';
    const dropped = `select dropped_lines::int from daybook.instance where id = ${session.instance}`;
    await expect.poll(() => ask(database.config('auditor'), dropped)).toBe(12);
    expect(await finding('diagnostic output')).toEqual({
      check: 'diagnostic output',
      ok: false,
      detail: 'output of worker host 3 fails with ENOSPC, 12 lines dropped',
    });
    await session.close();
  });
});
