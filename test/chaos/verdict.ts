import type { Store } from '#db/postgres/connect.ts';
import type { Placed } from '#db/events/events.ts';
import type { Client } from 'pg';
import { openSession } from '../support/database.ts';
import { chargesOf } from '../support/identity/charges.ts';

/** What a chaos run found against a promise; `request` is a request's id, or whose limit it is. */
export type Finding = { rule: string; request: string; message: string };

/** One quota whose allowance a chaos run compares with the log. */
export type Watched = { account: string; meter: 'requests' | 'tokens' };

/**
 * Nothing is charged twice and nothing is lost: when nobody runs any more, what the allowances say
 * was spent is what the log says, and every lease was given back.
 */
export async function unbalanced(
  store: Store,
  events: readonly Placed[],
  watched: readonly Watched[],
): Promise<Finding[]> {
  type Row = { subject: string; meter: string; spent: string; held: string; out: string; open: string };
  const rows = await query<Row>(
    store,
    `select subject, case meter when 1 then 'requests' else 'tokens' end as meter,
      sum(used + overdrawn) as spent, sum(held) as held,
      sum(granted - returned - used) as out,
      sum((select count(*) from daybook.lease l where l.allowance = a.id and not l.closed)) as open
    from daybook.allowance a where window_kind = 5 and meter in (1, 2) group by subject, meter`,
  );
  return watched.flatMap(({ account, meter }) => {
    const row = rows.find((each) => each.subject === `account/${account}` && each.meter === meter);
    const settled = chargesOf(events, { meter, account }).at(-1)?.settled ?? 0;
    const [spent, held, out, open] = [row?.spent, row?.held, row?.out, row?.open].map((each) =>
      Number(each ?? 0),
    );
    if (spent === settled && held === 0 && out === 0 && open === 0) return [];
    const allowance = `${spent} spent, ${held} reserved and ${out} leased, with ${open} open leases`;
    const message = `${settled} ${meter} in the log, but the allowance has ${allowance}`;
    return [{ rule: 'P4', request: account, message }];
  });
}

/**
 * When the leases and calls of these instances had been recovered, in ms since 1970; null where they have not
 * been.
 */
export async function closedAt(client: Client, instances: readonly number[]): Promise<(number | null)[]> {
  const { rows } = await client.query<{ id: number; closed: string | null }>(
    `select id, (extract(epoch from closed_at) * 1000)::bigint as closed
      from daybook.instance where id = any($1)`,
    [instances],
  );
  const known = new Map(rows.map(({ id, closed }) => [id, closed === null ? null : Number(closed)]));
  return instances.map((id) => known.get(id) ?? null);
}

async function query<Row extends object>(store: Store, text: string): Promise<Row[]> {
  const client = await openSession(store.config('auditor'));
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}
