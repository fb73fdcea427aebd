import { type Client, DatabaseError } from 'pg';
import { archive } from '#db/archive/archive.ts';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { WorkerConfig } from '#db/configuration/worker-config.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

export type ArchiveTaskOptions = {
  config: Pick<WorkerConfig, 'ARCHIVE_DIR' | 'ARCHIVE_KEEP_PARTITIONS' | 'ARCHIVE_DROP'>;
  /** Opens a connection as the owner. */
  connect: () => Promise<Client>;
  log: Logger;
  /** Aborts the run; the next one continues. */
  signal: AbortSignal;
};

const INSUFFICIENT_PRIVILEGE = '42501';

/**
 * Archives old partitions of the log, if an archive is configured. After an error the next run continues: a
 * log that can't be archived stays complete in the database.
 * @throws the error, after a log line for the operator.
 */
export async function archiveTask({ config, connect, log, signal }: ArchiveTaskOptions): Promise<void> {
  const { ARCHIVE_DIR: directory, ARCHIVE_KEEP_PARTITIONS: keep, ARCHIVE_DROP } = config;
  if (directory === undefined) return;
  try {
    const result = await archive({ connect, directory, keep, drop: ARCHIVE_DROP === 'on', signal });
    if (result === null) return;
    const { archived, detached, dropped, waiting } = result;
    if (archived.length + detached.length + dropped.length > 0)
      log.info({ archived, detached, dropped }, 'log partitions archived');
    if (waiting !== null) log.debug({ waiting }, 'archiving waits');
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ArchiveDamageError) {
      log.error(
        { position: error.position, problem: error.message },
        'log or archive damaged; partition kept in the database',
      );
    } else if (error instanceof StoreError) log.error({ problem: error.message }, 'archive not usable');
    else if (error instanceof DatabaseError && error.code === INSUFFICIENT_PRIVILEGE) {
      log.error(
        "login does not own the log and can't detach a partition; run `daybook archive run` with the owner's",
      );
    } else log.error(errorFields(error), 'archiving failed; retrying');
    throw error;
  }
}
