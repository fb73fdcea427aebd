import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import {
  type Alert,
  type BehindFigures,
  type EndingKey,
  keyAlert,
  KEY_NOTICE_DAYS,
  keyTopics,
  PROJECTOR_TOPIC,
  projectorAlert,
  upstreamAlert,
  type UpstreamFigures,
  upstreamTopic,
} from '#db/alerts/alerts.ts';
import { END_REASONS, type EndReason } from '#db/events/events.ts';

/**
 * What each job watches. Each is a job of its own, so that one that fails doesn't stop the others. Bounds of
 * time are `statement_timestamp()`, which is stable: a volatile clock can't be the condition of an index, and
 * the query would read the whole history.
 */

/** Keys per run, the next to expire first, so that no notice is late. */
const KEYS_MAX = 1_000;
/** An upstream's failure rate is that of the last minutes and, at a high rate, of the newest calls. */
const UPSTREAM_MINUTES = 5;
const CALLS_MAX = 20_000;

/** End reasons that are certainly the upstream's fault. An upstream that rejects a call is healthy. */
const FAULTS: readonly EndReason[] = [
  'upstream_disconnected',
  'upstream_error',
  'upstream_unreachable',
  'timed_out',
];

/** `$1` is the longest notice in days. */
export const ENDING_KEYS = `select k.id, k.account, a.name as account_name, k.name, k.created_at,
    k.expires_at,
    statement_timestamp() as now
  from projection.key k left join projection.account a on a.id = k.account
  where k.expired_at is null and k.revoked_at is null
    and k.expires_at > statement_timestamp()
    and k.expires_at <= statement_timestamp() + $1 * interval '1 day'
  order by k.expires_at limit ${KEYS_MAX}`;
/** `$1` are the codes of the end reasons that count as failures. */
export const UPSTREAMS = `select upstream, count(*)::int as ended,
    count(*) filter (where end_reason = any($1))::int as failed
  from (select upstream, end_reason from projection.request
    where accepted_at > statement_timestamp() - interval '${UPSTREAM_MINUTES} minutes'
      and end_reason is not null and upstream is not null
    order by accepted_at desc limit ${CALLS_MAX}) newest
  group by upstream`;
/** The age of the first event not yet projected; the last projected event can be much older. */
export const BEHIND = `select (p.head - p.position)::float8 as events,
    coalesce((select extract(epoch from statement_timestamp() - l.at) * 1000
      from daybook.log l
      where l.shard = 0 and l.position = p.position + 1), 0)::float8 as ms
  from (select min(position) as position, daybook.head(0::smallint) as head from daybook.projection) p`;

/** Raises an alert while the projections are behind the log, and when they have caught up. */
export async function watchProjections(client: ClientBase): Promise<void> {
  const { rows } = await client.query<BehindFigures>(BEHIND);
  const raised = await readRaised(client, [PROJECTOR_TOPIC]);
  await raise(
    client,
    rows.map((figures) => projectorAlert(figures, raised.get(PROJECTOR_TOPIC) ?? 0)),
  );
}

/** Raises an alert for each upstream that fails or has recovered. */
export async function watchUpstreams(client: ClientBase): Promise<void> {
  const { rows } = await client.query<UpstreamFigures>(UPSTREAMS, [
    FAULTS.map((reason) => END_REASONS[reason]),
  ]);
  const raised = await readRaised(
    client,
    rows.map(({ upstream }) => upstreamTopic(upstream)),
  );
  await raise(
    client,
    rows.map((figures) => upstreamAlert(figures, raised.get(upstreamTopic(figures.upstream)) ?? 0)),
  );
}

/** Raises an alert for each key that expires soon. */
export async function watchKeys(client: ClientBase): Promise<void> {
  const { rows } = await client.query<EndingKey & { now: Date }>(ENDING_KEYS, [Math.max(...KEY_NOTICE_DAYS)]);
  const raised = await readRaised(client, rows.flatMap(keyTopics));
  await raise(
    client,
    rows.map((key) => keyAlert(key, raised, key.now.getTime())),
  );
}

async function raise(client: ClientBase, due: readonly (Alert | null)[]): Promise<void> {
  await raiseAlerts(
    client,
    due.filter((alert) => alert !== null),
  );
}
