import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { dropArchived, restorePartition } from '#db/archive/restore.ts';
import { ask } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../support/audit/partitioned-log.ts';
import { changeControl, until } from '../support/relay.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';

/** A server with its worker on a log in small partitions, from which the worker archives. */

const WITHIN_MS = 30_000;
const SIZE = 100;

let log: PartitionedLog;
let dataDir: string;
let env: Record<string, string>;
let server: ServerProcess;
let key: string;

beforeAll(async () => {
  log = await createPartitionedLog(SIZE, 8);
  dataDir = await makeTestDirectory();
  env = {
    DATABASE_URL: log.database.url,
    DAYBOOK_DATA: dataDir,
    ARCHIVE_DIR: log.directory,
    ARCHIVE_KEEP_PARTITIONS: '1',
    ARCHIVE_DROP: 'on',
    LOG_LEVEL: 'info',
  };
  server = await spawnServer(env);
  key = server.firstKey ?? '';
  await log.append(3 * SIZE);
  await until(
    async () => {
      // The clock would ask once an hour.
      await ask(
        log.database.config('owner'),
        "select graphile_worker.add_job('archive', job_key => 'archive', max_attempts => 1)",
      ).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 200));
      return ask(log.database.config('auditor'), 'select daybook.first_position()::integer');
    },
    (first) => first === 2 * SIZE,
    'two partitions to be archived by the worker',
    WITHIN_MS,
  );
});

afterAll(async () => {
  await server?.stop();
  await log?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

async function call(): Promise<number> {
  const reply = await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'daybook-demo', messages: [{ role: 'user', content: 'hi' }] }),
  });
  await reply.arrayBuffer();
  return reply.status;
}

const { daybook } = commandLine(() => env);
const withoutDatabase = commandLine(() => ({ ...env, DATABASE_URL: '', DAYBOOK_DATA: '/nowhere' }));

test('requests succeed after archiving, and a new server knows the keys of archived events', async () => {
  expect(await call()).toBe(200);
  await server.stop();
  server = await spawnServer(env);
  expect(await call()).toBe(200);
});

describe('on the command line', () => {
  test('archive list shows the archived partitions, and archive verify passes', async () => {
    const listed = await daybook('archive', 'list');
    expect(listed.stdout).toMatch(/log_000000 +1 +99 +archived +log_000000\.log\.zst +\d+/);
    expect(listed.stdout).toMatch(/log_000002 +200 +299 +in the log/);
    const { code, stdout } = await daybook('archive', 'verify', '--json');
    expect(code).toBe(0);
    expect(
      (JSON.parse(stdout) as { verified: { first_position: number }[] }).verified.map(
        ({ first_position }) => first_position,
      ),
    ).toEqual([1, 100]);
  });

  test('archive verify works without a database, and names a damaged file with the position', async () => {
    const files = await log.files();
    const sound = await withoutDatabase.daybook('archive', 'verify', ...files);
    expect([sound.code, sound.stderr]).toEqual([0, '']);
    expect(sound.stdout).toContain('Each file continues the one before it.');
    const [file] = files as [string];
    const content = await readFile(file);
    await writeFile(file, content.subarray(0, content.length - 100));
    const damaged = await withoutDatabase.daybook('archive', 'verify', ...files);
    await writeFile(file, content);
    expect(damaged.code).toBe(1);
    expect(damaged.stderr).toMatch(
      /^daybook: log_000000\.log\.zst is damaged at position \d+: unreadable\n$/,
    );
  });

  test('rebuild names the archive files that it needs, and works after their restore', async () => {
    const [first, second] = (await log.files()) as [string, string];
    const refused = await daybook('projections', 'rebuild', 'usage');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('restore log_000000.log.zst, log_000001.log.zst');
    const connect = () => connectAs(log.database, 'owner');
    await restorePartition(connect, second);
    expect((await daybook('archive', 'restore', first)).stdout).toBe('log_000000 is in the log again.\n');
    expect((await daybook('projections', 'rebuild', 'usage')).stderr).toBe('');
    // The option's default, which the parser reads from the environment of the process.
    vi.stubEnv('ARCHIVE_DIR', log.directory);
    const dropped = await daybook('archive', 'drop', 'log_000001').finally(() => vi.unstubAllEnvs());
    expect(dropped.stderr).toBe('');
    expect(dropped.stdout).toBe('log_000001 is dropped.\n');
    await dropArchived(connect, 0, log.directory);
    expect(await ask(log.database.config('auditor'), 'select daybook.first_position()::integer')).toBe(
      2 * SIZE,
    );
  });

  test('a key whose events are all archived can be revoked', async () => {
    await changeControl(log.database, dataDir, (control) => control.revokeKey(key.slice(4, 12)));
    expect(await until(call, (status) => status !== 200, 'the refusal', WITHIN_MS)).toBe(401);
  });
});
