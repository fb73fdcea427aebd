import * as fc from 'fast-check';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportRange } from '#db/archive/export.ts';
import { fileSource } from '#db/audit/source/files.ts';
import type { StateSnapshot } from '#db/audit/replay/snapshot.ts';
import { databaseSource, type Source } from '#db/audit/source/source.ts';
import type { StatementReport } from '#db/audit/commands/statement-text.ts';
import { leafHash } from '#db/log/chain.ts';
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
import type { Placed, PlanTerms } from '#db/events/events.ts';
import { publicId } from '#db/ids.ts';
import { streamOf } from '#db/events/streams.ts';
import { changeEvents, changeLines } from '../../support/audit/change-lines.ts';
import { readEntries } from '../../support/audit/verify-chain.ts';
import { chat } from '../../support/client.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyEvent } from '../../support/log/arbitrary-event.ts';
import {
  accepted,
  connectAs,
  extended,
  openLivingWriter,
  openWriter,
  registered,
  settled,
} from '../../support/log/log-writer.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { createPartitionedLog } from '../../support/audit/partitioned-log.ts';
import { projectAll } from '../../support/projections/projected.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/upstream/upstream.ts';

/** The audit commands on a log of real requests, with a read-only login. */

const TERMS: PlanTerms = {
  quotas: [
    { meter: 'tokens', window: 'month', limit: 1_000_000, enforcement: 'soft' },
    { meter: 'requests', window: 'day', limit: 1_000, enforcement: 'hard' },
  ],
};
const MONTH = (): string => new Date().toISOString().slice(0, 7);

