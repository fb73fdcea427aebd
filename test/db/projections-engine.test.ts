import { setTimeout as wait } from 'node:timers/promises';
import { assert, asyncProperty, integer, uniqueArray } from 'fast-check';
import type { Client } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FIELDS } from '#db/log/columns.ts';
import { GapError } from '#db/log/read.ts';
import { compare, isEqual } from '#db/projections/compare.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { EventPage } from '#db/projections/page/page.ts';
import { type Page, projectPage, startEpoch } from '#db/projections/project.ts';
import type { Projection } from '#db/projections/projection.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { rebuild, RebuildBusyError } from '#db/projections/rebuild.ts';
import { readProjectionState, readProjectionStatus } from '#db/projections/state.ts';
import { applyBatch } from '#db/projections/apply-batch.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import {
  accepted,
  connectAs,
  openWriter,
  readLog,
  registered,
  settled,
  type Writer,
} from '../support/log/log-writer.ts';
import { countLockWaiters } from '../support/lock-waiters.ts';
import { until } from '../support/relay.ts';

/** What every projection may rely on: taken in once, put aside where unreadable, made anew at any time. */

const UNKNOWN_TYPE = 999;
const named = (name: string): Projection => PROJECTIONS.find((each) => each.name === name) as Projection;
const requests = named('requests');

let database: TestDatabase;
let writer: Writer;
let worker: Client;
let auditor: Client;

beforeEach(async () => {
  database = await createDatabase();
  writer = await openWriter(database);
  worker = await connectAs(database, 'worker');
  auditor = await connectAs(database, 'auditor');
});

afterEach(async () => {
  await Promise.allSettled([worker.end(), auditor.end(), writer[Symbol.asyncDispose]()]);
  await database[Symbol.asyncDispose]();
});

/** Calls of which all but the first have ended, and an account. @returns the last position. */
async function appendCalls(count: number, to: Writer = writer): Promise<number> {
  await to.control([{ event: registered(), version: 1 }]);
  const begun = Array.from({ length: count }, () => accepted());
  return to.append([...begun, ...begun.slice(1).map((event) => settled(event))]);
}

/** Projects until nothing is left; what was seen on the way. */
async function projectAll(
  client: Client,
  {
    epoch,
    projections = PROJECTIONS,
    pageEvents = 7,
  }: { epoch?: number; projections?: readonly Projection[]; pageEvents?: number } = {},
): Promise<Page[]> {
  const own = epoch ?? (await startEpoch(client));
  const pages: Page[] = [];
  for (;;) {
    const page = await projectPage(client, { projections, epoch: own, pageEvents });
    pages.push(page);
    if (page.kind !== 'projected' || page.range.upTo === page.range.after) return pages;
  }
}

/** Every projection is as a replay of the log, row by row. */
async function expectEqual(): Promise<void> {
  for (const projection of PROJECTIONS) {
    const found = await compare(auditor, projection);
    expect(isEqual(found), JSON.stringify(found)).toBe(true);
  }
}

const parkedOf = async (projection: string): Promise<{ position: string; reason: string }[]> =>
  (
    await worker.query(
      'select position, reason from daybook.parked_event where projection = $1 order by position',
      [projection],
    )
  ).rows;

test('pages of any size give the same tables as a replay, and report their position', async () => {
  const head = await appendCalls(40);
  await projectAll(worker, { pageEvents: 9 });
  await expectEqual();
  const state = await readProjectionState(auditor);
  expect(state).toEqual({ position: head, asOf: (await readLog(database)).at(-1)?.at, head, parked: 0 });
  expect(await ask(database.config('relay'), 'select count(*)::int from projection.request')).toBe(40);
});

test('a page whose projector dies is rolled back, and applied by the next one', async () => {
  const head = await appendCalls(10);
  const deadly: Projection = {
    ...requests,
    name: 'directory',
    apply: (client) => client.query('select pg_terminate_backend(pg_backend_pid())').then(() => undefined),
  };
  await expect(projectAll(worker, { projections: [requests, deadly] })).rejects.toThrow();
  expect(await readProjectionState(auditor)).toMatchObject({ position: 0, head });
  worker = await connectAs(database, 'worker');
  await projectAll(worker);
  await expectEqual();
});

test('of two concurrent projectors each event is applied by one, and the newer one continues', async () => {
  const other = await connectAs(database, 'worker');
  const epoch = await startEpoch(worker);
  const both = [projectAll(worker, { epoch }), projectAll(other, { epoch })];
  await appendCalls(60);
  await Promise.all(both);
  const newer = await startEpoch(other);
  expect(await projectAll(worker, { epoch })).toEqual([{ kind: 'superseded' }]);
  await projectAll(other, { epoch: newer });
  await other.end();
  await expectEqual();
});

