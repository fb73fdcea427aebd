import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import {
  APART_COUNTED_BY,
  apartGroup,
  boundApart,
  overdraftAlert,
  overdraftTopic,
  quotaAlert,
  type QuotaFigures,
  QUOTA_PERCENTS,
  quotaTopics,
} from '#db/alerts/quota-alerts.ts';
import type { Alert } from '#db/alerts/alerts.ts';
import { ENFORCEMENTS, WINDOW_KINDS } from '#db/limits/limits.ts';
import { PER_HOLDER } from '#db/limits/subjects.ts';
import { countOf, db, rowOf, rowsOf } from '#db/schema/query.ts';

/**
 * Windows that a run looks at, the least recently changed first, and those that the last event of them
 * changed too; the rest follows at once. It bounds the windows that are read, not those that are used
 * enough: with a long history most are over or little used, and a first run would read all of them.
 */
const WINDOWS_MAX = 5_000;
const LOOK_MS = 5_000;

/** The largest cap in force during a window `q`; null where one wasn't hard. Later terms aren't looked at. */
const HARD_CAP = sql<number | null>`(
  select case when bool_and(t.enforcement = ${sql.lit(ENFORCEMENTS.hard)}) then max(t.cap) end::float8
    from projection.quota_terms t
    where t.subject = q.holder and t.per = q.per and t.meter = q.meter and t.window_kind = q.window_kind
      and t.reset_position = q.reset_position
      and not exists (select from projection.quota_terms n where n.subject = q.holder and n.per = q.per
        and n.meter = q.meter and n.window_kind = q.window_kind and n.position >= t.until_position
        and n.from_minute <= q.window_start)
  )`;

/**
 * Whose windows a run looks at: those of accounts and keys, and apart those of end users, sessions and tags,
 * of which only used ones are read: there may be millions.
 */
const LOOKS = {
  quota: sql<boolean>`per = ${sql.lit(PER_HOLDER)}`,
  // The condition of the index quota_window_near.
  quota_apart: sql<boolean>`per <> ${sql.lit(PER_HOLDER)} and used > 0
    and used::double precision >= cap::double precision * 0.8`,
};
type Look = keyof typeof LOOKS;

/**
 * The windows above one position up to another that are used enough, with the last position that was looked
 * at and the number of windows. None lasts longer than a month, or it never ends. Without one that is used
 * enough it is one row, whose `subject` and what follows are null.
 */
export const changedQuotas = (look: Look, after: string, upTo: string) =>
  db
    .with(
      (name) => name('seen').materialized(),
      () =>
        db
          .selectFrom('projection.quota_window')
          .selectAll()
          .where(LOOKS[look])
          .where('position', '>', after)
          .where('position', '<=', upTo)
          .orderBy('position')
          .fetch(WINDOWS_MAX, 'with ties'),
    )
    .selectFrom(({ selectFrom }) =>
      selectFrom('seen')
        .select(({ fn }) => [fn.max('position').as('position'), fn.countAll().as('count')])
        .as('s'),
    )
    .leftJoin('seen as q', (join) =>
      join.on(sql<boolean>`q.used * 100.0 >= q.cap * ${sql.lit(Math.min(...QUOTA_PERCENTS))}::numeric`)
        .on(sql<boolean>`(q.window_kind = ${sql.lit(WINDOW_KINDS.lifetime)}
          or q.window_start > extract(epoch from statement_timestamp()) / 60 - 32 * 24 * 60)`),
    )
    .leftJoin('projection.account as a', 'a.id', 'q.account')
    .select([
      sql<number | null>`s.position::float8`.as('last'),
      sql<number>`s.count::int`.as('count'),
      'q.subject',
      'q.per',
      'q.account',
      'a.name as account_name',
      'q.meter',
      'q.window_kind',
      'q.window_start',
      sql<number | null>`q.reset_position::float8`.as('reset_position'),
      sql<number | null>`q.cap::float8`.as('cap'),
      sql<number | null>`q.used::float8`.as('used'),
      HARD_CAP.as('hard_cap'),
    ])
    .orderBy('q.position')
    .orderBy('q.subject');

/** By group the alerts of end users, sessions and tags that were raised on the day of a time (UTC). */
export async function countApart(client: ClientBase, now: Date): Promise<Map<string, number>> {
  const group = sql<string>`concat_ws('/', kind, account, ${sql.join(
    APART_COUNTED_BY.map((name) => sql`details->>${sql.lit(name)}`),
  )})`;
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.alert')
      .select([group.as('name'), sql<number>`count(*)::int`.as('count')])
      .where('raised_at', '>=', new Date(now.toISOString().slice(0, 10)))
      .where(sql<boolean>`details ? 'per'`)
      .groupBy(group),
  );
  return new Map(rows.map(({ name, count }) => [name, count]));
}

/**
 * Raises an alert for each quota that has crossed another threshold, and for each hard one that was exceeded.
 * Only windows that changed since the last run are read; later changes are left to the next run. If two runs
 * overlap, the alert's topic makes sure that it is raised once.
 * @returns the milliseconds until the next run.
 */
export async function watchQuotas(client: ClientBase): Promise<number> {
  const waits = [];
  for (const look of Object.keys(LOOKS) as Look[]) waits.push(await lookAt(client, look));
  return Math.min(...waits);
}

async function lookAt(client: ClientBase, look: Look): Promise<number> {
  const state = await rowOf(
    client,
    db
      .selectFrom('daybook.projection as p')
      .leftJoin('daybook.alert_look as l', (join) => join.on('l.kind', '=', look))
      .select(['l.position as looked', 'p.position as reached'])
      .select(sql<Date>`statement_timestamp()`.as('now'))
      .where('p.name', '=', 'quotas')
      .where('p.is_live', '=', true),
  );
  if (state === undefined || Number(state.looked ?? 0) >= Number(state.reached)) return LOOK_MS;
  const rows = await rowsOf(client, changedQuotas(look, state.looked ?? '0', state.reached));
  const used = rows.filter((row): row is typeof row & QuotaFigures => row.subject !== null);
  const raised = await readRaised(
    client,
    used.flatMap((quota) => [...quotaTopics(quota), overdraftTopic(quota)]),
  );
  const nowMs = state.now.getTime();
  const due: Alert[] = used
    .flatMap((quota) => [quotaAlert(quota, raised, nowMs), overdraftAlert(quota, raised)])
    .filter((alert) => alert !== null);
  const isBounded = due.some((alert) => apartGroup(alert) !== null);
  await raiseAlerts(client, isBounded ? boundApart(due, await countApart(client, state.now), nowMs) : due);
  const isAll = (rows[0]?.count ?? 0) < WINDOWS_MAX;
  await countOf(
    client,
    db
      .insertInto('daybook.alert_look')
      .values({ kind: look, position: isAll ? state.reached : (rows[0]?.last ?? state.reached) })
      .onConflict((conflict) =>
        conflict
          .column('kind')
          .doUpdateSet({ position: sql`greatest(alert_look.position, excluded.position)` }),
      ),
  );
  return isAll ? LOOK_MS : 0;
}
