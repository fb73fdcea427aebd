import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { db, rowsOf } from '#db/schema/query.ts';
import type { MonthUsage } from '#server/contract/usage.ts';

export const NO_USAGE: MonthUsage = {
  requests: 0,
  tokens: 0,
  cost_nanousd: '0',
  estimated_cost_nanousd: '0',
  corrections: 0,
  correction_cost_nanousd: '0',
};

// Counts as floating-point numbers, which are exact up to 2^53.
const FIGURES = [
  sql<number>`sum(completed + client_disconnected + upstream_failed + cut_short + relay_failed)::float8`.as(
    'requests',
  ),
  sql<number>`sum(input_tokens + output_tokens)::float8`.as('tokens'),
  sql<string>`sum(cost_nanousd)::text`.as('cost_nanousd'),
  sql<string>`sum(estimated_cost_nanousd)::text`.as('estimated_cost_nanousd'),
  sql<number>`sum(corrections)::float8`.as('corrections'),
  sql<string>`sum(correction_cost_nanousd)::text`.as('correction_cost_nanousd'),
] as const;

const monthOf = (nowMs: number) =>
  sql<Date>`date_trunc('month', to_timestamp(${nowMs}::float8 / 1000), 'UTC')`;

/** Usage of accounts in the current month. @param nowMs Postgres' time, in milliseconds since 1970. */
export async function monthOfAccounts(
  client: ClientBase,
  accounts: readonly string[],
  nowMs: number,
): Promise<Map<string, MonthUsage>> {
  const query = db
    .selectFrom('projection.usage_day_account')
    .select('account as id')
    .select(FIGURES)
    .where('day', '>=', monthOf(nowMs))
    .where((eb) => eb('account', '=', eb.fn.any(sql.val(accounts))))
    .groupBy('account');
  return byId(await rowsOf(client, query));
}

/** Usage of keys, which belong to these accounts, in the current month. */
export async function monthOfKeys(
  client: ClientBase,
  keys: readonly string[],
  accounts: readonly string[],
  nowMs: number,
): Promise<Map<string, MonthUsage>> {
  const query = db
    .selectFrom('projection.usage_day')
    .select('key as id')
    .select(FIGURES)
    .where('day', '>=', monthOf(nowMs))
    .where((eb) => eb('account', '=', eb.fn.any(sql.val(accounts))))
    .where((eb) => eb('key', '=', eb.fn.any(sql.val(keys))))
    .groupBy('key');
  return byId(await rowsOf(client, query));
}

const byId = (rows: readonly (MonthUsage & { id: string })[]): Map<string, MonthUsage> =>
  new Map(rows.map(({ id, ...figures }) => [id, figures]));
