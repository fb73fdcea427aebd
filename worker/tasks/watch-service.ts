import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alert-log.ts';
import {
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
} from '#db/alerts.ts';
import { END_REASONS, type EndReason } from '#db/events.ts';

/** Keys in one look; the nearest to their end first, so that nothing is told too late. */
const KEYS_MAX = 1_000;
/** An upstream is judged by the calls of the last minutes, at a high rate by the newest of them: this look reads no more. */
const UPSTREAM_MINUTES = 5;
const CALLS_MAX = 20_000;

/** What is the upstream's fault for certain: one that refuses what a client asked for is well. */
const FAULTS: readonly EndReason[] = ['upstream_cut', 'upstream_error', 'upstream_unreachable', 'timed_out'];

const ENDING_KEYS = `select k.id, k.account, a.name as account_name, k.name, k.created_at, k.expires_at
  from projection.key k left join projection.account a on a.id = k.account
  where k.expired_at is null and k.revoked_at is null
    and k.expires_at between clock_timestamp() and clock_timestamp() + $1 * interval '1 day'
  order by k.expires_at limit ${KEYS_MAX}`;
const UPSTREAMS = `select upstream, count(*)::int as ended, count(*) filter (where end_reason = any($1))::int as failed
  from (select upstream, end_reason from projection.request
    where accepted_at > clock_timestamp() - interval '${UPSTREAM_MINUTES} minutes' and end_reason is not null and upstream is not null
    order by accepted_at desc limit ${CALLS_MAX}) newest
  group by upstream`;
/** The age of the first event that some projection lacks; the newest one that it has may be from long before. */
const BEHIND = `select (p.head - p.position)::float8 as events,
    coalesce((select extract(epoch from clock_timestamp() - l.at) * 1000 from daybook.log l
      where l.shard = 0 and l.position = p.position + 1), 0)::float8 as ms
  from (select min(position) as position, daybook.head(0::smallint) as head from daybook.projection) p`;

/** Looks at the installation once: keys that end soon, upstreams that fail, projections that are behind. */
export async function watchService(client: ClientBase): Promise<void> {
  const { rows: times } = await client.query<{ now: Date }>('select clock_timestamp() as now');
  const nowMs = times[0]?.now.getTime() ?? 0;

  const { rows: behind } = await client.query<BehindFigures>(BEHIND);
  const { rows: upstreams } = await client.query<UpstreamFigures>(UPSTREAMS, [FAULTS.map((reason) => END_REASONS[reason])]);
  const { rows: keys } = await client.query<EndingKey>(ENDING_KEYS, [Math.max(...KEY_NOTICE_DAYS)]);
  const raised = await readRaised(client, [
    PROJECTOR_TOPIC,
    ...upstreams.map(({ upstream }) => upstreamTopic(upstream)),
    ...keys.flatMap(keyTopics),
  ]);
  const last = (topic: string): number => raised.get(topic) ?? 0;
  const due = [
    ...behind.map((figures) => projectorAlert(figures, last(PROJECTOR_TOPIC))),
    ...upstreams.map((figures) => upstreamAlert(figures, last(upstreamTopic(figures.upstream)))),
    ...keys.map((key) => keyAlert(key, raised, nowMs)),
  ];
  await raiseAlerts(client, due.filter((alert) => alert !== null));
}
