import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ALERT_FILTER_FIELDS, type AlertFilter } from '#db/alerts/alerts.ts';
import { type FilteredCall, matchesCall } from '#db/fold/call-filter.ts';
import type { AlertRow } from '#server/contract/alerts.ts';
import { listAlerts } from '#server/dashboard/service/alerts.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { END_REASONS, type EndReason, USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { explainMonitor, MONITORS } from '../../bench/tables/monitors.ts';
import { JobReports } from '../../worker/job-status.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { watchQuotas } from '../../worker/tasks/watch-quotas.ts';
import { watchJobs } from '../../worker/tasks/watch-jobs.ts';
import { watchSinks } from '../../worker/tasks/watch-sinks.ts';
import {
  watchKeys,
  watchProjections,
  watchUpstreams,
  watchUsageReports,
} from '../../worker/tasks/watch-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { accepted, connectAs, openWriter } from '../support/log/log-writer.ts';

/** What is looked at for alerts, and that each is raised once, by however many that look. */

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  client = await connectAs(database, 'worker');
});

afterAll(async () => {
  await closeClient(client);
  await database[Symbol.asyncDispose]();
});

afterEach(async () => {
  await client.query(
    `delete from daybook.alert;
    delete from daybook.alert_look;
    delete from daybook.job_status;
    truncate projection.quota_window, projection.quota_terms, projection.key, projection.request`,
  );
  await client.query('update daybook.projection set position = daybook.head(0::smallint), is_live = true');
});

const alerts = async (): Promise<string[]> =>
  (
    await client.query<{ text: string }>(
      `select concat_ws(' ', kind, state, account,
          coalesce(details->>'percent', details->>'days', details->>'upstream')) as text
        from daybook.alert order by raised_at, text`,
    )
  ).rows.map(({ text }) => text);

const jobAlerts = async (): Promise<string[]> =>
  (
    await client.query<{ text: string }>(
      `select concat_ws(' ', state, details->>'job', details->>'failures', details->>'reason') as text
        from daybook.alert order by text`,
    )
  ).rows.map(({ text }) => text);

/** An alert as the filter of calls reads it; fields that it lacks are null. */
const callOf = ({ account, details }: AlertRow): FilteredCall => {
  const text = (name: string): string | null => (details[name] as string | undefined) ?? null;
  return {
    account: account ?? '',
    key: text('key') ?? '',
    model: text('model'),
    upstream: text('upstream'),
    end_user: text('end_user'),
    session: text('session'),
    tags: [text('tag')].filter((tag) => tag !== null),
    ...({ route: null, outcome: 'running', status: null, error_code: null } as const),
  };
};

/** Runs a check on several workers at once. */
async function atOnce(look: (client: Client) => Promise<unknown>): Promise<void> {
  const clients = await Promise.all([1, 2, 3].map(() => connectAs(database, 'worker')));
  await Promise.all(clients.map(look));
  for (const each of clients) await closeClient(each);
}

/** The first minute of the current month. */
const MONTH_START = `(extract(epoch from
  date_trunc('month', clock_timestamp() at time zone 'UTC')) / 60)::int`;

