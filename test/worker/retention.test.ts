import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { closeClient } from '#db/postgres/connect.ts';
import { dropEnded } from '#db/limits/leases.ts';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import { compare } from '#db/projections/compare.ts';
import { rebuild } from '#db/projections/rebuild.ts';
import { CRONTAB } from '../../worker/crontab.ts';
import { prepareQueue } from '../../worker/queue.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { type Retention, retentionsOf, retain } from '../../worker/tasks/retain.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, connectAs, openWriter, settled } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { until } from '../support/relay.ts';
import { spawnWorker } from '../support/servers/worker-process.ts';

/**
 * Old rows go, and exactly those that `kept_from` says are gone: so a table and its rebuild stay the same.
 */

const ROWS = 12_000;
const NEVER = new AbortController().signal;

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  await prepareQueue(database, createLogger('silent'));
  client = await connectAs(database, 'worker');
});

afterAll(async () => {
  await closeClient(client);
  await database[Symbol.asyncDispose]();
});

afterEach(async () => {
  await client.query(
    `truncate projection.request, projection.usage_minute, projection.usage_hour_key,
      projection.usage_history, projection.quota_window`,
  );
  await client.query("update daybook.projection set kept_from = '-infinity'");
});

/** Calls over the last ten days, of which every tenth takes two days; every hundredth still runs. */
const makeRequests = () =>
  client.query(
    `insert into projection.request (request, position, end_position, accepted_at, ended_at,
        instance, account, key)
      select gen_random_uuid(), n, n, at,
        case when n % 100 = 0 then null when n % 10 = 0 then at + interval '2 days' else at end,
        1, 'Account1', 'Key00001'
      from (
        select n, clock_timestamp() - interval '10 days' * ($1 - n) / $1 as at
        from generate_series(1, $1::int) n
      ) made`,
    [ROWS],
  );

/** What is there that should be gone, and what was gone that should be there. */
async function wrongly(
  { projection: { name, kept = [] }, keep }: Retention,
  made: number,
  of = 0,
): Promise<{ kept: number; lacking: number; late: boolean }> {
  const { table, time } = kept[of] ?? { table: 'none', time: 'none' };
  const { rows } = await client.query<{ kept: number; there: number; late: boolean }>(
    `select count(*) filter (where t.${time} < p.kept_from)::int as kept,
        count(*) filter (where t.${time} >= p.kept_from or t.${time} is null)::int as there,
        min(p.kept_from) > clock_timestamp() - $2::interval as late
      from daybook.projection p left join projection.${table} t on true where p.name = $1`,
    [name, keep],
  );
  const [row] = rows;
  return { kept: row?.kept ?? -1, lacking: made - (row?.there ?? 0), late: row?.late ?? true };
}

describe('request rows', () => {
  const [requests] = retentionsOf(4) as [Retention];

  test('are removed by the age of their end, however long they ran; running ones never', async () => {
    await makeRequests();
    const before = await client.query<{ at: string }>(
      "select (date_trunc('minute', clock_timestamp()) - interval '4 days')::text as at",
    );
    const { rows } = await client.query<{ stay: number }>(
      `select count(*)::int as stay from projection.request
        where ended_at >= $1::timestamptz or ended_at is null`,
      [before.rows[0]?.at],
    );
    const stay = rows[0]?.stay ?? 0;
    expect(await retain(client, [requests], NEVER)).toBe(ROWS - stay);
    expect(await wrongly(requests, stay)).toEqual({ kept: 0, lacking: 0, late: false });
    expect(await retain(client, [requests], NEVER)).toBe(0);
  });

  test('match kept_from after every step, also after an aborted run', async () => {
    await makeRequests();
    // A signal that has come already lets one step through.
    const steps: number[] = [];
    for (let gone = -1; gone !== 0; steps.push(gone)) {
      gone = await retain(client, [requests], AbortSignal.abort());
      expect(await wrongly(requests, 0)).toMatchObject({ kept: 0, late: false });
    }
    expect(steps.length).toBeGreaterThan(2);
  });

  test('of one timestamp are removed even if they are more than one step takes', async () => {
    await client.query(
      `insert into projection.request (request, position, end_position, accepted_at, ended_at,
          instance, account, key)
        select gen_random_uuid(), n, n, '2026-01-01', '2026-01-01', 1, 'Account1', 'Key00001'
        from generate_series(1, $1::int) n`,
      [ROWS],
    );
    expect(await retain(client, [requests], NEVER)).toBe(ROWS);
  });

  test('are kept forever by default', () => {
    expect(retentionsOf(0).map(({ projection }) => projection.name)).toEqual(['usage', 'history']);
  });

  test('of a detached projection are left to its rebuild', async () => {
    await makeRequests();
    await client.query("update daybook.projection set is_live = false where name = 'requests'");
    expect(await retain(client, [requests], NEVER)).toBe(0);
    expect(
      await ask(
        database.config('worker'),
        "select kept_from::text from daybook.projection where name = 'requests'",
      ),
    ).toBe('-infinity');
    await client.query("update daybook.projection set is_live = true where name = 'requests'");
  });
});

