import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ANOMALIES_MAX } from '#db/alerts/anomaly-alerts.ts';
import { alertPath } from '#db/alerts/alert-path.ts';
import type { ReadAlert } from '#db/alerts/alert-line.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { minuteOf, windowEnd, windowStart } from '#db/limits/windows.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { watchBudgets } from '../../worker/tasks/watch-budgets.ts';
import { watchUsage } from '../../worker/tasks/watch-usage.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs } from '../support/log/log-writer.ts';

/** Alerts of unusual usage and of projected budgets, from the table of usage by hour. */

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
    'delete from daybook.alert; truncate projection.usage_history, projection.quota_window, projection.key',
  );
});

type Raised = ReadAlert & { account: string; topic: string };
const alerts = async (): Promise<Raised[]> =>
  (
    await client.query<Raised>(
      'select kind, state, account, topic, details from daybook.alert order by topic',
    )
  ).rows;

/** Usage of a subject in each of the hours before the current one, and in that one. */
const use = (subject: string, hours: number, tokens: number, now: number, account = 'Account1') =>
  client.query(
    `insert into projection.usage_history (subject, hour, account, tokens, cost_nanousd)
      select $1, date_trunc('hour', clock_timestamp(), 'UTC') - interval '1 hour' * ago, $2,
        case ago when 0 then $4::bigint else $3::bigint + ago % 5 end, 0
      from generate_series(0, $5::int) ago`,
    [subject, account, tokens, now, hours],
  );

/** Runs a check on several workers at once. */
async function atOnce(look: (client: Client) => Promise<unknown>): Promise<void> {
  const clients = await Promise.all([1, 2, 3].map(() => connectAs(database, 'worker')));
  await Promise.all(clients.map(look));
  for (const each of clients) await closeClient(each);
}

const MONTH_HOURS = 28 * 24;

describe('unusual usage', () => {
  test('of a key is raised once with a link to its calls, by three workers that look twice', async () => {
    await client.query(
      `insert into projection.key (id, account, name, last4, created_at, version, position)
        values ('Key00001', 'Account1', 'laptop', 'abcd', now(), 1, 1)`,
    );
    await use('key/Key00001', MONTH_HOURS, 100_000, 2_000_000);
    await use('key/Key00002', MONTH_HOURS, 100_000, 110_000);
    await atOnce(watchUsage);
    await atOnce(watchUsage);
    const [alert, ...others] = await alerts();
    expect(others).toEqual([]);
    expect(alert).toMatchObject({
      kind: 'usage_anomaly',
      account: 'Account1',
      details: { key: 'Key00001', key_name: 'laptop', meter: 'tokens', used: 2_000_000 },
    });
    expect(alert?.details['usual']).toBeGreaterThan(90_000);
    expect(alert?.details['usual']).toBeLessThan(110_000);
    const link = new URL(alertPath(alert as Raised), 'https://daybook.example.com');
    const hour = new Date(
      Math.floor(Date.parse(String(alert?.details['hour_starts_at'])) / 3_600_000) * 3_600_000,
    );
    expect(Object.fromEntries(link.searchParams)).toEqual({
      account: 'Account1',
      key: 'Key00001',
      from: hour.toISOString(),
      to: new Date(hour.getTime() + 3_600_000).toISOString(),
    });
  });

  test('of an end user explains that of its key and model, but not of another model', async () => {
    await use('end_user/Account1/Pseudonym0000001', MONTH_HOURS, 100_000, 2_000_000);
    await use('end_user/Account1/Key00001/Pseudonym0000001', MONTH_HOURS, 100_000, 2_000_000);
    await use('key/Key00001', MONTH_HOURS, 120_000, 2_050_000);
    await use('model/Account1/vendor/large', MONTH_HOURS, 130_000, 2_100_000);
    await use('model/Account1/other', MONTH_HOURS, 100_000, 9_000_000);
    await watchUsage(client);
    await watchUsage(client);
    expect((await alerts()).map(({ details: { end_user, key, model } }) => end_user ?? key ?? model)).toEqual(
      ['Pseudonym0000001', 'other'],
    );
  });

  test('is raised at most ten times a day for an account, and once more for all others', async () => {
    for (let index = 10; index < 25; index++)
      await use(`model/Account1/model-${index}`, 200, 100_000, 1_000_000 * index);
    await use('model/Account2/model', 200, 100_000, 3_000_000, 'Account2');
    await watchUsage(client);
    await watchUsage(client);
    const raised = await alerts();
    const own = raised.filter(({ account }) => account === 'Account1');
    expect(own).toHaveLength(ANOMALIES_MAX + 1);
    expect(own.filter(({ details }) => details['others_than'] === ANOMALIES_MAX)).toHaveLength(1);
    expect(raised.filter(({ account }) => account === 'Account2')).toHaveLength(1);
  });
});

