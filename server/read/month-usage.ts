import type { ClientBase } from 'pg';
import type { MonthUsage } from '#server/contract/usage.ts';

export const NO_USAGE: MonthUsage = { requests: 0, tokens: 0, cost_microusd: 0 };

// Sums as floating-point numbers, which are exact up to 2^53.
const FIGURES = `sum(completed + client_gone + upstream_failed + cut_short + relay_failed)::float8 as requests,
  sum(input_tokens + output_tokens)::float8 as tokens, sum(cost_microusd)::float8 as cost_microusd`;
const SINCE = `day >= date_trunc('month', to_timestamp($1::float8 / 1000), 'UTC')`;

type Row = MonthUsage & { id: string };

/** By account, of these. @param nowMs Postgres' time, in milliseconds since 1970. */
export async function monthOfAccounts(
  client: ClientBase,
  accounts: readonly string[],
  nowMs: number,
): Promise<Map<string, MonthUsage>> {
  return byId(
    await client.query<Row>(
      `select account as id, ${FIGURES} from projection.usage_day_account where ${SINCE} and account = any($2) group by account`,
      [nowMs, accounts],
    ),
  );
}

/** By key, of these, which belong to these accounts. */
export async function monthOfKeys(
  client: ClientBase,
  keys: readonly string[],
  accounts: readonly string[],
  nowMs: number,
): Promise<Map<string, MonthUsage>> {
  return byId(
    await client.query<Row>(
      `select key as id, ${FIGURES} from projection.usage_day where ${SINCE} and account = any($2) and key = any($3) group by key`,
      [nowMs, accounts, keys],
    ),
  );
}

const byId = ({ rows }: { rows: Row[] }): Map<string, MonthUsage> =>
  new Map(rows.map(({ id, ...figures }) => [id, figures]));