test('a projector does not wait for another one that holds the lock', async () => {
  await appendCalls(5);
  const other = await connectAs(database, 'worker');
  await other.query(`begin; ${takeLock('projecting')}`);
  const epoch = await startEpoch(worker);
  expect(await projectPage(worker, { projections: PROJECTIONS, epoch })).toEqual({ kind: 'busy' });
  await other.end();
  expect(await projectPage(worker, { projections: PROJECTIONS, epoch })).toMatchObject({ kind: 'projected' });
});

test("a projection added later doesn't block the others, and a rebuild catches it up", async () => {
  await appendCalls(10);
  await projectAll(worker, { projections: PROJECTIONS.filter(({ name }) => name !== 'usage') });
  const head = await appendCalls(10);
  expect((await projectAll(worker)).at(-1)).toMatchObject({ range: { upTo: head }, detached: ['usage'] });
  expect(await rebuild(worker, named('usage'))).toEqual({ position: head, parked: 0 });
  await appendCalls(10);
  expect((await projectAll(worker)).at(-1)).toMatchObject({ detached: [] });
  await expectEqual();
});

test('unknown and impossible events are parked without contents, and projection continues', async () => {
  await appendCalls(20);
  const cells: Partial<Record<string, string>> = {
    type: String(UNKNOWN_TYPE),
    account: 'secret',
    body: 'secret',
  };
  const line = `(${FIELDS.map(({ name }) => cells[name] ?? '').join()})`;
  const { rows } = await writer.client.query<{ append: string }>(
    'select daybook.append(0::smallint, $1, 1000, array[$2])',
    [writer.instance, line],
  );
  const unknown = Number(rows[0]?.append);
  const orphan = await writer.append([settled(accepted())]);
  const head = await appendCalls(20);
  const pages = await projectAll(worker, { pageEvents: 1000 });
  expect(await readProjectionState(auditor)).toMatchObject({ position: head, parked: 2 });
  expect(pages.flatMap((page) => (page.kind === 'projected' ? page.broken : []))).toEqual([]);
  expect((await parkedOf('requests')).map(({ position }) => Number(position))).toEqual([unknown, orphan]);
  expect((await parkedOf('usage')).map(({ position }) => Number(position))).toEqual([unknown]);
  expect(JSON.stringify(await parkedOf('requests'))).not.toContain('secret');
  await expectEqual();
  expect(await rebuild(worker, requests)).toEqual({ position: head, parked: 2 });
  await expectEqual();
});

test('a damaged line is parked by every projection', async () => {
  await appendCalls(5);
  const { rows } = await writer.client.query<{ append: string }>(
    "select daybook.append(0::smallint, $1, 1000, array['(101,secret'])",
    [writer.instance],
  );
  await appendCalls(5);
  await projectAll(worker, { pageEvents: 1000 });
  for (const { name } of PROJECTIONS)
    expect(await parkedOf(name)).toEqual([
      { position: rows[0]?.append, reason: 'the event does not match its schema' },
    ]);
  await expectEqual();
});

test('a call that is accepted in two pages is charged as in one', async () => {
  const registration = registered();
  const { account } = registration;
  const quotas = [{ meter: 'tokens', window: 'day', limit: 10_000, enforcement: 'soft' } as const];
  const override = {
    type: 'account.terms_overridden',
    account,
    terms: { quotas },
    windows: 'keep',
    actor: 'test',
  } as const;
  const terms_position = await writer.control([
    { event: registration, version: 1 },
    { event: override, version: 2 },
  ]);
  const call = accepted({ account, terms_position, admitted_minute: 29_000_000 });
  await writer.append([call]);
  await projectAll(worker, { pageEvents: 1000 });
  await writer.append([call, settled(call)]);
  await projectAll(worker, { pageEvents: 1000 });
  expect(await ask(database.config('relay'), 'select used::int from projection.quota_window')).toBe(60);
  expect(await ask(database.config('relay'), 'select count(*)::int from projection.open_hold')).toBe(0);
  await expectEqual();
});

test('sums of a page are exact beyond the integers of JavaScript', async () => {
  const begun = [accepted(), accepted(), accepted()];
  await writer.append(begun);
  await writer.append(begun.map((event) => settled(event, { cost_nanousd: Number.MAX_SAFE_INTEGER })));
  await projectAll(worker, { pageEvents: 1000 });
  expect(await readProjectionState(auditor)).toMatchObject({ parked: 0 });
  expect(
    await ask(database.config('relay'), 'select sum(cost_nanousd)::text from projection.usage_day'),
  ).toBe(String(3n * BigInt(Number.MAX_SAFE_INTEGER)));
  await expectEqual();
});