describe('a budget that is projected to be exceeded', () => {
  const now = new Date();
  const minute = minuteOf(now.getTime());
  /** A window of which a tenth is over, as forecasts need; none is only on a Monday that begins a month. */
  const judged = (['month', 'week', 'day'] as const).find((kind) => {
    const start = windowStart(kind, minute);
    const share = (minute - start) / (windowEnd(kind, start) - start);
    return share > 0.11 && share < 0.98;
  });
  const window = judged ?? 'day';
  const windowFrom = windowStart(window, minute);
  const endMs = windowEnd(window, windowFrom) * 60_000;

  async function budget(subject: string, { used, cap }: { used: number; cap: number }): Promise<void> {
    const per = subject.startsWith('end_user/') ? 1 : 0;
    await client.query(
      `insert into projection.quota_window (cap, used, reset_position, position, window_start,
          meter, window_kind, per, enforcement, subject, holder, account)
        values ($3, $2, 0, 1, $4, ${METERS.tokens.code}, ${WINDOW_KINDS[window]}, ${per}, 0, $1,
          'account/Account1', 'Account1')`,
      [subject, used, cap, windowFrom],
    );
  }

  test.runIf(judged)('raises one alert for its window, by three workers that look twice', async () => {
    await use('account/Account1', MONTH_HOURS, 1_000, 1_000);
    await budget('account/Account1', { used: 500_000, cap: 500_001 });
    await use('account/Account2', MONTH_HOURS, 1_000, 1_000, 'Account2');
    await budget('account/Account2', { used: 500_000, cap: 100_000_000 });
    await atOnce(watchBudgets);
    await atOnce(watchBudgets);
    const raised = await alerts();
    expect(raised).toHaveLength(1);
    expect(raised[0]).toMatchObject({
      kind: 'budget_forecast',
      account: 'Account1',
      details: { meter: 'tokens', window, limit: 500_001, used: 500_000 },
    });
    const {
      projected,
      low,
      high,
      exhausted_at: at,
    } = (raised[0] as Raised).details as Record<string, number>;
    expect(low).toBeLessThanOrEqual(projected as number);
    expect(high).toBeGreaterThanOrEqual(projected as number);
    const hoursLeft = (endMs - Date.now()) / 3_600_000;
    expect(projected).toBeGreaterThan(500_000 + 0.9 * hoursLeft * 1_000);
    expect(projected).toBeLessThan(500_000 + 1.1 * hoursLeft * 1_010);
    expect(Date.parse(String(at))).toBeLessThan(Date.now() + 3_600_000);
  });

  test.runIf(judged)('of an end user names it, and not one that is exhausted already', async () => {
    const subject = 'end_user/Account1/Pseudonym0000001';
    await use(subject, MONTH_HOURS, 1_000, 1_000);
    await budget(subject, { used: 500_000, cap: 500_001 });
    const other = 'end_user/Account1/Pseudonym0000002';
    await use(other, MONTH_HOURS, 1_000, 1_000);
    await budget(other, { used: 500_001, cap: 500_001 });
    await watchBudgets(client);
    const raised = await alerts();
    expect(raised.map(({ details }) => details['end_user'])).toEqual(['Pseudonym0000001']);
    expect(alertPath(raised[0] as Raised)).toContain('end_user=Pseudonym0000001');
  });

  test('raises nothing without a history to project it from', async () => {
    await use('account/Account1', 24, 1_000, 1_000);
    await budget('account/Account1', { used: 500_000, cap: 500_001 });
    await watchBudgets(client);
    expect(await alerts()).toEqual([]);
  });
});