test('usage per minute, and per key and hour, is removed after two days', async () => {
  const [usage] = retentionsOf(0) as [Retention];
  await client.query(
    `insert into projection.usage_minute (minute, account, key, model, duration_counts, first_byte_counts)
      select date_trunc('minute', clock_timestamp()) - interval '1 minute' * n,
        'Account1', 'Key00001', 'm', '{}', '{}'
      from generate_series(1, $1::int) n`,
    [4_000],
  );
  await client.query(
    `insert into projection.usage_hour_key (hour, account, key, model, duration_counts, first_byte_counts)
      select date_trunc('hour', clock_timestamp()) - interval '1 hour' * n,
        'Account1', 'Key00001', 'm', '{}', '{}'
      from generate_series(1, 100) n`,
  );
  await retain(client, [usage], NEVER);
  expect(await wrongly(usage, 49 * 60)).toMatchObject({ kept: 0, lacking: 0, late: false });
  expect(await wrongly(usage, 48, 1)).toMatchObject({ kept: 0, late: false });
  // The hour in which the two days begin is whole.
  expect(
    await ask(
      database.config('worker'),
      `select min(hour) <= clock_timestamp() - interval '48 hours' from projection.usage_hour_key`,
    ),
  ).toBe(true);
});

test('usage by subject and hour is removed after 57 days', async () => {
  const history = retentionsOf(0)[1] as Retention;
  await client.query(
    `insert into projection.usage_history (hour, subject, account, tokens, cost_nanousd)
      select date_trunc('hour', clock_timestamp()) - interval '1 day' * n, 'key/Key00001', 'Account1', 1, 1
      from generate_series(1, 90) n`,
  );
  await retain(client, [history], NEVER);
  expect(await wrongly(history, 56)).toMatchObject({ kept: 0, lacking: 0, late: false });
});

test('quota windows are removed by the age of their end; a current one never', async () => {
  const [, quotas] = retentionsOf(1) as [Retention, Retention];
  // Each month of three years, this one last, and each hour of forty days.
  await client.query(
    `insert into projection.quota_window (subject, holder, account, per, meter, window_kind, window_start,
        reset_position, cap, position, enforcement)
      select 'account/Account1', 'account/Account1', 'Account1', 0, 1, kind,
          extract(epoch from at)::bigint / 60, 0, 1, 1, 0
      from (
        select 5 as kind, generate_series(
          date_trunc('month', now(), 'UTC') - interval '36 months', now(), interval '1 month') as at
        union all
        select 2, generate_series(
          date_trunc('hour', now()) - interval '40 days', now(), interval '1 hour')
      ) made`,
  );
  await retain(client, [quotas], NEVER);
  const left = (kind: number) =>
    ask(
      database.config('worker'),
      `select count(*)::int from projection.quota_window where window_kind = ${kind}`,
    );
  expect(await left(5)).toBeGreaterThanOrEqual(1);
  expect(await left(5)).toBeLessThanOrEqual(2);
  expect(await left(2)).toBeGreaterThanOrEqual(32 * 24);
  expect(await left(2)).toBeLessThanOrEqual(32 * 24 + 2);
});