describe('audit commands on a log of real requests', () => {
  let upstream: ScriptedUpstream;
  let relay: TestRelay;
  let superuser: Client;
  let url: string;
  let requests: string[];
  /** The id of the account created by the first start. */
  let account: string;
  beforeAll(async () => {
    upstream = await startUpstream();
    relay = await startRelay({ upstreams: [upstream] });
    await relay.control((control) =>
      control.setPrice('s:*', {
        base: {
          input: 1_000_000,
          cache_read: 500_000,
          output: 4_000_000,
          reasoning: 4_000_000,
        },
      }),
    );
    await relay.control((control) => control.definePlan('audited', TERMS, 'keep'));
    await relay.createAccount('Audited, Inc');
    await relay.control((control) => control.setPlan('Audited, Inc', 'audited', 'keep'));
    const { secret } = await relay.createKey({ account: 'Audited, Inc' });
    const call = (key: string, script: string, stream: boolean) =>
      chat({
        port: relay.port,
        key,
        body: { model: `s:${script}`, stream, messages: [{ role: 'user', content: 'Hello' }] },
      });
    for (const [index, script] of ['tokens=30', 'status=500', 'tokens=3000', 'tokens=5'].entries()) {
      await Promise.all([call(secret, script, index % 2 === 0), call(relay.key, script, true)]);
    }
    // An open request with an extended reservation.
    const writer = await openLivingWriter(relay.store);
    const first = (await relay.readLog()).find(
      ({ event }) => event.type === 'account.registered' && event.name === relay.account,
    )?.event as { account: string };
    ({ account } = first);
    const open = accepted({ account, hold_tokens: 77 });
    await writer.append([open, extended(open, { hold_tokens: 99 })]);
    await writer[Symbol.asyncDispose]();
    const log = await relay.waitFor(
      (events) => events.filter(({ event }) => event.type === 'request.settled').length === 8,
    );
    requests = log.flatMap(({ event }) => (event.type === 'request.settled' ? [event.request] : []));
    await projectAll(relay.store);
    superuser = await (relay.store as TestDatabase).superuser();
    url = await auditorUrl(relay.store as TestDatabase, superuser);
  });
  afterAll(async () => {
    if (superuser) {
      await relay.stop();
      await superuser.query(`drop role "${new URL(url.replace('@/', '@localhost/')).username}"`);
      await superuser.end();
    }
    await relay?.[Symbol.asyncDispose]();
    await upstream?.[Symbol.asyncDispose]();
  });
  // A DAYBOOK_DATA that can't exist, so that no local store is used.
  const { daybook, json, text } = commandLine(() => ({ DAYBOOK_DATA: '/nowhere', DATABASE_URL: url }));
  const queryRows = async <T extends object>(query: string): Promise<T[]> =>
    (await superuser.query<T>(query)).rows;

  test('audit replay: totals equal the projections, and open requests are listed', async () => {
    const shown = await json<StateSnapshot>('audit', 'replay');
    expect(shown.fault_count).toBe(0);
    expect(shown.usage).toHaveLength(8);
    const projected = await queryRows(`select account, key, model,
        sum(completed + client_disconnected + upstream_failed + cut_short + relay_failed)::integer
          as requests,
        sum(input_tokens)::integer as input_tokens,
        sum(output_tokens)::integer as output_tokens,
        sum(cost_nanousd)::text as cost_nanousd, sum(unpriced)::integer as unpriced
        from projection.usage_day group by 1, 2, 3 order by 1, 2, 3`);
    expect(projected.map((row) => expect.objectContaining(row) as unknown)).toEqual(shown.usage);
    expect(shown.open_requests).toMatchObject([{ account, hold_tokens: 99 }]);
    const windows = await queryRows(
      `select subject, cap::integer as "limit", used::integer as settled, held::integer
        from projection.quota_window order by 1, meter`,
    );
    expect(windows).toHaveLength(2);
    expect(shown.windows.toSorted((one, other) => (one.meter < other.meter ? -1 : 1))).toMatchObject(windows);
    expect(shown.accounts.map(({ name, plan }) => [name, plan])).toContainEqual(['Audited, Inc', 'audited']);
    // What the worker does every minute.
    await superuser.query('select daybook.append_readings()');
    const log = await relay.readLog();
    expect(log.at(-1)?.event).toMatchObject({
      type: 'log.read',
      actor: expect.stringMatching(/^login\/reader_/) as string,
      what: 'replay',
      from_position: 1,
      to_position: shown.position,
    });
  });

  test('audit replay --at: shows the state at a position or a point in time', async () => {
    const log = await relay.readLog();
    const first = log.find(({ event }) => event.type === 'request.accepted') as Placed;
    const before = await json<StateSnapshot>('audit', 'replay', '--at', String(first.position - 1));
    expect([before.position, before.open_requests, before.usage]).toEqual([first.position - 1, [], []]);
    const then = await json<StateSnapshot>('audit', 'replay', '--at', first.at.toISOString());
    expect(then.position).toBe(log.findLast(({ at }) => at <= first.at)?.position);
    expect(then.open_requests.length).toBeGreaterThan(0);
    const one = await json<StateSnapshot>('audit', 'replay', '--account', 'Audited, Inc');
    expect([one.accounts.length, one.usage.length, one.open_requests.length]).toEqual([1, 4, 0]);
    expect(await text('audit', 'replay')).toMatch(
      /Every request was accepted once and ended at most once[^]*events\/s\.\n$/,
    );
    for (const wrong of [
      ['--at', '999999'],
      ['--at', 'yesterday'],
      ['--account', 'missing'],
    ])
      expect(await daybook('audit', 'replay', ...wrong)).toMatchObject({ code: 1, stdout: '' });
  });

  test('audit statement --all: the statements add up to the log, as text and as CSV', async () => {
    const shown = await json<StatementReport>('audit', 'statement', '--all', '--month', MONTH());
    const [sum] = await queryRows<{ cost: string; calls: number }>(
      `select sum(cost_nanousd)::text as cost, count(*) filter (where type in (101,
        102))::integer as calls from daybook.events() where type = 101`,
    );
    expect(Number(sum?.cost)).toBeGreaterThan(0);
    expect(shown.total).toEqual({
      requests: sum?.calls,
      cost_nanousd: sum?.cost,
      log_requests: sum?.calls,
      log_cost_nanousd: sum?.cost,
      is_equal: true,
    });
    const csv = (await text('audit', 'statement', '--all', '--month', MONTH(), '--csv'))
      .trimEnd()
      .split('\r\n');
    const column = (csv[0] as string).split(',').indexOf('cost_nanousd');
    const named = csv.slice(1).map((line) => line.replace('"Audited, Inc"', 'Audited').split(','));
    expect(named.reduce((all, cells) => all + Number(cells[column]), 0)).toBe(Number(sum?.cost));
    const own = await json<StatementReport>(
      'audit',
      'statement',
      '--account',
      'Audited, Inc',
      '--month',
      MONTH(),
    );
    expect(own.statements).toEqual(shown.statements.filter(({ name }) => name === 'Audited, Inc'));
    expect(await text('audit', 'statement', '--account', 'Audited, Inc', '--month', MONTH())).toContain(
      `4 requests: ${own.statements[0]?.cost_nanousd} nano-dollars`,
    );
    expect(
      (await json<StatementReport>('audit', 'statement', '--all', '--month', '1999-01')).total?.requests,
    ).toBe(0);
    expect((await daybook('audit', 'statement', '--month', MONTH())).stderr).toContain('--all');
  });

  test('audit trace: shows every event of a request, with or without the projection', async () => {
    const log = await relay.readLog();
    const grown = log.find(
      ({ event }) => event.type === 'request.extended' && requests.includes(event.request),
    )?.event as { request: string } | undefined;
    for (const request of [requests[0], grown?.request ?? requests[1]].filter((each) => each !== undefined)) {
      const positions = log.flatMap(({ event, position }) =>
        'request' in event && event.request === request ? [position] : [],
      );
      const traced = async () =>
        json<{ events: { position: number; leaf_hash: string; batch: { last_position: number } }[] }>(
          'audit',
          'trace',
          request,
        );
      const found = await traced();
      expect(found.events.map(({ position }) => position)).toEqual(positions);
      const entries = await readEntries(superuser);
      expect(found.events.map(({ leaf_hash }) => leaf_hash)).toEqual(
        positions.map((position) => leafHash(entries[position - 1] as string).toString('hex')),
      );
      expect(found.events.every(({ position, batch }) => batch.last_position >= position)).toBe(true);
      await superuser.query('alter table projection.request rename to elsewhere');
      expect(await traced()).toEqual(found);
      await superuser.query('alter table projection.elsewhere rename to request');
    }
    expect(await text('audit', 'trace', requests[0] as string)).toMatch(/accepted for s:[^]*settled: \w+/);
    expect((await daybook('audit', 'trace', '01970000-0000-7000-8000-000000000000')).stderr).toContain(
      'has no event in the log',
    );
    expect((await daybook('audit', 'trace', 'x')).stderr).toContain('is not a request id');
  });

  test('audit diff: finds a row changed by hand, by replay and by the independent fold', async () => {
    const clean = await daybook('audit', 'diff', '--projection', 'usage');
    expect(clean).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/\n0 differences, at position \d+\n$/) as string,
    });
    await superuser.query(
      `update projection.usage_day set cost_nanousd = cost_nanousd + 1 where model = 's:tokens=30'
        and account = $1`,
      [account],
    );
    const { code, stdout } = await daybook('audit', 'diff');
    expect(code).toBe(1);
    expect(stdout).toMatch(
      new RegExp(
        `usage_day account=${account} day=\\S+ key=\\S+ model=s:tokens=30: cost_nanousd is (\\d+), ` +
          `not \\d+\n`,
      ),
    );
    expect(stdout).toMatch(
      new RegExp(
        `independent fold: 1 totals differ[^]*usage_day ${account} \\S+ s:tokens=30: cost_nanousd is ` +
          `\\d+, expected \\d+\n`,
      ),
    );
    await superuser.query(
      `update projection.usage_day set cost_nanousd = cost_nanousd - 1 where model = 's:tokens=30'
        and account = $1`,
      [account],
    );
  });
});

/** The address of a login that is a member of the auditor role alone. */
async function auditorUrl({ url }: TestDatabase, superuser: Client): Promise<string> {
  const login = `reader_${publicId().toLowerCase()}`;
  await superuser.query(
    `create role "${login}" login noinherit password 'read'; grant daybook_auditor to "${login}" with
      inherit false, set true`,
  );
  return url.replace(/\/\/[^@]*@/, `//${login}:read@`);
}

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
