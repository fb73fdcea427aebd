import * as fc from 'fast-check';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportRange } from '#db/archive/export.ts';
import { fileSource } from '#db/audit/source/files.ts';
import type { StateSnapshot } from '#db/audit/replay/snapshot.ts';
import { databaseSource, type Source } from '#db/audit/source/source.ts';
import type { StatementReport } from '#db/audit/commands/statement-text.ts';
import { retireInstance } from '#db/instances/instance.ts';
import {
  GapError,
  type LogRange,
  type Read,
  readEvents,
  readHead,
  readPage,
  UnreadableEventError,
} from '#db/log/read.ts';
import { streamOf } from '#db/events/streams.ts';
import { changeEvents, changeLines } from '../../support/audit/change-lines.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyEvent } from '../../support/log/arbitrary-event.ts';
import {
  accepted,
  connectAs,
  extended,
  openWriter,
  registered,
  settled,
} from '../../support/log/log-writer.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { createPartitionedLog } from '../../support/audit/partitioned-log.ts';

/** The sources of events: a database, files of the archive, and both. */

const MONTH = (): string => new Date().toISOString().slice(0, 7);

describe('event sources', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.[Symbol.asyncDispose]());

  const eventsIn = async (source: Source, range: LogRange): Promise<Read[]> => {
    const found: Read[] = [];
    for await (const page of source.read(range))
      found.push(...page.flatMap((batch) => readEvents(batch, range)));
    return found;
  };

  test('sources: a database and a file of it have the same events in any range', async () => {
    await using writer = await openWriter(database);
    const auditor = await connectAs(database, 'auditor');
    const directory = await makeTestDirectory();
    const versions = new Map<string, number>();
    const versionOf = (stream: string): number => {
      versions.set(stream, (versions.get(stream) ?? 0) + 1);
      return versions.get(stream) as number;
    };
    try {
      let run = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 40 }), async (events) => {
          const after = await readHead(auditor);
          for (const event of events) {
            if (!('actor' in event)) await writer.append([event, event]);
            else await writer.control([{ event, version: versionOf(streamOf(event)) }]);
          }
          const head = await readHead(auditor);
          const read = await readPage(auditor, after);
          const file = path.join(directory, String(run++));
          await exportRange(auditor, { from: after + 1, to: head }, file, () => undefined);
          for (const source of [await databaseSource(auditor), await fileSource([file])]) {
            expect(await eventsIn(source, { after, upTo: head })).toEqual(read);
            if (read.length < 3) continue;
            expect(await eventsIn(source, { after: after + 1, upTo: head - 1 })).toEqual(read.slice(1, -1));
          }
        }),
        { numRuns: 20 },
      );
    } finally {
      await auditor.end();
      await removeTestDirectory(directory);
    }
  });

  test('database source: a missing position is an error, an unreadable event is passed on', async () => {
    await using writer = await openWriter(database);
    const first = await readHead(writer.client);
    await writer.append(Array.from({ length: 9 }, () => accepted()));
    const superuser = await database.superuser();
    const auditor = await connectAs(database, 'auditor');
    const read = async () => eventsIn(await databaseSource(auditor), { after: first, upTo: first + 9 });
    try {
      await superuser.query("set session_replication_role = 'replica'");
      await superuser.query(changeEvents(`position = ${first + 3}`, { type: '999' }));
      const found = await read();
      expect(found.map((each) => each instanceof UnreadableEventError)).toEqual([
        false,
        false,
        true,
        false,
        false,
        false,
        false,
        false,
        false,
      ]);
      await superuser.query(changeLines(`position > ${first + 5}`, 'null'));
      await expect(read()).rejects.toThrow(new GapError(first + 6));
      await superuser.query('delete from daybook.log where last_position > $1', [first]);
      await expect(read()).rejects.toThrow(new GapError(first + 1));
    } finally {
      await auditor.end();
      await superuser.end();
    }
  });
});

test('archived events are read from files, alone or before the database', async () => {
  await using log = await createPartitionedLog(40, 12);
  await using writer = await openWriter(log.database);
  await writer.control([{ event: registered('Account1', 'Filed'), version: 1 }]);
  let running = accepted();
  await writer.append([running]);
  for (let batch = 0; batch < 30; batch++) {
    const ending = settled(running, { cost_nanousd: batch });
    running = accepted({ model: `mo"del \\ ${batch % 3}, (x)` });
    await writer.append([running, extended(running), ending, ...Array.from({ length: 3 }, () => accepted())]);
  }
  await retireInstance(writer.client, writer.instance);
  await log.fill(0);
  const { daybook, json } = commandLine(() => ({ DAYBOOK_DATA: '/nowhere', DATABASE_URL: log.database.url }));
  const replayed = async (...args: string[]): Promise<object> => {
    const { read: _read, ...state } = await json<StateSnapshot & { read: object }>(
      'audit',
      'replay',
      ...args,
    );
    return state;
  };
  const [all, prefix] = [await replayed('--at', '170'), await replayed('--at', '79')];
  const statement = await json<StatementReport>(
    'audit',
    'statement',
    '--account',
    'Filed',
    '--month',
    MONTH(),
  );
  const archived = await log.archive({ drop: true });
  const files = await log.files();
  expect(archived?.dropped.length).toBe(files.length);
  expect(await replayed('--at', '79', '--files', ...files.toReversed())).toEqual(prefix);
  expect(await replayed('--at', '170', '--archive-dir', log.directory)).toEqual(all);
  const again = await json<StatementReport>(
    'audit',
    'statement',
    '--account',
    'Filed',
    '--month',
    MONTH(),
    '--archive-dir',
    log.directory,
  );
  expect(again.statements).toEqual(statement.statements);
  expect(Number(again.statements[0]?.cost_nanousd)).toBeGreaterThan(0);

  expect((await daybook('audit', 'replay')).stderr).toContain(
    `restore ${files.map((file) => path.basename(file)).join(', ')}`,
  );
  expect(
    (await daybook('audit', 'replay', '--files', files[0] as string, files[2] as string)).stderr,
  ).toContain('begins at position 80, and');
  const rest = await json<StateSnapshot>('audit', 'replay', '--files', files[1] as string);
  expect(rest).toMatchObject({ fault_count: 0, accepted_before: 2 });
  const lines = zstdDecompressSync(await readFile(files[1] as string)).toString();
  await writeFile(
    files[1] as string,
    zstdCompressSync(lines.replace(/^\(101,.*?,20,/m, (line) => line.replace(/20,$/, '21,'))),
  );
  expect(await daybook('audit', 'replay', '--files', ...files)).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining(`${path.basename(files[1] as string)} is damaged at position`) as string,
  });
});