describe('quotas', () => {
  const reach = (position: number) =>
    client.query("update daybook.projection set position = $1 where name = 'quotas'", [position]);
  const use = (subject: string, used: number, position: number) =>
    client.query(
      `insert into projection.quota_window (cap, used, reset_position, position, window_start,
          meter, window_kind, per, enforcement, subject, holder, account)
        values (1000, $2, 0, $3, ${MONTH_START},
          ${METERS.tokens.code}, ${WINDOW_KINDS.month}, 0, 0, $1, $1, 'Account1')
        on conflict (subject, meter, window_kind, window_start, reset_position)
          do update set used = excluded.used, position = excluded.position`,
      [subject, used, position],
    );

  test('raise one alert per threshold reached, with three concurrent workers', async () => {
    for (const [position, used] of [400, 500, 790, 800, 990, 1_000, 1_200].entries()) {
      await use('account/Account1', used, position + 1);
      await reach(position + 1);
      await atOnce(watchQuotas);
    }
    expect(await alerts()).toEqual([
      'quota raised Account1 50',
      'quota raised Account1 80',
      'quota raised Account1 100',
    ]);
  });

  test("are checked up to the projection's position; unchecked windows are not skipped", async () => {
    await use('account/Account1', 900, 5);
    await reach(4);
    await watchQuotas(client);
    expect(await alerts()).toEqual([]);
    await reach(5);
    await watchQuotas(client);
    expect(await alerts()).toEqual(['quota raised Account1 80']);
  });

  test('raise alerts for all subjects when there are more than one run checks', async () => {
    await client.query(
      `insert into projection.quota_window (cap, used, reset_position, position, window_start,
          meter, window_kind, per, enforcement, subject, holder, account)
        select 10, case when n % 100 = 0 then 8 else 1 end, 0, 1 + n / 6000, ${MONTH_START}, 2, 5, 0, 0,
          'key/' || n, 'key/' || n, 'Account1'
        from generate_series(1, 13000) n`,
    );
    await reach(2_000);
    // One event may change more windows than a run looks at.
    let runs = 1;
    while ((await watchQuotas(client)) === 0) runs++;
    expect(runs).toBe(3);
    expect(await alerts()).toHaveLength(130);
    // What has not changed since is not read again.
    expect(await watchQuotas(client)).toBeGreaterThan(0);
  });

  test('raise an alert once when a hard limit is exceeded, and none for a soft or lowered one', async () => {
    const terms = (subject: string, cap: number, position: number, until: number | null, isHard = true) =>
      client.query(
        `insert into projection.quota_terms (subject, meter, window_kind, position, until_position, cap,
            reset_position, from_minute, enforcement, per)
          values ($1, ${METERS.tokens.code}, ${WINDOW_KINDS.month}, $2, $3, $4, 0,
            ${MONTH_START} + $6, $5, 0)`,
        [subject, position, until, cap, isHard ? 1 : 0, position > 1 ? 5 : -5],
      );
    await terms('key/exceeded', 1_000, 1, null);
    await terms('key/within', 1_000, 1, null);
    await terms('key/soft', 1_000, 1, null, false);
    await terms('key/lowered', 2_000, 1, 3);
    await terms('key/lowered', 1_000, 3, null);
    await terms('key/hardened', 1_000, 1, 3, false);
    await terms('key/hardened', 1_000, 3, null);
    for (const used of [1_001, 1_500]) {
      for (const name of ['exceeded', 'soft', 'lowered', 'hardened']) await use(`key/${name}`, used, used);
      await use('key/within', 1_000, used);
      await reach(used);
      await atOnce(watchQuotas);
    }
    const { rows } = await client.query(
      `select details->'overdraft' as overdraft, details->>'subject' as subject from daybook.alert
        where kind = 'overdraft'`,
    );
    expect(rows).toEqual([{ overdraft: 1, subject: 'key/exceeded' }]);
  });

  test('of end users raise ten a day and one about the others, and are filtered as calls are', async () => {
    await client.query(
      `insert into projection.quota_window (cap, used, reset_position, position, window_start,
          meter, window_kind, per, enforcement, subject, holder, account)
        select 1000, case when n % 100 = 0 then 850 else 10 end, 0, n, ${MONTH_START},
          ${METERS.tokens.code}, ${WINDOW_KINDS.month}, 1, 1,
          'end_user/Account1/User' || lpad(n::text, 12, '0'), 'account/Account1', 'Account1'
        from generate_series(1, 3000) n`,
    );
    await use('key/Key00001', 900, 3_001);
    await reach(3_001);
    await watchQuotas(client);
    await watchQuotas(client);
    const listed = (filter: AlertFilter): Promise<AlertRow[]> =>
      listAlerts(client, null, filter, () => 'acme');
    const all = await listed({});
    expect(all.filter(({ details }) => 'others_than' in details)).toHaveLength(1);
    expect(all).toHaveLength(12);

    // The condition of the list and of destinations is the filter of calls.
    const users = all.flatMap(({ details }) => details['end_user'] ?? []) as string[];
    const values: Record<keyof AlertFilter, readonly string[]> = {
      account: ['Account1', 'Account2'],
      key: ['Key00001', 'Key00002'],
      model: ['tide'],
      upstream: ['mock'],
      end_user: [users[3] as string, 'User000000000001'],
      session: ['Session000000001'],
      tag: ['Tag0000000000001'],
    };
    let found = 0;
    for (const field of ALERT_FILTER_FIELDS)
      for (const value of values[field]) {
        const filter = { [field]: value, account: field === 'account' ? value : 'Account1' };
        const expected = all.filter((alert) => matchesCall(filter, callOf(alert)));
        expect(await listed(filter), field).toEqual(expected);
        found += expected.length;
      }
    expect(found).toBe(12 + 1 + 1);
    expect(await listAlerts(client, 'Account2', {}, () => null)).toEqual([]);
  });

  test('raise no alerts while their projection is rebuilt', async () => {
    await use('account/Account1', 900, 5);
    await reach(5);
    await client.query("update daybook.projection set is_live = false where name = 'quotas'");
    await watchQuotas(client);
    expect(await alerts()).toEqual([]);
  });
});

