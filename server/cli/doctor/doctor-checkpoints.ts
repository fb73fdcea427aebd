import type { Client } from 'pg';
import type { Finding } from '#server/cli/doctor/finding.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
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
const READ_COVERED = `select c.size::float8 as size,
    extract(epoch from clock_timestamp() - c.published_at)::float8 as age_secs,
    daybook.head($1)::float8 - coalesce(c.size, 0)::float8 as uncovered,
    extract(epoch from clock_timestamp() - (
      select at from daybook.log_batch
      where shard = $1 and last_position > coalesce(c.size, 0)
      order by last_position limit 1
    ))::float8 * 1000 as uncovered_ms,
    exists (select from daybook.instance where dead_at is null and name like 'server %') as serves
  from (values (1)) one left join lateral (
    select size, published_at from daybook.checkpoint
    where shard = $1 order by epoch desc, size desc limit 1
  ) c on true`;
type Covered = {
  size: number | null;
  age_secs: number | null;
  uncovered: number;
  uncovered_ms: number | null;
  serves: boolean;
};

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
  const { rows } = await client.query<Covered>(READ_COVERED, [SHARD]);
  const { size, age_secs, uncovered, uncovered_ms, serves } = rows[0] as Covered;
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