/** Positions without lines. */
const emptyPage = (upTo: number): EventPage =>
  new EventPage(
    { after: 0, upTo },
    Array.from({ length: upTo }, (_, index) => ({
      position: index + 1,
      atUs: 0,
      at: '',
      instance: 1,
      type: NaN,
      cells: [],
      line: '',
    })),
  );

test("exactly the events that can't be applied are parked, wherever they are", async () => {
  await worker.query('create temporary table taken (position bigint primary key)');
  await assert(
    asyncProperty(
      uniqueArray(integer({ min: 1, max: 60 }), { maxLength: 12 }),
      integer({ min: 1, max: 60 }),
      async (bad, upTo) => {
        const picky: Projection = {
          ...requests,
          async apply(client, { range }) {
            await client.query('insert into taken select generate_series($1::int + 1, $2::int)', [
              range.after,
              range.upTo,
            ]);
            if (bad.some((position) => position > range.after && position <= range.upTo))
              throw new RangeError('bad');
          },
        };
        await worker.query('begin; truncate taken');
        const parked = await applyBatch(worker, picky, emptyPage(upTo));
        const { rows } = await worker.query<{ position: string }>(
          'select position from taken order by position',
        );
        await worker.query('commit');
        const wrong = bad.filter((position) => position <= upTo).toSorted((left, right) => left - right);
        expect(parked).toEqual(wrong.map((position) => ({ position, reason: 'RangeError' })));
        expect(rows.map(({ position }) => Number(position))).toEqual(
          Array.from({ length: upTo }, (_, index) => index + 1).filter(
            (position) => !wrong.includes(position),
          ),
        );
      },
    ),
    { numRuns: 25 },
  );
});

test('a log with a missing event is not projected past the gap', async () => {
  await appendCalls(5);
  await projectAll(worker);
  const reached = (await readProjectionState(auditor)).position;
  await appendCalls(5);
  const superuser = await database.superuser();
  const lose = (position: number) =>
    superuser.query(
      `set session_replication_role = replica;
        delete from daybook.log where last_position = daybook.batch_end(${position})`,
    );
  await lose(reached + 1);
  await expect(projectAll(worker)).rejects.toThrow(new GapError(reached + 1));
  expect((await readProjectionState(auditor)).position).toBe(reached);
  await expectEqual();
  await lose(2);
  await superuser.end();
  await expect(rebuild(worker, requests)).rejects.toThrow(GapError);
  await expect(compare(auditor, requests)).rejects.toThrow(GapError);
});

test('check names a row changed, deleted or inserted by hand, with the values of the log', async () => {
  await appendCalls(30);
  await projectAll(worker);
  const { rows } = await worker.query<{ request: string }>(
    'select request from projection.request where status is not null order by request limit 2',
  );
  const [changed, missing] = rows.map(({ request }) => request);
  const surplus = '00000000-0000-7000-8000-000000000000';
  await worker.query('update projection.request set status = 418, model = null where request = $1', [
    changed,
  ]);
  await worker.query('delete from projection.request where request = $1', [missing]);
  await worker.query(
    `insert into projection.request (request, position, accepted_at, instance, account, key)
      values ($1, 1, now(), 1, 'a', 'k')`,
    [surplus],
  );
  const found = await compare(auditor, requests);
  expect(found).toMatchObject({ projection: 'requests', differing: 3, faults: [] });
  expect(found.differences.map(({ table, key, kind }) => [table, key['request'], kind])).toEqual([
    ['request', surplus, 'surplus'],
    ['request', changed, 'changed'],
    ['request', missing, 'missing'],
  ]);
  expect(found.differences[1]?.columns).toEqual([
    { column: 'model', projected: null, replayed: 'm' },
    { column: 'status', projected: '418', replayed: '200' },
  ]);
  await rebuild(worker, requests);
  await expectEqual();
});

test('tables dropped by hand are rebuilt from the log without blocking the others', async () => {
  await appendCalls(20);
  await projectAll(worker);
  await worker.query('drop table projection.request');
  const head = await appendCalls(20);
  const pages = await projectAll(worker);
  expect(pages.at(-1)).toMatchObject({ detached: ['requests'] });
  expect(await readProjectionStatus(auditor)).toMatchObject(
    PROJECTIONS.map(({ name }) => name)
      .toSorted()
      .map((projection) =>
        projection === 'requests'
          ? { projection, state: 'detached' }
          : { projection, state: 'live', position: head },
      ),
  );
  expect((await compare(auditor, requests)).faults).toEqual([
    'it is detached and waits for a rebuild',
    'its table request is missing',
  ]);
  await rebuild(worker, requests);
  await expectEqual();
  // It moves along with the others again, and readers may read it.
  await appendCalls(5);
  await projectAll(worker);
  await expectEqual();
  expect(await ask(database.config('relay'), 'select count(*)::int from projection.request')).toBe(45);
});

