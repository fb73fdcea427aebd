import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AUDIT_COMMANDS } from '#db/audit/commands/program.ts';
import type { Report } from '#db/audit/verify/report.ts';
import { codeOfStore, runCommands } from '#db/command-line/run.ts';
import { OccupiedPositionError } from '#db/log/occupied-position.ts';
import { type AuditedLog, createAuditedLog } from '../../support/audit/audited-log.ts';
import { openAppender, outcomeOf } from '../../support/log/appended.ts';
import { accepted, connectAs, settled } from '../../support/log/log-writer.ts';
import { until } from '../../support/relay.ts';
import { appendReadings } from '../../../worker/tasks/append-readings.ts';

/** A superuser has put a row behind the head of the log, which is in no batch. */

let log: AuditedLog;
let occupied: number;
beforeAll(async () => {
  log = await createAuditedLog();
  // The writers of the fixture have retired, which appends nothing, so the head stands still.
  occupied = log.head + 1;
});
afterAll(() => log?.[Symbol.asyncDispose]());

const occupy = (): Promise<unknown> =>
  log.superuser.query(
    `insert into daybook.log select ${occupied}, at, event_count, instance, shard, events
      from daybook.log where event_count = 1 and events like '(10_,%' order by last_position limit 1`,
  );
const free = (): Promise<unknown> =>
  log.superuser.query(
    `set session_replication_role = replica; delete from daybook.log where last_position = ${occupied};
      reset session_replication_role`,
  );

async function run(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const env = {
    DATABASE_URL: log.database.url,
    PUBLISH_DIR: path.join(log.directory, 'published'),
    DAYBOOK_DATA: log.directory,
  };
  const program = { name: 'audit', description: '', groups: AUDIT_COMMANDS, codeOf: codeOfStore };
  const surroundings = { env, out: (text: string) => out.push(text), err: (text: string) => err.push(text) };
  const code = await runCommands(program, args, surroundings);
  return { code, out: out.join(''), err: err.join('') };
}

test("audit verify: prints its report with the row's position, and notes the unrecorded read", async () => {
  await occupy();
  try {
    const { code, out } = await run('--json', 'verify');
    const report = JSON.parse(out) as Report;
    expect(code).toBe(1);
    expect(report.findings).toMatchObject([{ position: occupied, to: occupied, table: 'log_batch' }]);
    expect(report.notes.join()).toContain(`not recorded in the log: log position ${occupied} is occupied`);
    expect((await run('verify')).out).toContain(`the first invalid position is ${occupied}`);
    // Readings that can't be recorded are not printed; the reason names the position.
    const replay = await run('replay');
    expect([replay.code, replay.out]).toEqual([1, '']);
    expect(replay.err).toContain(`log position ${occupied} is occupied`);
  } finally {
    await free();
  }
});

test('worker: the readings of outside logins wait, and the error names the position', async () => {
  await log.superuser.query(`insert into daybook.reading values ('outsider', 'verify', 1, 2)`);
  const worker = await connectAs(log.database, 'worker');
  const waiting = async () => (await log.superuser.query('select from daybook.reading')).rowCount;
  await occupy();
  try {
    const error: unknown = await appendReadings(worker).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(OccupiedPositionError);
    expect(error).toMatchObject({ position: occupied });
    expect(await waiting()).toBe(1);
  } finally {
    await free();
  }
  await appendReadings(worker);
  expect(await waiting()).toBe(0);
  await worker.end();
});

test('appender: refuses calls with the position in its error, and loses no ending', async () => {
  const errors: unknown[] = [];
  await using appending = await openAppender(log.database, {
    onError: (problem, error) => errors.push(problem, error),
  });
  const { appender } = appending;
  const call = accepted();
  await appender.accept(call);
  occupied = appender.head + 1;
  await occupy();
  try {
    appender.settle(settled(call));
    await until(
      () => errors.length,
      (count) => count >= 2,
      'the first failed append',
    );
    expect(await outcomeOf(appender, accepted())).toBe('refused');
  } finally {
    await free();
  }
  await until(
    () => appender.isSettled,
    (is) => is,
    'the ending',
  );
  const [problem, error] = errors;
  expect(problem).toBe('append_failed');
  expect(error).toBeInstanceOf(OccupiedPositionError);
  expect(error).toMatchObject({ position: occupied, message: expect.stringContaining('audit -- verify') });
  expect(errors).not.toContain('event_refused');
  const client = await connectAs(log.database, 'auditor');
  const { rows } = await client.query(
    'select type from daybook.events() where request = $1 order by position',
    [call.request],
  );
  await client.end();
  expect(rows).toHaveLength(2);
});
