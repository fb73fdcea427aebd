import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { db, rowsOf } from '#db/schema/query.ts';
import type { Account } from '#db/fold/account.ts';
import { isActiveKey } from '#db/fold/key.ts';
import { readStream } from '#db/log/read.ts';
import type { z } from 'zod';
import { newestFirst } from '#server/dashboard/newest-first.ts';
import { Matcher } from '#server/dashboard/search/find.ts';
import { CHILDREN_LISTED_MAX } from '#server/dashboard/bounds.ts';
import type { AccountRow, AccountsQuery } from '#server/contract/accounts.ts';
import type { MonthUsage } from '#server/contract/usage.ts';
import { monthOfAccounts, NO_USAGE } from '#server/read/month-usage.ts';
import type { Source } from '#server/read/store.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

export const ACCOUNTS: Source = { projection: 'usage', tables: ['account', 'usage_day_account'] };

/** The newest accounts that match, in their current state. */
export function chooseAccounts(
  readModel: ReadModel,
  { search = '', plan, ...page }: z.infer<typeof AccountsQuery>,
): ReturnType<typeof newestFirst<Account>> {
  const matcher = new Matcher(search);
  const fits = (account: Account): boolean =>
    (plan === undefined || account.plan === plan) && (matcher.fits(account.name) || matcher.fits(account.id));
  return newestFirst([...readModel.accounts], fits, page);
}

/** Facts about an account that only the tables have. */
export type AccountFacts = { registeredAt: Date; month: MonthUsage };

/** Reads them. The creation time comes from the log if the projection is behind. */
export async function readAccountFacts(
  client: ClientBase,
  accounts: readonly Account[],
  nowMs: number,
): Promise<Map<string, AccountFacts>> {
  const ids = accounts.map(({ id }) => id);
  const rows = await rowsOf(
    client,
    db
      .selectFrom('projection.account')
      .select(['id', 'registered_at'])
      .where((eb) => eb('id', '=', eb.fn.any(sql.val(ids)))),
  );
  const registered = new Map(rows.map(({ id, registered_at }) => [id, registered_at]));
  const months = await monthOfAccounts(client, ids, nowMs);
  const facts = new Map<string, AccountFacts>();
  for (const id of ids) {
    const registeredAt = registered.get(id) ?? (await readStream(client, `account/${id}`))[0]?.at;
    if (registeredAt) facts.set(id, { registeredAt, month: months.get(id) ?? NO_USAGE });
  }
  return facts;
}

/** Accounts as rows of a list. */
export function accountRows(
  readModel: ReadModel,
  accounts: readonly Account[],
  facts: ReadonlyMap<string, AccountFacts>,
  now: Date,
): AccountRow[] {
  const members = Map.groupBy(
    [...readModel.members].filter(({ state }) => state === 'active'),
    ({ account }) => account,
  );
  const children = Map.groupBy(readModel.accounts, ({ parent }) => parent);
  const refOf = ({ id, name }: Account) => ({ id, name });
  return accounts.flatMap((account) => {
    const { id, name, state, plan, override, parent, toppedUp } = account;
    const above = parent === null ? undefined : readModel.account(parent);
    const terms = { ...(plan === null ? {} : readModel.plan(plan)?.terms), ...override };
    const known = facts.get(id);
    if (!known) return [];
    const keys = readModel.keysOf(id).filter((key) => isActiveKey(key, now));
    return [
      {
        id,
        name,
        state,
        plan,
        override,
        created_at: known.registeredAt.toISOString(),
        parent: above === undefined ? null : refOf(above),
        children: (children.get(id) ?? []).slice(0, CHILDREN_LISTED_MAX).map(refOf),
        prepaid: terms.prepaid === true,
        topped_up_nanousd: toppedUp,
        members: members.get(id)?.length ?? 0,
        keys: keys.length,
        month: known.month,
      },
    ];
  });
}
