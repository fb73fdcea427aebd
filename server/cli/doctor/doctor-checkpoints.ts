import { sql } from 'kysely';
import type { Client } from 'pg';
import type { Finding } from '#server/cli/doctor/finding.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';
import { selectNewestCheckpoint } from '#db/tlog/checkpoint-store.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { readLogState, requireConsistent } from '#db/tlog/log-state.ts';
import type { Config } from '#server/process/config.ts';

/** A checkpoint covers an event within ten seconds, and within this even when another worker takes over. */
const UNCOVERED_MAX_MS = 60_000;

/**
 * The number of events of the newest epoch that no checkpoint covers, the age of the oldest of them, and
 * whether a server is running that expects them to be covered.
 */
const coverage = () =>
  db
    .selectFrom(sql`(values (1))`.as<'one'>(sql`one`))
    .leftJoinLateral(selectNewestCheckpoint().select(['size', 'published_at']).as('c'), (join) =>
      join.onTrue(),
    )
    .select(({ exists, selectFrom }) => [
      sql<number | null>`c.size::float8`.as('size'),
      sql<number | null>`extract(epoch from statement_timestamp() - c.published_at)::float8`.as('age_secs'),
      sql<number>`daybook.head(${SHARD})::float8 - coalesce(c.size, 0)::float8`.as('uncovered'),
      sql<number | null>`extract(epoch from statement_timestamp() - (
        select at from daybook.log_batch where shard = ${SHARD} and last_position > coalesce(c.size, 0)
        order by last_position limit 1))::float8 * 1000`.as('uncovered_ms'),
      exists(
        selectFrom('daybook.instance')
          .select('id')
          .where('dead_at', 'is', null)
          .where('name', 'like', 'server %'),
      ).as('serves'),
    ]);

/** Checks the age of the events that no checkpoint covers, and the log against the published checkpoint. */
export async function checkCheckpoints(
  client: Client,
  config: Pick<Config, 'DAYBOOK_DATA' | 'PUBLISH_DIR'>,
): Promise<Finding> {
  const check = 'checkpoints';
  try {
    await requireConsistent(client, publishDirectory(config), await readLogState(client));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (!(error instanceof MissingHashesError)) return { check, ok: false, detail: error.message };
  }
  const { size, age_secs, uncovered, uncovered_ms, serves } = await onlyRowOf(client, coverage());
  const newest =
    size === null ? 'none yet' : `the newest covers position ${size}, ${Math.round(age_secs ?? 0)} s ago`;
  if (uncovered <= 0 || uncovered_ms === null)
    return { check, ok: true, detail: `${newest}; no newer events` };
  const behind = `${uncovered} newer events, the oldest ${Math.round(uncovered_ms / 1_000)} s old`;
  const isOverdue = serves && uncovered_ms > UNCOVERED_MAX_MS;
  return {
    check,
    ok: !isOverdue,
    detail: `${newest}; ${behind}${isOverdue ? ': start a worker, or see its log for the reason' : ''}`,
  };
}
