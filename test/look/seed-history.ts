import { closeClient } from '#db/postgres/connect.ts';
import { watchBudgets } from '../../worker/tasks/watch-budgets.ts';
import { watchUsage } from '../../worker/tasks/watch-usage.ts';
import { connectAs } from '../support/log/log-writer.ts';
import type { TestRelay } from '../support/relay.ts';
import { seriesOf } from '../support/seeded-series.ts';

const HOURS = 8 * 168;

/**
 * Gives accounts eight weeks of usage before this hour, with the keys and models that they used in it,
 * and the first key a jump, so that pages have forecasts and alerts.
 */
export async function seedHistory(
  { store }: TestRelay,
  accounts: readonly { id: string; nanousdPerHour: number }[],
): Promise<void> {
  const client = await connectAs(store, 'worker');
  try {
    for (const [index, { id, nanousdPerHour }] of accounts.entries()) {
      const usage = seriesOf('daily', index + 1, HOURS, nanousdPerHour);
      await client.query(
        `insert into projection.usage_history (subject, hour, account, tokens, cost_nanousd)
          select s.subject, date_trunc('hour', now(), 'UTC') - interval '1 hour' * n, $1,
              used / 25000, used
            from unnest($2::bigint[]) with ordinality u(used, n),
              (select distinct subject from projection.usage_history where account = $1) s
          on conflict do nothing`,
        [id, usage],
      );
    }
    await client.query(
      `update projection.usage_history set tokens = tokens + 2500000
        where hour = (select max(hour) from projection.usage_history)
          and subject in ((select min(subject) from projection.usage_history where subject like 'key/%'),
            (select max(subject) from projection.usage_history where subject like 'model/%'))`,
    );
    await watchUsage(client);
    await watchBudgets(client);
  } finally {
    await closeClient(client);
  }
}