test('all tables dropped at once are all rebuilt', async () => {
  const head = await appendCalls(20);
  for (const { tables } of PROJECTIONS)
    await worker.query(`drop table ${tables.map((table) => `projection.${table}`).join(', ')}`);
  const pages = await projectAll(worker);
  expect(pages.at(-1)).toMatchObject({ detached: PROJECTIONS.map(({ name }) => name).toSorted() });
  for (const projection of PROJECTIONS)
    expect(await rebuild(worker, projection)).toEqual({ position: head, parked: 0 });
  await expectEqual();
});

/** Between the steps of a load: far shorter than a rebuild, so that its log stays small. */
const LOAD_PAUSE_MS = 5;

test('a rebuild under load misses no event, and readers always find their tables', async () => {
  const [epoch, projector, reader] = [
    await startEpoch(worker),
    await connectAs(database, 'worker'),
    await connectAs(database, 'relay'),
  ];
  let ended = false;
  const busy = [
    (async () => {
      for (; !ended; await wait(LOAD_PAUSE_MS)) await appendCalls(25);
    })(),
    (async () => {
      for (; !ended; await wait(LOAD_PAUSE_MS)) await projectAll(projector, { epoch, pageEvents: 20 });
    })(),
    (async () => {
      for (; !ended; await wait(LOAD_PAUSE_MS))
        await reader.query({ name: 'look', text: 'select count(*), max(position) from projection.request' });
    })(),
  ];
  for (const projection of [...PROJECTIONS, ...PROJECTIONS]) await rebuild(worker, projection);
  ended = true;
  await Promise.all(busy);
  await projectAll(projector, { epoch });
  await Promise.all([projector.end(), reader.end()]);
  await expectEqual();
  expect(
    (await readProjectionStatus(auditor)).every(
      ({ state, rebuilt_at }) => state === 'live' && rebuilt_at !== null,
    ),
  ).toBe(true);
});

test('a rebuild waits for a reader without blocking others; a second rebuild is refused', async () => {
  await appendCalls(10);
  await projectAll(worker);
  const [reader, other, second] = [
    await connectAs(database, 'relay'),
    await connectAs(database, 'relay'),
    await connectAs(database, 'worker'),
  ];
  await reader.query('begin; select 1 from projection.request');
  const first = rebuild(worker, requests);
  const waiting = (): Promise<number> => countLockWaiters(other, 'projection.request');
  await until(waiting, (count) => count === 1, 'the exchange');
  await expect(rebuild(second, requests)).rejects.toThrow(RebuildBusyError);
  expect((await other.query('select count(*)::int as count from projection.request')).rows).toEqual([
    { count: 10 },
  ]);
  await reader.query('commit');
  await first;
  await Promise.all([reader.end(), other.end(), second.end()]);
  await expectEqual();
});

test('an aborted rebuild changes nothing, and the next one starts over', async () => {
  await appendCalls(10);
  await projectAll(worker);
  const before = await ask(database.config('auditor'), "select 'projection.request'::regclass::oid");
  // The last few events are part of the exchange; a page of its own needs more than those.
  await writer.append(Array.from({ length: 12_000 }, () => accepted()));
  await projectAll(worker, { pageEvents: 50_000 });
  await expect(rebuild(worker, requests, { signal: AbortSignal.abort() })).rejects.toThrow('aborted');
  expect(await ask(database.config('auditor'), "select 'projection.request'::regclass::oid")).toBe(before);
  await rebuild(worker, requests);
  await expectEqual();
});

test("rows removed by retention are no difference to check, and a rebuild doesn't restore them", async () => {
  await appendCalls(10);
  await projectAll(worker);
  const keptFrom = await ask(database.config('worker'), 'select clock_timestamp()::text');
  await worker.query("update daybook.projection set kept_from = $1 where name = 'requests'", [keptFrom]);
  await appendCalls(10);
  await projectAll(worker);
  // In the middle of its work: some of what is to go is gone.
  await worker.query(
    `delete from projection.request
      where request in (select request from projection.request where ended_at < $1 limit 4)`,
    [keptFrom],
  );
  await expectEqual();
  await rebuild(worker, requests);
  await expectEqual();
  expect(await ask(database.config('auditor'), 'select count(*)::int from projection.request')).toBe(11);
});
