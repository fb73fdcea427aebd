import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import { quotaAlert, type QuotaFigures, QUOTA_PERCENTS, quotaTopics } from '#db/alerts/alerts.ts';

/**
 * Windows per run, the least recently changed first; the rest follows at once. One event changes far fewer.
 */
const WINDOWS_MAX = 1_000;
const LOOK_MS = 5_000;

const STATE = `select l.position as looked, p.position as reached, clock_timestamp() as now
  from daybook.projection p left join daybook.alert_look l on l.kind = 'quota'
  where p.name = 'quotas' and p.is_live`;
/** The windows that changed since the last run and are used enough. None lasts longer than a month. */
const CHANGED = `select q.subject, q.account, a.name as account_name, q.meter, q.window_kind, q.window_start,
    q.reset_position::float8 as reset_position, q.cap::float8 as cap, q.used::float8 as used,
    q.position::float8 as position
  from projection.quota_window q left join projection.account a on a.id = q.account
  where q.position > $1 and q.position <= $2 and q.used * 100.0 >= q.cap * ${Math.min(...QUOTA_PERCENTS)}.0
    and q.window_start > extract(epoch from clock_timestamp()) / 60 - 32 * 24 * 60
  order by q.position limit ${WINDOWS_MAX}`;
const LOOKED = `insert into daybook.alert_look (kind, position) values ('quota', $1)
  on conflict (kind) do update set position = greatest(alert_look.position, excluded.position)`;

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
  const { rows } = await client.query<QuotaFigures & { position: number }>(CHANGED, [looked, state.reached]);
  const raised = await readRaised(client, rows.flatMap(quotaTopics));
  await raiseAlerts(
    client,
    rows.map((quota) => quotaAlert(quota, raised, state.now.getTime())).filter((alert) => alert !== null),
  );
  const isAll = rows.length < WINDOWS_MAX;
  // The last event may have changed more windows beyond the limit: the next run begins with it.
  await client.query(LOOKED, [isAll ? state.reached : (rows.at(-1)?.position ?? 1) - 1]);
  return isAll ? LOOK_MS : 0;
}