test("removed rows are no difference to check, and a rebuild doesn't restore them", async () => {
  await using writer = await openWriter(database);
  const calls = Array.from({ length: 20 }, () => accepted());
  await writer.append(calls);
  await writer.append(calls.slice(5).map((each) => settled(each)));
  await projectAll(database);
  // As if all of it were long ago.
  const gone = retentionsOf(1).map((each) => ({ ...each, keep: '-1 hour' }));
  expect(await retain(client, gone, NEVER)).toBeGreaterThanOrEqual(16);
  const count = () => ask(database.config('worker'), 'select count(*)::int from projection.request');
  expect(await count()).toBe(5);
  for (const { projection } of gone) {
    const session = await connectAs(database, 'worker');
    expect(await compare(session, projection)).toMatchObject({ differing: 0, faults: [] });
    await closeClient(session);
    await rebuild(client, projection);
  }
  expect(await count()).toBe(5);
});

test('old alerts are removed, and jobs a week after their last failed attempt', async () => {
  await client.query(`insert into daybook.alert (topic, ordinal, kind, state, details, raised_at)
    select 'topic/' || n, 1, 'quota', 'raised', '{}', clock_timestamp() - n * interval '1 day'
    from generate_series(1, 100) n`);
  await client.query(
    `select graphile_worker.add_job('expire_keys', job_key => 'key ' || n, max_attempts => 1)
      from generate_series(1, 10) n`,
  );
  await client.query(
    `update graphile_worker._private_jobs
      set attempts = (id % 2)::smallint, updated_at = clock_timestamp() - interval '8 days'
      where key < 'key 5'`,
  );
  await client.query(`update graphile_worker._private_jobs set attempts = 1 where key >= 'key 5'`);
  await retain(client, [], NEVER);
  expect(await ask(database.config('worker'), 'select count(*)::int from daybook.alert')).toBe(89);
  expect(
    await ask(
      database.config('worker'),
      'select count(*)::int from graphile_worker._private_jobs where attempts >= max_attempts',
    ),
  ).toBe(5);
  expect(
    await ask(
      database.config('worker'),
      'select count(*) > 0 from graphile_worker._private_jobs where attempts < max_attempts',
    ),
  ).toBe(true);
});

test('checkpoints are kept for two days, then the last and the last cosigned one of each hour', async () => {
  await client.query(`insert into daybook.checkpoint (epoch, size, note, published_at)
    select epoch, 1000 * hour + part, 'note',
      date_trunc('hour', clock_timestamp() - interval '48 hours', 'UTC')
        + (hour - 4) * interval '1 hour' + part * interval '10 minutes'
    from generate_series(1, 5) hour, generate_series(0, 5) part, (values (1), (2)) e(epoch)
    where epoch = 1 or hour = 3`);
  await ask(
    database.config('relay'),
    `insert into daybook.cosignature (epoch, size, witness, line)
      values (1, 1001, 'w', ''), (1, 1003, 'w', ''), (1, 2005, 'w', '')`,
  );
  await retain(client, [], NEVER);
  const sizes = (epoch: number) =>
    ask(
      database.config('worker'),
      `select array_agg(size::int order by size) from daybook.checkpoint where epoch = ${epoch}`,
    );
  expect(await sizes(1)).toEqual([
    1003, 1005, 2005, 3005, 4000, 4001, 4002, 4003, 4004, 4005, 5000, 5001, 5002, 5003, 5004, 5005,
  ]);
  expect(await sizes(2)).toEqual([3005]);
  expect(
    await ask(
      database.config('worker'),
      'select array_agg(size::int order by size) from daybook.cosignature',
    ),
  ).toEqual([1003, 2005]);
});