test("keys that expire soon raise alerts; expired and revoked keys don't", async () => {
  await client.query(
    `insert into projection.key (id, account, name, last4,
        created_at, expires_at, expired_at, revoked_at, version, position)
      select id, 'Account1', 'laptop', 'aaaa',
        now() - interval '30 days', now() + hours * interval '1 hour',
        case when id like 'Ended%' then now() end, case when id like 'Revok%' then now() end, 1, 1
      from (values ('Soon0001', 20), ('Week0001', 100), ('Later001', 200),
        ('Ended001', 20), ('Revoked1', 20), ('Past0001', -1)) as k(id, hours)`,
  );
  await atOnce(watchKeys);
  await atOnce(watchKeys);
  expect((await alerts()).toSorted()).toEqual([
    'key_expiring raised Account1 1',
    'key_expiring raised Account1 7',
  ]);
});

test("a failing upstream raises one alert, and one on recovery; client errors don't count", async () => {
  const call = (upstream: string, reason: EndReason, count: number) =>
    client.query(
      `insert into projection.request (request, position, end_position, accepted_at, ended_at,
          instance, account, key, upstream, end_reason)
        select gen_random_uuid(), n, n, clock_timestamp(), clock_timestamp(),
          1, 'Account1', 'Key00001', $1, $2
        from generate_series(1, $3::int) n`,
      [upstream, END_REASONS[reason], count],
    );
  await call('bad', 'upstream_unreachable', 20);
  await call('good', 'completed', 20);
  await call('picky', 'upstream_rejected', 30);
  await call('rare', 'upstream_disconnected', 5);
  await atOnce(watchUpstreams);
  await watchUpstreams(client);
  expect(await alerts()).toEqual(['upstream_failing raised bad']);
  await call('bad', 'completed', 100);
  await atOnce(watchUpstreams);
  await watchUpstreams(client);
  expect(await alerts()).toEqual(['upstream_failing raised bad', 'upstream_failing recovered bad']);
});

test('implausible usage raises one alert a day for each model of an upstream', async () => {
  const call = (upstream: string, model: string, source: UsageSource) =>
    client.query(
      `insert into projection.request (request, position, end_position, accepted_at, ended_at,
          instance, account, key, upstream, model, end_reason, usage_source)
        values (gen_random_uuid(), 1, 1, clock_timestamp(), clock_timestamp(),
          1, 'Account1', 'Key00001', $1, $2, 1, $3)`,
      [upstream, model, USAGE_SOURCES[source]],
    );
  await call('good', 'tide', 'provider');
  await call('silent', 'tide', 'estimated');
  for (const model of ['tide', 'tide', 'moon']) await call('bad', model, 'implausible');
  await atOnce(watchUsageReports);
  await watchUsageReports(client);
  const { rows } = await client.query(
    "select details from daybook.alert where kind = 'implausible_usage' order by details->>'model'",
  );
  expect(rows).toEqual([
    { details: { upstream: 'bad', model: 'moon', calls: 1 } },
    { details: { upstream: 'bad', model: 'tide', calls: 2 } },
  ]);
});

test('projection lag is alerted by the age of unprojected events, not by idle time', async () => {
  await using writer = await openWriter(database);
  const first = await writer.append([accepted()]);
  await client.query(
    "update daybook.projection set position = $1, position_at = clock_timestamp() - interval '1 day'",
    [first],
  );
  await writer.append([accepted()]);
  await watchProjections(client);
  expect(await alerts()).toEqual([]);

  const superuser = await database.superuser();
  await superuser.query(
    "set session_replication_role = replica; update daybook.log_batch set at = at - interval '2 minutes'",
  );
  await superuser.end();
  await atOnce(watchProjections);
  await client.query('update daybook.projection set position = daybook.head(0::smallint)');
  await atOnce(watchProjections);
  await watchProjections(client);
  expect(await alerts()).toEqual(['projector_behind raised', 'projector_behind recovered']);
});

