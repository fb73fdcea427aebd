import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import { quotaAlert, type QuotaFigures, QUOTA_PERCENTS, quotaTopics } from '#db/alerts/alerts.ts';

/**
 * Windows that a run looks at, the least recently changed first, and those that the last event of them
 * changed too; the rest follows at once. It bounds the windows that are read, not those that are used
 * enough: with a long history most are over or little used, and a first run would read all of them.
 */
const WINDOWS_MAX = 5_000;
const LOOK_MS = 5_000;

const STATE = `select l.position as looked, p.position as reached, statement_timestamp() as now
  from daybook.projection p left join daybook.alert_look l on l.kind = 'quota'
  where p.name = 'quotas' and p.is_live`;
/**
 * The windows above position `$1` up to `$2` that are used enough, with the last position that was looked at
 * and the number of windows. None lasts longer than a month.
 */
export const CHANGED_QUOTAS = `with seen as materialized (
    select * from projection.quota_window where position > $1 and position <= $2
      order by position fetch first ${WINDOWS_MAX} rows with ties)
  select s.position::float8 as last, s.count::int as count, q.subject, q.account, a.name as account_name,
      q.meter, q.window_kind, q.window_start, q.reset_position::float8 as reset_position,
      q.cap::float8 as cap, q.used::float8 as used
    from (select max(position) as position, count(*) as count from seen) s
    left join seen q on q.used * 100.0 >= q.cap * ${Math.min(...QUOTA_PERCENTS)}.0
      and q.window_start > extract(epoch from statement_timestamp()) / 60 - 32 * 24 * 60
    left join projection.account a on a.id = q.account
    order by q.position`;
const LOOKED = `insert into daybook.alert_look (kind, position) values ('quota', $1)
  on conflict (kind) do update set position = greatest(alert_look.position, excluded.position)`;

/** `subject` and what follows are null in the one row of a run without a window that is used enough. */
type Changed = { last: number | null; count: number; subject: string | null };
type State = { looked: string | null; reached: string; now: Date };

/**
 * Raises an alert for each quota that has crossed another threshold. Only windows that changed since
 * the last run are read; later changes are left to the next run. If two runs overlap, the alert's
 * topic makes sure that it is raised once.
 * @returns the milliseconds until the next run.
 */
export async function watchQuotas(client: ClientBase): Promise<number> {
  const { rows: states } = await client.query<State>(STATE);
  const [state] = states;
  const looked = Number(state?.looked ?? 0);
  if (state === undefined || looked >= Number(state.reached)) return LOOK_MS;
  const { rows } = await client.query<Changed & (QuotaFigures | { subject: null })>(CHANGED_QUOTAS, [
    looked,
    state.reached,
  ]);
  const used = rows.filter((row): row is Changed & QuotaFigures => row.subject !== null);
  const raised = await readRaised(client, used.flatMap(quotaTopics));
  await raiseAlerts(
    client,
    used.map((quota) => quotaAlert(quota, raised, state.now.getTime())).filter((alert) => alert !== null),
  );
  const isAll = (rows[0]?.count ?? 0) < WINDOWS_MAX;
  await client.query(LOOKED, [isAll ? state.reached : rows[0]?.last]);
  return isAll ? LOOK_MS : 0;
}
