import type { Client } from 'pg';
import type { Finding } from '#server/cli/doctor/finding.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { onlyRowOf } from '#db/schema/query.ts';
import { selectCoverage } from '#db/tlog/coverage.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { readLogState, requireConsistent } from '#db/tlog/log-state.ts';
import type { Config } from '#server/process/config.ts';

/** A checkpoint covers an event within ten seconds, and within this even when another worker takes over. */
const UNCOVERED_MAX_MS = 60_000;

/** The coverage of the log by checkpoints, and whether a server is running that expects it. */
const coverage = () =>
  selectCoverage().select(({ exists, selectFrom }) =>
    exists(
      selectFrom('daybook.instance')
        .select('id')
        .where('dead_at', 'is', null)
        .where('name', 'like', 'server %'),
    ).as('serves'),
  );

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
