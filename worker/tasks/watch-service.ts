import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import {
  type Alert,
  keyAlert,
  KEY_NOTICE_DAYS,
  keyTopics,
  implausibleAlert,
  implausibleTopic,
  PROJECTOR_TOPIC,
  projectorAlert,
  upstreamAlert,
  upstreamTopic,
} from '#db/alerts/alerts.ts';
import { END_REASONS, type EndReason, USAGE_SOURCES } from '#db/events/endings.ts';
import { selectUnprojected } from '#db/projections/state.ts';
import { db, rowsOf } from '#db/schema/query.ts';

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
/** Models per run that are alerted for; an upstream that reports wrong usage may have many. */
const IMPLAUSIBLE_MAX = 100;

/** End reasons that are certainly the upstream's fault. An upstream that rejects a call is healthy. */
const FAULTS: readonly EndReason[] = [
  'upstream_disconnected',
  'upstream_error',
  'upstream_unreachable',
  'timed_out',
];

/** Keys that expire within so many days. */
export const endingKeys = (days: number) =>
  db
    .selectFrom('projection.key as k')
    .leftJoin('projection.account as a', 'a.id', 'k.account')
    .select(['k.id', 'k.account', 'a.name as account_name', 'k.name', 'k.created_at'])
    .select(({ ref }) => [
      ref('k.expires_at').$notNull().as('expires_at'),
      sql<Date>`statement_timestamp()`.as('now'),
    ])
    .where('k.expired_at', 'is', null)
    .where('k.revoked_at', 'is', null)
    .where('k.expires_at', '>', sql<Date>`statement_timestamp()`)
    .where('k.expires_at', '<=', sql<Date>`statement_timestamp() + ${days} * interval '1 day'`)
    .orderBy('k.expires_at')
    .limit(KEYS_MAX);
/** The newest calls of all upstreams that have ended. */
const newestCalls = () =>
  db
    .selectFrom('projection.request')
    .select(({ ref }) => [
      ref('upstream').$notNull().as('upstream'),
      ref('model').$notNull().as('model'),
      'end_reason',
      'usage_source',
    ])
    .where('accepted_at', '>', sql<Date>`statement_timestamp() - ${UPSTREAM_MINUTES} * interval '1 minute'`)
    .where('end_reason', 'is not', null)
    .where('upstream', 'is not', null)
    .orderBy('accepted_at', 'desc')
    .limit(CALLS_MAX);
/** The newest calls of each upstream that have ended, and how many of them failed by its fault. */
export function upstreamFigures() {
  const faults = FAULTS.map((reason) => END_REASONS[reason]);
  return db
    .selectFrom(newestCalls().as('newest'))
    .select([
      'upstream',
      sql<number>`count(*)::int`.as('ended'),
      sql<number>`count(*) filter (where end_reason = any(${faults}))::int`.as('failed'),
    ])
    .groupBy('upstream');
}
/** How many of the newest calls reported a usage that is not possible, by upstream and model. */
export const implausibleFigures = () =>
  db
    .selectFrom(newestCalls().as('newest'))
    .select(['upstream', 'model', sql<number>`count(*)::int`.as('calls')])
    .select(sql<Date>`statement_timestamp()`.as('now'))
    .where('usage_source', '=', USAGE_SOURCES.implausible)
    .groupBy(['upstream', 'model'])
    .limit(IMPLAUSIBLE_MAX);
/** Raises an alert while the projections are behind the log, and when they have caught up. */
export async function watchProjections(client: ClientBase): Promise<void> {
  const rows = await rowsOf(client, selectUnprojected());
  const raised = await readRaised(client, [PROJECTOR_TOPIC]);
  await raise(
    client,
    rows.map((figures) => projectorAlert(figures, raised.get(PROJECTOR_TOPIC) ?? 0)),
  );
}

/** Raises an alert for each upstream that fails or has recovered. */
export async function watchUpstreams(client: ClientBase): Promise<void> {
  const rows = await rowsOf(client, upstreamFigures());
  const raised = await readRaised(
    client,
    rows.map(({ upstream }) => upstreamTopic(upstream)),
  );
  await raise(
    client,
    rows.map((figures) => upstreamAlert(figures, raised.get(upstreamTopic(figures.upstream)) ?? 0)),
  );
}

/** Raises an alert for each model whose upstream reports a usage that is not possible, once a day. */
export async function watchUsageReports(client: ClientBase): Promise<void> {
  const rows = await rowsOf(client, implausibleFigures());
  const raised = await readRaised(
    client,
    rows.map((row) => implausibleTopic(row, row.now.getTime())),
  );
  await raise(
    client,
    rows.map(({ now, ...figures }) => implausibleAlert(figures, raised, now.getTime())),
  );
}

/** Raises an alert for each key that expires soon. */
export async function watchKeys(client: ClientBase): Promise<void> {
  const rows = await rowsOf(client, endingKeys(Math.max(...KEY_NOTICE_DAYS)));
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