test('a job that fails again and again raises one alert, and one when it succeeds', async () => {
  const log = createLogger('silent');
  const reports = new JobReports((text, values) => client.query(text, values), log);
  const fails = () => Promise.reject(Object.assign(new Error('the reason'), { code: '57014' }));
  await expect(reports.run('watch_keys', fails)).rejects.toThrow('the reason');
  await watchJobs(client);
  expect(await alerts()).toEqual([]);
  await expect(reports.run('watch_keys', fails)).rejects.toThrow('the reason');
  // An hourly job is failing five minutes after its one run.
  await expect(reports.run('retain', fails)).rejects.toThrow('the reason');
  await client.query(`update daybook.job_status
    set failing_since = failing_since - interval '6 minutes' where task = 'retain'`);
  await reports.run('archive', () => Promise.resolve());
  await atOnce(watchJobs);
  await watchJobs(client);
  expect(await jobAlerts()).toEqual(['raised retain 1 Error 57014', 'raised watch_keys 2 Error 57014']);
  await reports.run('watch_keys', () => Promise.resolve());
  await atOnce(watchJobs);
  expect(await jobAlerts()).toEqual([
    'raised retain 1 Error 57014',
    'raised watch_keys 2 Error 57014',
    'recovered watch_keys 0 Error 57014',
  ]);
});

test('a sink that fails or lags is alerted once, and its recovery once', async () => {
  const owner = await connectAs(database, 'owner');
  await owner.query(
    `insert into daybook.sink (id, name, kind, sealed_config, position)
      select * from (values ('SinkDead', 'dead', 'webhook', ''::bytea, 0),
        ('SinkSlow', 'slow', 'webhook', '', 0), ('SinkFine', 'fine', 'webhook', '', 0)) v`,
  );
  await using writer = await openWriter(database);
  await writer.append([accepted()]);
  const set = (name: string, text: string) =>
    owner.query(`update daybook.sink set ${text} where name = $1`, [name]);
  const toHead = 'position = daybook.head(0::smallint), failures = 0, failing_since = null, fault = null';
  const sinkAlerts = async (): Promise<string[]> =>
    (
      await client.query<{ text: string }>(
        `select concat_ws(' ', details->>'sink', state, details->>'failures', details->>'fault') as text
          from daybook.alert order by text`,
      )
    ).rows.map(({ text }) => text);

  await set('dead', "failures = 4, failing_since = now(), fault = 'http_503'");
  await atOnce(watchSinks);
  expect(await sinkAlerts()).toEqual([]);
  await set('dead', 'failures = 5');
  // The log is append-only for its owner, too.
  await owner.query('alter table daybook.log_batch disable trigger user');
  await owner.query("update daybook.log_batch set at = at - interval '6 minutes'");
  await owner.query('alter table daybook.log_batch enable trigger user');
  await set('fine', toHead);
  await atOnce(watchSinks);
  await watchSinks(client);
  expect(await sinkAlerts()).toEqual(['dead raised 5 http_503', 'slow raised 0']);
  await set('dead', toHead);
  await atOnce(watchSinks);
  await set('slow', toHead);
  await atOnce(watchSinks);
  expect(await sinkAlerts()).toEqual([
    'dead raised 5 http_503',
    'dead recovered 0',
    'slow raised 0',
    'slow recovered 0',
  ]);
  await owner.query('delete from daybook.sink');
  await closeClient(owner);
});

test('every query of a monitor reads by an index condition, never through the history', async () => {
  await client.query('begin; set local enable_seqscan = off; set local enable_bitmapscan = off');
  try {
    const found: Record<string, string[]> = {};
    for (const monitor of MONITORS) found[monitor.name] = (await explainMonitor(client, monitor)).indexes;
    expect(found).toEqual(
      Object.fromEntries(MONITORS.map(({ name, indexes }) => [name, expect.arrayContaining([...indexes])])),
    );
    // The clock of before, as an example of what is found.
    const volatile = MONITORS.map((each) => ({
      ...each,
      query: { ...each.query, sql: each.query.sql.replaceAll('statement_timestamp', 'clock_timestamp') },
    })).find(({ name }) => name === 'watch_upstreams');
    expect((await explainMonitor(client, volatile as (typeof MONITORS)[number])).indexes).toEqual([]);
  } finally {
    await client.query('rollback');
  }
});