test('allowances of ended windows are removed with their leases; ones still read are kept', async () => {
  const day = 1_440;
  /** How long before now a window began that may still be looked at, and one that may not. */
  const ages: Partial<Record<WindowKind, [kept: number, gone: number]>> = {
    minute: [5, 15],
    hour: [119, 240],
    day: [day, 4 * day],
    week: [day, 20 * day],
    month: [31 * day, 100 * day],
  };
  const now = minuteOf(Date.now());
  const insert = (subject: string, window: WindowKind, minute: number) =>
    ask(
      database.config('owner'),
      `with made as (
        insert into daybook.allowance (subject, meter, window_kind, window_start, reset_position,
            cap, ceiling, terms_position, since_terms)
          values ('${subject}', 2, ${WINDOW_KINDS[window]}, ${windowStart(window, minute)}, 0, 10, 10, 1, 1)
          returning id
      )
      insert into daybook.lease (allowance, instance, position, since_terms) select id, 1, 1, 1 from made`,
    );
  await insert('stays', 'none', now);
  for (const [window, [kept, gone]] of Object.entries(ages) as [WindowKind, [number, number]][]) {
    for (const age of [0, kept]) await insert(`stays ${age}`, window, now - age);
    await insert('goes', window, now - gone);
  }
  expect(CRONTAB.map(({ task }) => task)).toContain('drop_allowances');
  const dataDir = await makeTestDirectory();
  const worker = spawnWorker({ DATABASE_URL: database.url, DAYBOOK_DATA: dataDir, LOG_LEVEL: 'warn' });
  try {
    await client.query("select graphile_worker.add_job('drop_allowances')");
    await until(
      () =>
        ask(database.config('owner'), "select count(*)::int from daybook.allowance where subject = 'goes'"),
      (count) => count === 0,
      'the worker',
    );
  } finally {
    await worker.stop();
    await removeTestDirectory(dataDir);
  }
  expect(
    await ask(
      database.config('owner'),
      `select count(*)::int from daybook.allowance a join daybook.lease on allowance = a.id
        where subject like 'stays%'`,
    ),
  ).toBe(11);
  expect(
    await ask(
      database.config('owner'),
      'select count(*)::int from daybook.lease where allowance not in (select id from daybook.allowance)',
    ),
  ).toBe(0);
  expect(await dropEnded(client)).toBe(0);
});

test('leases of ended processes are removed, a bounded number at a time; their allowances stay', async () => {
  const owner = await connectAs(database, 'owner');
  await owner.query(`
    insert into daybook.instance (name, open_from, dead_at, closed_at)
      values ('ended', 1, now(), now()), ('dead', 1, now(), null), ('live', 1, null, null)`);
  await owner.query(`
    with made as (
      insert into daybook.allowance (subject, meter, window_kind, window_start, reset_position, cap, ceiling,
          terms_position, since_terms)
        select 'end_user/' || n, 2, 6, 0, 0, 10, 10, 1, 1 from generate_series(1, 5) n
        returning id
    )
    insert into daybook.lease (allowance, instance, position, since_terms, closed)
      select m.id, i.id, 1, 1, true from made m cross join daybook.instance i
        where i.name in ('ended', 'dead', 'live')`);
  const left = `select jsonb_object_agg(name, leases) from (
    select i.name, count(l.*) as leases from daybook.instance i left join daybook.lease l on l.instance = i.id
      where i.name in ('ended', 'dead', 'live') group by i.name) c`;
  const { rows } = await client.query('select daybook.drop_ended_leases(3) as dropped');
  expect(rows).toEqual([{ dropped: '3' }]);
  expect(await ask(database.config('owner'), left)).toEqual({ ended: 2, dead: 5, live: 5 });
  expect(await dropEnded(client)).toBe(2);
  expect(await ask(database.config('owner'), left)).toEqual({ ended: 0, dead: 5, live: 5 });
  await closeClient(owner);
});
